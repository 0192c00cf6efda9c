"""The page of all methods and detectors: means by hand, and the committed page is what its JSON gives."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wildspec.errors import DataError, InputError
from wildspec.evaluation.report import COLUMNS
from wildspec.files import read_json, write_json
from wildspec.runs.matrix import METRICS, run_matrix, to_page

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    work = tmp_path_factory.mktemp("work")
    document = run_matrix(work, [0, 1], ["erm", "irm", "oe"], ["energy", "msp", "knn:k=500"], epochs=3)
    assert document is not None
    return work, document


def test_document_and_page(small: tuple[Path, dict[str, Any]]) -> None:
    _, document = small
    assert len(document["rows"]) == 2 * 3 * 3
    assert document["splits"]["0"] != document["splits"]["1"]
    page = to_page(document)
    energy = [r["metrics"]["auroc"] for r in document["rows"] if (r["method"], r["detector"]) == ("erm", "energy")]
    mean, spread = 100 * np.mean(energy), 100 * np.std(energy, ddof=1)
    own = next(line for line in page.splitlines() if line.startswith("| erm | energy |"))
    assert own.split(" | ")[5] == f"{mean:.1f} ± {spread:.1f}"
    assert "- erm + knn:k=500: knn with k = 500 needs a bank of at least 500 samples, got 231; lower k" in page
    assert "anneal_steps=30" in page
    assert "each batch dealt into 4 class-balanced groups" in page
    assert tuple(METRICS) == COLUMNS  # those of every other table
    assert all(title in page for title in METRICS.values())
    assert f"networks trained at {document['environment']['commit']}; " in page
    several = {**document, "runs": [{**one, "commit": f"c{n}"} for n, one in enumerate(document["runs"])]}
    assert "networks trained at 6 commits, each named in the JSON; " in to_page(several)


def test_finished_runs_are_found_again(small: tuple[Path, dict[str, Any]]) -> None:
    work, document = small
    again = run_matrix(work, [0], ["oe"], ["energy"], epochs=3, seconds=1e-9)  # nothing to train, no time needed
    assert again is not None
    same = [r for r in document["rows"] if (r["method"], r["detector"], r["seed"]) == ("oe", "energy", 0)]
    assert again["rows"] == same
    assert again["runs"][0]["seconds"] == next(r for r in document["runs"] if r["method"] == "oe")["seconds"]


def test_cut_into_pieces_it_is_the_same(
    small: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, document = small
    told: list[str] = []
    assert run_matrix(tmp_path, [1], ["oe"], ["energy"], epochs=3, seconds=0, say=told.append) is None
    assert told == ["out of time in oe, seed 1; the same command goes on"]
    assert not list(tmp_path.iterdir())  # no time, nothing begun
    monkeypatch.setattr("wildspec.training.loop._Run._out_of_time", lambda self: True)  # every piece is one step
    pieces = 1
    while (found := run_matrix(tmp_path, [1], ["oe"], ["energy"], epochs=3, seconds=1000)) is None:
        pieces += 1
        assert pieces < 100
    assert pieces > 2
    assert found["rows"] == [r for r in document["rows"] if (r["method"], r["detector"], r["seed"]) == ("oe", "energy", 1)]


def test_a_network_of_another_recipe_is_not_taken(small: tuple[Path, dict[str, Any]]) -> None:
    work, _ = small
    with pytest.raises(InputError, match=r"erm-seed0 was trained with other stages than now; .*--work"):
        run_matrix(work, [0], ["erm"], ["energy"], epochs=4)


def test_a_setting_that_came_later_makes_no_other_recipe(small: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    work, _ = small
    shutil.copytree(work / "erm-seed0", tmp_path / "erm-seed0")
    record = read_json(tmp_path / "erm-seed0" / "run.json")
    assert record["stages"][0].pop("ema") == 0.0  # as written by a version that had no averages
    write_json(tmp_path / "erm-seed0" / "run.json", record)
    assert run_matrix(tmp_path, [0], ["erm"], ["energy"], epochs=3) is not None
    record["stages"][0]["ema"] = 0.9
    write_json(tmp_path / "erm-seed0" / "run.json", record)
    with pytest.raises(InputError, match="other stages"):
        run_matrix(tmp_path, [0], ["erm"], ["energy"], epochs=3)


def test_another_document_is_refused() -> None:
    with pytest.raises(DataError, match=r"wildspec\.digits/1"):
        to_page({"schema": "something else"})


def test_the_committed_page_is_what_its_json_gives() -> None:
    document = read_json(RESULTS / "digits.json")
    assert (RESULTS / "digits.md").read_text(encoding="utf-8") == to_page(document)
    assert len(document["rows"]) == len(document["seeds"]) * len(document["methods"]) * len(document["detectors"])
    assert all(row["refused"] or tuple(row["metrics"]) == COLUMNS for row in document["rows"])
