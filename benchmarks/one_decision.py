"""A network trained end to end on digits: would the one rule of rows and frozen networks decide as well as its detector?

    python benchmarks/one_decision.py --seeds 0,1,2 --workers 2

Every network decides three times, on the same features: by the detector and threshold that `fit` takes for it, by the rule,
and by the rule with no shift looked for. Classes are those of the network's head each time, so accuracies are the same.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.bench.demo import ALPHA, PRETRAIN, SHIFT_AND_JITTER, start_on, train_on
from wildspec.data.digits_task import digits_task
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.thresholds import learn_thresholds
from wildspec.evaluation import Evaluation, Outputs, evaluate_outputs, evaluate_scores
from wildspec.files import write_json
from wildspec.graph.nearest import normalize
from wildspec.images.decision import learn_decision
from wildspec.images.train import SCORES
from wildspec.methods import build_method
from wildspec.provenance import environment

OUT = Path(__file__).resolve().parent / "results" / "one_decision.json"
METHODS = ("erm", "pu", "spectral", "spectral+")
SHOWN = ("id_acc", "ood_acc", "auroc", "fs_auroc", "id_kept", "covariate_kept", "detection_rate", "joint")


def one_seed(seed: int) -> list[dict[str, Any]]:
    """A row for each method and decision."""
    torch.set_num_threads(1)
    task = digits_task(seed)
    start, rows = start_on(task, seed, PRETRAIN), []
    for method in METHODS:
        stages, shared = None, start if method.startswith("spectral") else None
        if method == "pu":  # the demo has no recipe for it: that of erm, twice the views
            plain = build_method("pu", len(task.labelled.classes)).stages("fast")[0]
            stages = (plain.scaled(epochs=100, lr=0.05, batch_labelled=64, batch_wild=64, augmentation=SHIFT_AND_JITTER),)
        rows += decided(train_on(task, method, seed, start=shared, stages=stages).outputs, method, seed)
    return rows


def decided(seen: dict[str, Outputs], method: str, seed: int) -> list[dict[str, Any]]:
    """A row for each decision of one network."""
    made = learn_decision(seen["labelled"], seen["wild"], seen["calibration"], trained=SCORES.get(method))
    tests = {name: seen[f"{name}_test"] for name in ("id", "covariate", "semantic")}
    found = {
        "detector": evaluate_outputs(made.detector, made.threshold, **tests), "rule": by_rule(seen),
        "no shift": by_rule(seen, shift=False),
    }  # fmt: skip
    return [{"method": method, "decision": name, "seed": seed, **{metric: getattr(one, metric) for metric in SHOWN}}
            for name, one in found.items()]  # fmt: skip


def by_rule(outputs: dict[str, Outputs], shift: Any = "auto") -> Evaluation:
    """Only held-out samples calibrate: the network has learned from the labelled ones, so no turn of them is unseen."""
    rows = {name: normalize(seen.features.float()).numpy() for name, seen in outputs.items()}
    labels = {name: seen.labels.numpy() for name, seen in outputs.items() if seen.labels is not None}
    held = (rows["calibration"], labels["calibration"])
    count = outputs["labelled"].logits.shape[1]
    rule = fit_rule(rows["labelled"], labels["labelled"], rows["wild"], count, RuleSettings(shift=shift), held)
    thresholds = learn_thresholds(rule, held[0], ALPHA, held[1], apart=True)
    given: dict[str, Any] = {"threshold": thresholds.value}
    for name, part in (("id", "id_test"), ("covariate", "covariate_test"), ("semantic", "semantic_test")):
        decided = rule.decide(rows[part])
        given |= {f"{name}_scores": decided.score, f"{name}_rejected": thresholds.reject(decided)}
        if name != "semantic":
            given |= {f"{name}_pred": outputs[part].predictions.numpy(), f"{name}_labels": labels[part]}
    return evaluate_scores(**given)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        rows = [row for part in pool.map(one_seed, map(int, given.seeds.split(","))) for row in part]
    write_json(given.out, {"schema": "wildspec.one-decision/1", "rows": rows, "environment": environment()})
    for method, name in dict.fromkeys((row["method"], row["decision"]) for row in rows):
        mine = [[row[metric] for metric in SHOWN] for row in rows if (row["method"], row["decision"]) == (method, name)]
        means = zip(SHOWN, 100 * np.mean(mine, axis=0), strict=True)
        print(f"{method:10} {name:9}", *(f"{metric} {value:.1f}" for metric, value in means))


if __name__ == "__main__":
    main()
