"""The page about the joint decision says what its document says, recounted by hand; missed aims are called missed."""

from typing import Any

import pytest

from joint_page import COLUMNS, OURS, to_page


def metrics(value: float, **more: float) -> dict[str, float]:
    return {**dict.fromkeys(COLUMNS.values(), value), **more}


@pytest.fixture
def document() -> dict[str, Any]:
    good = {"ood_acc": 0.97, "fs_fpr95": 0.07, "id_kept": 0.98, "covariate_kept": 0.84, "detection_rate": 0.9}
    rows = []
    for seed, shift in ((0, 0.0), (1, 0.02)):
        rows += [
            {"group": "baselines", "title": "plain", "seed": seed, "metrics": metrics(0.5 + shift)},
            {"group": "ours", "title": OURS, "seed": seed, "metrics": metrics(0.9, **good), "bank": [190, 200, 2],
             "promoted": [180, 190 + seed, 1]},
            {"group": "parts", "title": "no part", "seed": seed, "metrics": metrics(0.4)},
        ]  # fmt: skip
    rates = [
        {"seed": 0, "alpha": 0.05, "threshold": name, "id": 0.01, "covariate": value, "unknown": 0.9}
        for name, value in (("conformal", 0.4), ("joint", 0.1))
    ]
    mixture = {"true_pi_c": 0.5, "true_pi_s": 0.1, "pi_s": 0.12, "pi_s_interval": [0.08, 0.2], "pi_c": 0.3,
               "pi_c_interval": [0.2, 0.4]}  # fmt: skip
    environment = {"command": "make it", "created": "today", "versions": {"wildspec": "1", "torch": "2"}}
    return {
        "rows": rows, "seeds": [0, 1], "rates": rates, "mixtures": [mixture], "resplits": 3, "pool": 30, "cpu_seconds": 1.0,
        "environment": environment,
    }  # fmt: skip


def test_aims_are_judged(document: dict[str, Any]) -> None:
    page = to_page(document)
    assert "| fs_fpr95 | at most 15 | 7.0 | met |" in page
    assert "| covariate kept | at least 85 | 84.0 | **MISSED** |" in page
    assert "no lower than any baseline (plain: 51.0) | 97.0 | met |" in page


def test_cells_are_means_and_spreads(document: dict[str, Any]) -> None:
    page = to_page(document)
    assert "| plain | " + " | ".join(["51.0 ± 1.4"] * 12) + " |" in page
    assert f"| {OURS} | 180.0 | 190.5 | 1.0 | 190.0 | 200.0 | 2.0 |" in page
    assert "| 5 | 1.0 | 1.0 | 40.0 | 10.0 | 90.0 | 90.0 |" in page
    assert "| 50 | 10 | 12.0 | 8.0 to 20.0 | 1 of 1 | 30.0 | 0 of 1 |" in page
    assert "`make it`" in page
