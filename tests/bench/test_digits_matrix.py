"""Every method with every detector: a document with all pairs, made in pieces or at once."""

from pathlib import Path
from typing import Any

import pytest
from tests.scripts import load_script

from wildspec.errors import InputError
from wildspec.evaluation.report import COLUMNS

run_matrix = load_script("benchmarks/digits.py").run_matrix


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    work = tmp_path_factory.mktemp("work")
    document = run_matrix(work, [0, 1], ["erm", "irm", "oe"], ["energy", "msp", "knn:k=500"], epochs=3)
    assert document is not None
    return work, document


def test_the_document_has_every_pair(small: tuple[Path, dict[str, Any]]) -> None:
    _, document = small
    assert len(document["rows"]) == 2 * 3 * 3
    assert document["splits"]["0"] != document["splits"]["1"]
    refused = {row["refused"] for row in document["rows"] if row["detector"] == "knn:k=500"}
    assert refused == {"knn with k = 500 needs a bank of at least 500 samples, got 231; lower k"}
    assert all(row["refused"] or tuple(row["metrics"]) == COLUMNS for row in document["rows"])
    assert next(run for run in document["runs"] if run["method"] == "irm")["hparams"]["anneal_steps"] == 30


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
    with pytest.raises(InputError, match=r"erm-seed0 .*other stages.*--work"):
        run_matrix(work, [0], ["erm"], ["energy"], epochs=4)
