"""``wildspec detectors``: every detector is listed, as a table and as JSON that rebuilds it."""

import json

import pytest
from typer.testing import CliRunner

import command
from wildspec.cli.main import app
from wildspec.detectors import build_detector, detector_names

runner = CliRunner()


def test_json_lists_every_detector_with_its_defaults() -> None:
    result = runner.invoke(app, ["detectors", "--json"])
    assert result.exit_code == 0
    records = json.loads(result.output)
    assert [record["name"] for record in records] == detector_names()
    assert "wild_linear" in detector_names()
    for record in records:
        kind = type(build_detector(record["name"]))
        assert build_detector(record["name"], **record["defaults"]).config() == record["defaults"]
        assert record["paper"]
        assert record["summary"]
        assert record["score_needs"] == list(kind.score_needs)
        assert record["fit_needs"] == list(kind.fit_needs)


def test_the_defaults_are_those_of_the_papers() -> None:
    """As their authors' code and papers give them (docs/detectors.md, docs/deviations.md); None and auto: by the data."""
    published = {
        "ash": {"percent": 90.0, "variant": "s"},
        "dice": {"percent": 90.0},
        "energy": {"temperature": 1.0},
        "gen": {"gamma": 0.1, "top": 100},
        "knn": {"k": 50},
        "mahalanobis": {"shrinkage": "auto", "epsilon": 0.0, "std": None},
        "maxlogit": {},
        "msp": {"temperature": 1.0},
        "nnguide": {"k": 10, "share": 1.0, "seed": 0},
        "odin": {"temperature": 1000.0, "epsilon": 0.0014, "std": None},
        "react": {"percent": 90.0},
        "rmds": {"shrinkage": "auto"},
        "scale": {"percent": 85.0},
        "she": {"metric": "inner"},
        "vim": {"dim": None},
    }
    assert {name: build_detector(name).config() for name in published} == published


def test_table_and_one_detector() -> None:
    listed = runner.invoke(app, ["detectors"]).output
    for name in detector_names():
        assert name in listed
        assert build_detector(name).summary.split()[0] in listed
    one = runner.invoke(app, ["detectors", "knn"]).output
    assert "k=50" in one
    assert "bank_" in one
    assert "Sun et al." in one
    assert json.loads(runner.invoke(app, ["detectors", "vim", "--json"]).output)["name"] == "vim"
    linear = json.loads(runner.invoke(app, ["detectors", "wild_linear", "--json"]).output)  # stands for wild_knn with a rule
    assert linear["defaults"] == {"k": None, "rule": "linear"}


def test_an_unknown_name_is_one_line_and_status_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    status, out, err = command.runner(monkeypatch, capsys)("detectors", "nope")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("wildspec: detector must be one of ash, dice")
