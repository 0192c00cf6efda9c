"""Attribution in rounds on embeddings of PACS: what growing does to the joint decision, pair by pair.

    python benchmarks/pacs_rounds.py --data pacs_efficientnet_lite0.npz --out docs/results/pacs-rounds.json

The tasks are those of ``wildspec bench pacs-embeddings``; a fifth of the labelled samples is held out for calibration. The
decision is `wildspec.evaluation.decide_jointly` on the embeddings as they are, with attribution stopped after one round, as
it comes, and without the condition that distances be two groups. Truth is used for counting alone.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from wildspec.bench.pacs_embeddings import MIXTURES, PAIRS, Task, load_embeddings, make_task
from wildspec.detectors import attribution, wild_knn
from wildspec.embeddings.rows import held_out_rows
from wildspec.evaluation import auroc, decide_jointly
from wildspec.files import write_json
from wildspec.provenance import environment

KINDS = ("id", "covariate", "semantic")
HELD_OUT = 0.2
VARIANTS: dict[str, tuple[int, float]] = {  # rounds at most; share of the variance that the cut must explain to go on
    "one": (1, attribution.TWO_GROUPS),
    "default": (attribution.MOST_ROUNDS, attribution.TWO_GROUPS),
    "unconditional": (attribution.MOST_ROUNDS, -1.0),
}


def measure(task: Task, rounds: int, two_groups: float) -> dict[str, Any]:
    """Rounds taken, shares of the pool attributed to a class, by kind, and the decision on the test samples."""
    held = held_out_rows(task.labels, HELD_OUT, np.random.default_rng(task.seed))
    kept = np.setdiff1d(np.arange(len(task.labels)), held)
    with (
        patch.object(wild_knn, "attribute", partial(attribution.attribute, rounds=rounds)),
        patch.object(attribution, "TWO_GROUPS", two_groups),
    ):
        decision = decide_jointly(task.labelled[kept], task.labels[kept], task.wild, task.labelled[held])
    found = decision.detector.attribution_
    kind = np.repeat(np.arange(len(KINDS)), task.counts)
    scores = [decision.score(torch.from_numpy(rows)).numpy() for rows in task.tests]
    id_kept, covariate_kept, semantic_kept = (
        float((~decision.reject(torch.from_numpy(rows))).float().mean()) for rows in task.tests
    )
    return {
        "rounds": found.rounds,
        "attributed": {name: float(found.known.numpy()[kind == i].mean()) for i, name in enumerate(KINDS)},
        "fs_auroc": auroc(np.concatenate(scores[:2]), scores[2]),
        "id_kept": id_kept, "covariate_kept": covariate_kept, "detection_rate": 1 - semantic_kept,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the .npz file with features, labels, domain")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    data, records = load_embeddings(given.data), []
    for mixture in MIXTURES:
        for source, target in PAIRS:
            for seed in range(given.seeds):
                task = make_task(data, source, target, seed, mixture)
                at = {"mixture": mixture, "source": source, "target": target, "seed": seed}
                records += [{**at, "variant": name, **measure(task, *how)} for name, how in VARIANTS.items()]
    made = environment()
    made["command"] = made["command"].replace(str(given.data), given.data.name)
    write_json(
        given.out,
        {"schema": "wildspec.pacs-rounds/1", "environment": made, "data_sha256": data.sha256, "records": records},
    )
    print(f"{len(records)} records in {given.out}")


if __name__ == "__main__":
    main()
