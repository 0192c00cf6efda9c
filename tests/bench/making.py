"""Records for the tests of this folder."""

import json
from dataclasses import asdict
from typing import Any

from wildspec.bench.protocols import protocol
from wildspec.methods import build_method, preset_hparams
from wildspec.training.recipe import Recipe

METRIC_VALUES = {
    "id_acc": 0.93, "ood_acc": 0.86, "fpr95_id": 0.002, "auroc": 0.9995, "covariate_acceptance": 0.4, "fs_fpr95": 0.2,
    "fs_auroc": 0.95, "id_kept": 0.95, "covariate_kept": 0.5, "detection_rate": 0.99, "accuracy_kept": 0.96, "joint": 0.92,
    "id_acc_validation": 0.94,
}  # fmt: skip


def record(**changes: Any) -> dict[str, Any]:
    made = {
        "protocol": "cifar10", "method": "spectral", "detector": "knn", "semantic": "svhn",
        "covariate": "gaussian_noise", "severity": 1, "recipe": "fast", "seed": 0, **METRIC_VALUES,
        "seconds": 120.0, "views": 6_000_000,
        "splits": {"labelled": "ab" * 32}, "config": {"hparams": {"eta_l": 0.5, "eta_u": 2.0}},
        "command": "wildspec bench cifar10 --semantic svhn",
        "environment": {
            "created": "2025-01-01T00:00:00+00:00", "command": "", "commit": "abc",
            "versions": {"python": "3.11", "torch": "2.4"}, "hardware": {"cpu": "a processor", "cores": 2},
        },
    }  # fmt: skip
    return {**made, **changes}


def wide() -> list[dict[str, Any]]:
    harder = {str(level): {**METRIC_VALUES, "ood_acc": 0.9 - level / 10} for level in range(1, 6)}
    unseen = {"miniplaces": {**METRIC_VALUES, "fpr95_id": 0.63}, "textures10": {**METRIC_VALUES, "fpr95_id": 0.5}}
    return [record(seed=seed, severities=harder, unseen=unseen) for seed in (0, 1)]


def ran(recipe: Recipe, method: str = "spectral+", *, mirror: bool = False, **changes: Any) -> dict[str, Any]:
    """A record as the runner writes it today, with the stages of its recipe, and as it is read back."""
    fixed = {
        **preset_hparams(method, recipe.preset), **protocol("cifar10").hparams(method, changes.get("semantic", "svhn"))[0]
    }  # fmt: skip
    hparams = {**fixed, **recipe.hparams()}
    stages = [asdict(stage) for stage in recipe.stages(build_method(method, 10, **hparams))]
    config = {"model": "wrn40_2", "dropout": recipe.dropout, "hparams": hparams}
    config |= {"recipe": recipe.to_json(), "stages": stages}
    config |= {"mirror": True} if mirror else {}
    label = f"{recipe.label}, mirrored" if mirror else recipe.label
    return json.loads(json.dumps(record(method=method, recipe=label, config=config, **changes)))
