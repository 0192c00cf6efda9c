"""The page on own images: means over seeds and shares of the pool, recounted by hand; fits keep to their minutes."""

from typing import Any

from tests.scripts import ROOT

import own_images_page
from wildspec.files import read_json

RECORD = ROOT / "benchmarks" / "results" / "own_images.json"


def _run(seed: int, kept: float, **more: Any) -> dict[str, Any]:
    command = f"wildspec fit --labelled labelled --wild incoming --minutes 5 --seed {seed} --out model"
    known = {"accuracy": 0.5, "kept": kept}
    sets = {"known": known, "shifted": known, "unknown": {"kept": 0.25, "auroc_against_known": 0.75,
            "auroc_against_shifted": 1.0}}  # fmt: skip
    run = {"task": "pacs", "seed": seed, "commands": [command], "threads": None, "seconds": {"fit": 60.0}, "sets": sets}
    return {**run, **more}


def test_a_row_is_the_mean_over_seeds_and_tables_are_shown_where_they_were_measured() -> None:
    runs = [_run(0, 0.25), _run(1, 0.75)]
    text = own_images_page.block({"runs": runs, "made_by": ["measure it"]}, "own.json")
    assert "| 0, 1 | 60 | 50.0 | 50.0 | 50.0 | 50.0 | 75.0 | 75.0, 100.0 |" in text
    assert "estimated" not in text
    assert "Measured by `measure it`; `own.json`." in text
    seen = {"known": 1.0, "shifted": 0.5, "unknown": 0.875, "auroc_known": 0.75, "auroc_shifted": 1.0}
    mixture = {"pi_s": 0.1, "pi_s_interval": [0.025, 0.4]}
    more = _run(3, 0.5, mixture=mixture, detectors={"wild_knn": seen, "energy": {**seen, "unknown": 0.25}})
    text = own_images_page.block({"runs": [more], "made_by": []}, "own.json")
    assert "| pacs | 3 | `--minutes 5` | 23.8 | 10.0 | 2.5 and 40.0 |" in text
    assert "| pacs | 3 | `--minutes 5` | 100.0 | 50.0 | 12.5 | 75.0 |" in text
    assert "| energy | 100.0 | 50.0 | 75.0 | 75.0, 100.0 |" in text


def test_the_short_page_shows_what_fit_does_by_itself() -> None:
    other = _run(1, 0.125)
    other["commands"] = [other["commands"][0].replace("--minutes 5", "--epochs 9")]
    runs = [_run(0, 0.25), _run(1, 0.75), other, _run(0, 0.125, note="beside other work")]
    text = own_images_page.page({"runs": runs}, "own.json")
    assert "| 50.0 | 50.0 | 50.0 | 50.0 | 75.0 |" in text
    assert "12.5" not in text
    assert "--task pacs --seeds 0 1 --out own.json" in text


def test_the_better_one_of_trained_and_taken_as_it_is_stands_out() -> None:
    """From nothing: accuracy 50 %, kept 25 %, rejected 75 %, told apart 75 and 100 %."""
    sets = {"known": {"accuracy": 0.75, "kept": 0.25}, "shifted": {"accuracy": 0.25, "kept": 0.5},
            "unknown": {"kept": 0.5, "auroc_against_known": 1.0, "auroc_against_shifted": 0.5}}  # fmt: skip
    frozen = {"runs": [{"task": "pacs", "sets": sets}], "environment": {"command": "do it"}}
    text = own_images_page.page({"runs": [_run(0, 0.25)]}, "own.json", frozen)
    assert "| pacs | from nothing | 50.0 | **50.0** | 25.0 | 25.0 | **75.0** | 75.0 | **100.0** |" in text
    assert "| pacs | as it is | **75.0** | 25.0 | 25.0 | **50.0** | 50.0 | **100.0** | 50.0 |" in text
    assert "`do it`" in text


def test_what_was_typed_with_minutes_took_no_more() -> None:
    """Of the runs since the minutes are kept, which say how many steps were taken."""
    runs = [run for run in read_json(RECORD)["runs"] if "taken" in run["training"]["stages"][0]]
    limited = [run for run in runs if run["training"]["minutes"] is not None]
    assert limited
    for run in limited:  # beside other work it may be late by what the page says
        late = 1.11 if (run.get("note") or "").startswith(own_images_page.BUSY) else 1.0
        assert run["seconds"]["fit"] <= late * 60 * run["training"]["minutes"], run["commands"][0]
