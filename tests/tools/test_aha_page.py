"""The section on AHA's setting: means over draws recounted by hand, misses called so, what was not published left empty."""

from typing import Any

import pytest

import aha_page
from wildspec.bench.published import published


def _record(draw: int, answers: int, ood: float, fpr: float, **more: Any) -> dict[str, Any]:
    head = {"draw": draw, "learner": "wildspec", "rule": "groups" if answers else None, "answers": answers}
    return {**head, "id_acc": 0.96, "ood_acc": ood, "fpr95_id": fpr, "auroc": 0.75, **more}


@pytest.fixture
def document() -> dict[str, Any]:
    decided = {"id_kept": 0.9375, "covariate_kept": 0.5, "detection_rate": 0.25}
    records = [_record(0, 0, 0.5, 0.9), _record(0, 100, 0.75, 0.5, **decided), _record(1, 100, 0.775, 0.25, **decided)]
    records.append(_record(0, 500, 0.9, 0.0625, **decided))
    records += [_record(0, 500, 0.9, 0.03, learner="heads", rule="search")]
    records += [_record(0, 8000, 0.875, 0.01, learner="heads", rule="all")]
    images = {"wild": [48, 60, 12], "id_test": [40, 0, 0], "labelled": [25, 0, 0]}
    made = {"command": "measure it", "network": "train it", "commit": "abc"}
    return {"environment": made, "images": images, "pool": 80, "records": records}


def test_cells_are_means_over_draws_and_dashes_where_nothing_is_known(document: dict[str, Any]) -> None:
    text = aha_page.section(document)
    assert "| 100 | wildspec (groups, then the boundary) | 96.0 | 76.2 | 37.5 | 75.0 | 93.8 | 50.0 | 25.0 |" in text
    assert "| 0 | wildspec | 96.0 | 50.0 | 90.0 | 75.0 | – | – | – |" in text
    assert "| not said | published: AHA, LSUN-C unknown | – | 91.1 | – | – | – | – | – |" in text
    assert "means of 2 draws" in text
    assert "all 8,000 images of the pool answered, a linear head on its features reaches 87.5" in text
    assert "`train it` and `measure it`" in text
    assert "pools of 80 out of 120 images, 40 images" in text


def test_a_miss_is_called_a_miss(document: dict[str, Any]) -> None:
    scone = published("main", "scone", "svhn")[0]
    lines = aha_page.misses(document["records"]).splitlines()
    told = "{}: {} answers, our questions, {}: {} against {:.1f}"
    assert not any("8000" in line for line in lines)
    for word, answers, bar, ours, theirs in (
        ("MISSED", 100, "accuracy under noise at or above SCONE", 76.2, scone["ood_acc"]),
        ("met", 500, "accuracy under noise at or above AHA's lower figure", 90.0, 88.93),
        ("MISSED", 100, "FPR95 at or below SCONE", 37.5, scone["fpr95_id"]),
        ("met", 500, "FPR95 at or below SCONE", 6.2, scone["fpr95_id"]),
        ("MISSED", 500, "FPR95 at or below AHA's search and heads on the same features", 6.2, 3.0),
    ):
        assert "- " + told.format(word, answers, bar, ours, theirs) in lines
