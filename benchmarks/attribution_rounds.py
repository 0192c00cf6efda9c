"""Who is attributed to a known class, round by round, in the feature space of finished benchmark runs.

    python benchmarks/attribution_rounds.py --samples seed-0=RUN/.../svhn.samples.safetensors ... \
        --out docs/results/attribution-rounds.json

``wildspec bench`` leaves with every run the features and labels of 2,000 ID, covariate and semantic test images each. Here
three quarters of the ID images are the labelled ones; the others, all covariate and a fifth of the semantic ones are a wild
pool. Nothing is learned from the outcome but how far attribution reaches; truth is used for counting alone.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from wildspec.detectors.attribution import MOST_ROUNDS, attribute
from wildspec.files import write_json
from wildspec.provenance import environment

KINDS = ("id", "covariate", "semantic")


def count(samples: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
    """For every number of rounds up to the last that adds anybody: the cut, shares attributed of each kind, and the share of
    attributed covariate images that have their own class."""
    features = {kind: samples[f"{kind}.features"].float() for kind in KINDS}
    labels = samples["id.labels"]
    known, fifth = 3 * len(labels) // 4, len(features["semantic"]) // 5
    parts = {"id": features["id"][known:], "covariate": features["covariate"], "semantic": features["semantic"][:fifth]}
    pool = torch.cat(list(parts.values()))
    kind = torch.arange(len(KINDS)).repeat_interleave(torch.tensor([len(part) for part in parts.values()]))
    truth = torch.cat([labels[known:], samples["covariate.labels"], torch.full((fifth,), -1)])
    rows: list[dict[str, Any]] = []
    for rounds in range(1, MOST_ROUNDS + 1):
        found = attribute(features["id"][:known], labels[:known], pool, rounds=rounds)
        shares = {name: float(found.known[kind == i].float().mean()) for i, name in enumerate(KINDS)}
        reached = found.known & (kind == 1)
        right = float((found.label == truth)[reached].float().mean()) if bool(reached.any()) else None
        rows.append({"rounds": rounds, "cut": found.cut, **shares, "covariate_right": right})
        if found.rounds < rounds:  # nobody was added
            return rows[:-1]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    named = dict(entry.split("=", 1) for entry in given.samples)
    made = environment()
    for path in named.values():
        made["command"] = made["command"].replace(path, "FILE")
    runs = {name: count(load_file(path)) for name, path in named.items()}
    write_json(given.out, {"schema": "wildspec.attribution-rounds/1", "runs": runs, "environment": made})
    for name, rows in runs.items():
        for row in (rows[0], rows[-1]):
            print(name, {key: round(value, 3) for key, value in row.items() if value is not None})


if __name__ == "__main__":
    main()
