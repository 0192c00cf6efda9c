"""The pages of digits: means and spreads by hand, refusals told, each method under its own detector."""

from pathlib import Path
from typing import Any

import digits_page
from wildspec.files import read_json
from wildspec.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]


def _document() -> dict[str, Any]:
    def row(seed: int, detector: str, value: float | None, refused: str | None = None) -> dict[str, Any]:
        names = [*digits_page.COLUMNS, *digits_page.GRIDS]
        metrics = None if value is None else dict.fromkeys(names, value)
        return {"method": "erm", "seed": seed, "detector": detector, "refused": refused, "metrics": metrics}

    rows = [row(0, "energy", 0.5), row(1, "energy", 0.6), row(0, "knn", None, "too few"), row(1, "knn", None, "too few")]
    run = {"method": "erm", "stages": {"train": 3.0}, "steps": 1200, "hparams": {"anneal": 3}, "environments": None}
    made = {"command": "make it", "hardware": {"cpu": "a cpu", "cores": 2}, "versions": {"python": "3", "torch": "2"}}
    return {"methods": ["erm"], "detectors": ["energy", "knn"], "seeds": [0, 1], "rows": rows, "environment": made,
            "runs": [{**run, "seconds": 10.0}, {**run, "seconds": 20.0}]}  # fmt: skip


def test_means_and_spreads() -> None:
    text = digits_page.page(_document())
    assert "| erm | energy | " + " | ".join([*["55.0 ± 7.1"] * len(digits_page.COLUMNS), "1,200"]) + " |" in text
    assert "make it" in text
    text = digits_page.full(_document())
    assert text.count("| erm | 55.0 | – |") == len(digits_page.GRIDS)
    assert "- erm + knn: too few" in text
    assert "| erm | train 3 | 1,200 | anneal=3 | – | 15 |" in text


def test_every_method_is_shown_with_its_own_detector() -> None:
    """Of the committed records, which hold all of them."""
    document = read_json(ROOT / "docs" / "results" / "digits.json")
    shown = [line.split(" | ")[:2] for line in digits_page.page(document).splitlines() if line.startswith("| ")]
    rows = {method.removeprefix("| "): detector for method, detector in shown}
    assert {name: rows.get(name) for name in METHODS} == {name: kind.default_detector for name, kind in METHODS.items()}
