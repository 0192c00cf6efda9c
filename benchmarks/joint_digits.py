"""The joint decision on digits: baselines, ours, every part on and off; rates and mixtures beside the truth.

    python benchmarks/joint_digits.py --seeds 0,1,2        writes docs/results/joint-digits.json, then the page

The recipes were chosen on seeds 100 to 105. Seeds run side by side, each on one thread, some five minutes each.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec import evaluation
from wildspec.bench.demo import (
    ALPHA,
    PRETRAIN,
    RECIPES,
    DigitsNetwork,
    Start,
    decide,
    measure,
    start_on,
    train_on,
)  # fmt: skip
from wildspec.data.digits_task import DigitsTask, digits_task
from wildspec.detectors import WildKNN
from wildspec.evaluation import Evaluation, JointCalibration, calibrate_jointly
from wildspec.files import write_json
from wildspec.methods import Stage, build_method
from wildspec.provenance import environment

OUT = Path(__file__).resolve().parent.parent / "docs" / "results" / "joint-digits.json"
SCHEMA = "wildspec.joint-digits/1"
ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2)
RESPLITS = 200
POOL = 330
COMPOSITIONS = ((0.0, 0.0), (0.5, 0.0), (0.25, 0.05), (0.5, 0.05), (0.5, 0.1), (0.25, 0.2), (0.5, 0.2), (0.4, 0.3),
                (0.3, 0.5), (0.0, 0.1), (0.0, 0.3), (0.0, 0.5))  # fmt: skip
PLUS = RECIPES["spectral+"]
STILL = PRETRAIN.scaled(name="pseudo_label", epochs=1 / 3, lr=1e-9, warmup=0.0)  # attributes, learns nothing
Found = tuple[str, str, Evaluation, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    began = time.monotonic()
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(one_seed, seeds))
    document = {
        "schema": SCHEMA, "seeds": seeds, "alpha": ALPHA, "resplits": RESPLITS, "pool": POOL,
        **{key: [row for part in parts for row in part[key]] for key in ("rows", "rates", "mixtures")},
        "seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(sum(part["cpu_seconds"] for part in parts), 1),
        "environment": environment(),
    }  # fmt: skip
    write_json(given.out, document)
    print(f"wrote {given.out}; now: python tools/make_results.py", file=sys.stderr)


def one_seed(seed: int) -> dict[str, Any]:
    """Everything about one seed, on one thread."""
    torch.set_num_threads(1)
    began = time.process_time()
    task = digits_task(seed)
    rows = []
    ours: DigitsNetwork | None = None
    for group, title, found, more in experiments(task, seed):
        if "trained" in more:
            ours = more.pop("trained")
        rows.append({"group": group, "title": title, "seed": seed, "metrics": found.to_json(), **more})
        print(f"seed {seed}, {time.process_time() - began:.0f} s: {title}: fs_fpr95 {100 * found.fs_fpr95:.1f}",
              file=sys.stderr, flush=True)  # fmt: skip
    assert ours is not None
    return {
        "rows": rows, "rates": rates(ours, task, seed), "mixtures": mixtures(ours, task, seed),
        "cpu_seconds": time.process_time() - began,
    }  # fmt: skip


def experiments(task: DigitsTask, seed: int) -> Iterator[Found]:
    """Group, title, metrics and more of every row."""
    start = start_on(task, seed, PRETRAIN)
    erm = train_on(task, "erm", seed)
    spectral = train_on(task, "spectral", seed, start=start)
    for name, trained in (("cross-entropy", erm), ("spectral", spectral)):
        for title, detector in (("KNN", "knn"), ("energy", "energy"), ("WildKNN, joint threshold", "wild_knn")):
            yield "baselines", f"{name} + {title}", *_judged(trained, task, detector)
    ours = train_on(task, "spectral+", seed, start=start)
    found, more = _judged(ours, task, "wild_knn")
    yield "ours", "spectral+, joint decision", found, {**more, **_promoted(ours, task), "trained": ours}
    yield from _parts(task, seed, start)


def _judged(trained: DigitsNetwork, task: DigitsTask, detector: str) -> tuple[Evaluation, dict[str, Any]]:
    decision = decide(trained, task, detector)
    chosen, calibration = decision.detector, decision.calibration
    more: dict[str, Any] = {}
    if isinstance(chosen, WildKNN) and isinstance(calibration, JointCalibration):
        assert chosen.attribution_ is not None
        inside = chosen.attribution_.known.numpy()
        more["bank"] = np.bincount(task.wild_component[inside], minlength=3).tolist()
        more["mixture"] = calibration.mixture.to_json()
        more["kept_known"] = calibration.kept_known[0]
    return measure(trained, decision), more


def _promoted(trained: DigitsNetwork, task: DigitsTask) -> dict[str, Any]:
    named = trained.learner.wild_label.numpy() >= 0  # type: ignore[operator,union-attr]
    return {"promoted": np.bincount(task.wild_component[named], minlength=3).tolist()}


def _parts(task: DigitsTask, seed: int, start: Start) -> Iterator[Found]:
    """One part of spectral+ changed at a time."""
    promote, finetune = PLUS[1:]
    changed: dict[str, tuple[tuple[Stage, ...], dict[str, Any]]] = {
        "no promote stage (attribution kept)": ((PRETRAIN, STILL, finetune), {}),
        "no pseudo-labels in fine-tuning": (PLUS, {"pseudo": 0.0}),
        "neither": ((PRETRAIN, STILL, finetune), {"pseudo": 0.0}),
        "two rounds": ((PRETRAIN, promote, promote.scaled(name="pseudo_label2"), finetune), {"rounds": 2}),
        "one view to attribute": (PLUS, {"views": 1}),
    }
    for title, (stages, hparams) in changed.items():
        learner = build_method("spectral+", len(task.labelled.classes), **hparams)
        trained = train_on(task, "spectral+", seed, start=start, stages=stages, learner=learner)
        found, more = _judged(trained, task, "wild_knn")
        yield "parts", title, found, {**more, **_promoted(trained, task)}


def rates(ours: DigitsNetwork, task: DigitsTask, seed: int) -> list[dict[str, Any]]:
    """Realized rates of rejection at several nominal ones, for the conformal threshold alone and for the joint one; means
    over random divisions of the clean held-out images into calibration and test."""
    chosen = decide(ours, task, "wild_knn").detector
    assert isinstance(chosen, WildKNN)
    seen = {part: chosen.score(features=outputs.features).double().numpy() for part, outputs in ours.outputs.items()}
    clean = np.concatenate([seen["calibration"], seen["id_test"]])
    size, rng = len(seen["calibration"]), np.random.default_rng(seed)
    orders = [rng.permutation(len(clean)) for _ in range(RESPLITS)]
    found = []
    for alpha in ALPHAS:
        made: dict[str, list[list[float]]] = {"conformal": [], "joint": []}
        for order in orders:
            joint = calibrate_jointly(clean[order[:size]], chosen.wild_scores_, alpha)
            for name, threshold in (("conformal", joint.id_threshold), ("joint", joint.threshold)):
                kinds = (clean[order[size:]], seen["covariate_test"], seen["semantic_test"])
                made[name].append([float(np.mean(values > threshold)) for values in kinds])
        for name, values in made.items():
            mean = np.mean(values, axis=0).tolist()
            found.append({"seed": seed, "alpha": alpha, "threshold": name,
                          **dict(zip(("id", "covariate", "unknown"), mean, strict=True))})  # fmt: skip
    return found


def mixtures(ours: DigitsNetwork, task: DigitsTask, seed: int) -> list[dict[str, Any]]:
    """Estimated against true shares of pools made of wild and test images, the network as it is."""
    outputs, component, rng = ours.outputs, task.wild_component, np.random.default_rng(seed)
    wild = outputs["wild"].features
    kinds = [
        torch.cat([wild[torch.from_numpy(component == i)], outputs[part].features])
        for i, part in enumerate(("id_test", "covariate_test", "semantic_test"))
    ]
    found = []
    for pi_c, pi_s in COMPOSITIONS:
        counts = (POOL - round(POOL * pi_c) - round(POOL * pi_s), round(POOL * pi_c), round(POOL * pi_s))
        rows = [part[torch.from_numpy(rng.permutation(len(part))[:n])] for part, n in zip(kinds, counts, strict=True)]
        pool = torch.cat(rows)
        seen = evaluation.Outputs(pool, torch.zeros(POOL, outputs["labelled"].logits.shape[1]))
        made = evaluation.decide(WildKNN(), outputs["labelled"], seen, outputs["calibration"])
        assert isinstance(made.calibration, JointCalibration)
        mixture = made.calibration.mixture
        found.append({"seed": seed, "true_pi_c": counts[1] / POOL, "true_pi_s": counts[2] / POOL, **mixture.to_json()})
    return found


if __name__ == "__main__":
    main()
