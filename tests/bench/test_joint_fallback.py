"""The comparison of thresholds for pools of one group: three answers, each recounted by hand from the scores."""

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.detectors.test_attribution import world
from tests.scripts import load_script

from wildspec.evaluation import decide_jointly


@pytest.fixture(scope="module")
def fallback() -> ModuleType:
    return load_script("benchmarks/joint_fallback.py")


@pytest.fixture
def trained() -> tuple[Any, Any]:
    """Features that stand for a network's: what the script reads of a trained model and of its task."""
    labelled, labels, wild, truth = world(0)
    held_out, _, fresh, fresh_truth = world(1)
    parts = {
        "labelled": labelled, "wild": wild, "calibration": held_out, "id_test": world(2)[0],
        "covariate_test": fresh[fresh_truth >= 0], "semantic_test": fresh[fresh_truth < 0],
    }  # fmt: skip
    outputs = {part: SimpleNamespace(features=rows) for part, rows in parts.items()}
    component = np.where(truth.numpy() < 0, 2, 1)
    return SimpleNamespace(outputs=outputs), SimpleNamespace(
        labelled=SimpleNamespace(labels=labels), wild_component=component
    )


def test_thresholds_are_recounted(fallback: ModuleType, trained: tuple[Any, Any]) -> None:
    model, task = trained
    seen = {part: outputs.features for part, outputs in model.outputs.items()}
    found = fallback.thresholds(model, task, seen["wild"])
    made = decide_jointly(seen["labelled"], task.labelled.labels, seen["wild"], seen["calibration"])
    assert found["separated"]
    ranked = sorted(made.detector.wild_scores_.tolist())  # type: ignore[operator]
    plain = made.calibration.id_threshold
    cuts = {"id": plain, "otsu": made.threshold, "quantile": max(plain, ranked[int(np.ceil(0.95 * len(ranked))) - 1])}
    for name, cut in cuts.items():
        kept = [float((made.score(seen[part]) <= cut).float().mean()) for part in fallback.TESTS.values()]
        assert list(found[name].values()) == pytest.approx([kept[0], kept[1], 1 - kept[2]])


def test_pools_have_the_shares_they_are_called_by(
    fallback: ModuleType, trained: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, task = trained
    asked: list[torch.Tensor] = []
    monkeypatch.setattr(fallback, "thresholds", lambda trained, task, pool: asked.append(pool) or {})
    monkeypatch.setattr(fallback, "COMPOSITIONS", ((0.75, 0.25), (0.9, 0.1)))
    monkeypatch.setattr(fallback, "POOL", 40)
    rows = list(fallback.judged(model, task, 0))
    assert [(row["pi_c"], row["pi_s"]) for row in rows] == [(None, None), (0.75, 0.25), (0.9, 0.1)]
    wild = model.outputs["wild"].features
    unknown = {tuple(row.tolist()) for row, kind in zip(wild, task.wild_component, strict=True) if kind == 2}
    counts = [(len(pool), sum(tuple(row.tolist()) in unknown for row in pool)) for pool in asked]
    assert counts == [(75, 15), (40, 10), (40, 4)]
