"""What the theory has to say about each pair of domains: alpha and beta measured, before and after the shift is undone.

    python benchmarks/pacs_strengths.py --data pacs_efficientnet_lite0.npz     adds them to docs/results/pacs-embeddings.json

The true classes and domains of all samples of a pair are used: this explains the table, no method sees it.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.bench.pacs_embeddings import KNOWN, PAIRS, UNKNOWN, Embeddings, load_embeddings
from wildspec.files import read_json, write_json
from wildspec.graph.search import Rows, unit_rows
from wildspec.theory import measure_strengths

NAMES = {**KNOWN, **UNKNOWN}


def pair_strengths(data: Embeddings, source: str, target: str) -> dict[str, Any]:
    """alpha, beta, gamma in units of rho on rows of length 1 ("raw") and less the mean of their domain ("aligned")."""
    known = np.isin(data.labels, list(KNOWN))
    parts = [np.flatnonzero((data.domain == source) & known), np.flatnonzero(data.domain == target)]
    rows = [unit_rows(data.features[part]) for part in parts]
    classes = [NAMES[int(label)] for label in data.labels[np.concatenate(parts)]]
    domains = np.repeat([source, target], [len(part) for part in parts])
    found: dict[str, Any] = {"source": source, "target": target}
    for name, given in (("raw", rows), ("aligned", [_centred(part) for part in rows])):
        strengths = measure_strengths(np.concatenate(given), classes, domains)
        world = strengths.world(source, unknown=list(UNKNOWN.values()))
        links = world.connectivity
        found[name] = {
            "alpha": strengths.alpha, "beta": strengths.beta, "gamma": strengths.gamma, "stronger": world.winner,
            "class_strength": links.class_strength, "domain_strength": links.domain_strength,
            "predicted_ood_accuracy": world.ood_accuracy,
        }  # fmt: skip
    return found


def all_strengths(data: Embeddings) -> list[dict[str, Any]]:
    """Every ordered pair."""
    return [pair_strengths(data, source, target) for source, target in PAIRS]


def _centred(rows: Rows) -> Rows:
    return unit_rows(rows - rows.mean(axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/pacs-embeddings.json"))
    given = parser.parse_args()
    write_json(given.out, {**read_json(given.out), "strengths": all_strengths(load_embeddings(given.data))})


if __name__ == "__main__":
    main()
