"""The page on own images says what its record says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.scripts import ROOT, load_script

PAGE, RECORD = ROOT / "docs" / "results" / "own-images.md", ROOT / "benchmarks" / "results" / "own_images.json"


@pytest.fixture(scope="module")
def page() -> Any:
    return load_script("benchmarks/own_images_page.py")


def test_the_tables_are_those_of_the_record(page: Any, tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    shutil.copyfile(PAGE, copy)
    page.fill_page(copy, json.loads(RECORD.read_text()), RECORD.relative_to(ROOT).as_posix())
    assert copy.read_text() == PAGE.read_text(), "fill it: python benchmarks/own_images.py --out ... --page ..."


def test_what_was_typed_with_minutes_took_no_more(page: Any) -> None:
    """Of the runs since the minutes are kept, which say how many steps were taken."""
    runs = [run for run in json.loads(RECORD.read_text())["runs"] if "taken" in run["training"]["stages"][0]]
    limited = [run for run in runs if run["training"]["minutes"] is not None]
    assert limited
    for run in limited:  # beside other work it may be late by what the page says
        late = 1.11 if (run.get("note") or "").startswith(page.BUSY) else 1.0
        assert run["seconds"]["fit"] <= late * 60 * run["training"]["minutes"], run["commands"][0]


def test_the_table_of_shares(page: Any) -> None:
    mixture = {"pi_s": 0.1, "pi_s_interval": [0.025, 0.4]}
    run = {"task": "pacs", "seed": 3, "mixture": mixture, "commands": ["wildspec fit --labelled labelled --wild incoming "
           "--minutes 2 --seed 3 --out model"]}  # fmt: skip
    assert page._share_table([{"mixture": None}, run])[-2] == "| pacs | 3 | `--minutes 2` | 23.8 | 10.0 | 2.5 and 40.0 |"
    assert page._share_table([{}]) == []


def test_the_table_of_detectors_names_the_row_it_is_about(page: Any) -> None:
    found = {"known": 0.5, "shifted": 0.25, "unknown": 0.125, "auroc_known": 0.75, "auroc_shifted": 1.0}

    def run(length: str, seed: int, **more: Any) -> dict[str, Any]:
        return {"commands": [f"wildspec fit {length} --seed {seed} --out model"], "threads": None, "seed": seed, **more}

    other = {"knn": {**found, "known": 1.0}}
    runs = [run("--minutes 5", 0), run("--epochs 9", 0, detectors={"knn": found}), run("--epochs 9", 1, detectors=other)]
    title, *_, row, _ = page._detector_table(runs)
    assert title.startswith("The networks of `wildspec fit --epochs 9 --out model` under other detectors")
    assert row == "| knn | 75.0 | 25.0 | 87.5 | 75.0, 100.0 |", "the mean over seeds"
    assert page._detector_table(runs[1:])[0].startswith("The networks of the first line under")
    assert page._detector_table(runs[:1]) == []


def test_the_table_of_the_joint_decision(page: Any) -> None:
    kept = {"known": 1.0, "shifted": 0.5, "unknown": 0.875}
    line = "wildspec fit --labelled labelled --wild incoming --minutes 2 --seed 3 --out model"
    run = {"task": "pacs", "seed": 3, "commands": [line], "note": "beside other work",
           "detectors": {"wild_knn": kept, "energy": {"unknown": 0.25}}}  # fmt: skip
    rows = page._joint_table([{"detectors": {"knn": kept}}, {}, run])
    assert rows[-2] == "| pacs | 3 | `--minutes 2`, beside other work | 100.0 | 50.0 | 12.5 | 75.0 |"
    assert page._joint_table([{}]) == []
