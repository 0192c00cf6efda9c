"""The registry of hyper-parameters agrees with the constructors; they accept what is searched; the command shows it."""

import inspect
import json

import pytest
from typer.testing import CliRunner

from wildspec.cli.main import app
from wildspec.errors import InputError
from wildspec.methods import METHODS, build_method
from wildspec.methods.hparams import HPARAMS, Search


@pytest.mark.parametrize("name", METHODS)
def test_defaults_are_the_constructors(name: str) -> None:
    parameters = inspect.signature(METHODS[name].__init__).parameters
    expected = {p.name: p.default for p in parameters.values() if p.name not in ("self", "num_classes")}
    registered = {h.name: h.default for h in HPARAMS[name]}
    assert registered == expected
    assert len(registered) == len(HPARAMS[name]), "each is named once"
    assert [type(v) for v in registered.values()] == [type(expected[k]) for k in registered]
    for h in HPARAMS[name]:
        assert h.source
        assert h.meaning
        assert h.name in (METHODS[name].__doc__ or "")


@pytest.mark.parametrize("given", ["False", "false", 0, 1, None])
def test_a_switch_takes_true_and_false_alone(given: object) -> None:
    """--set warmup_head=False is text on the command line, and a text that is not empty is true."""
    for name, switch in (("spectral+", "warmup_head"), ("woods", "shared_multiplier"), ("scone", "shared_multiplier")):
        with pytest.raises(InputError, match=f"{switch} must be true or false"):
            build_method(name, 10, **{switch: given})
        assert build_method(name, 10, **{switch: True}).name == name


@pytest.mark.parametrize("name", METHODS)
def test_every_end_of_a_search_range_builds_a_method(name: str) -> None:
    for h in HPARAMS[name]:
        for value in () if h.search is None else h.search.values:
            assert build_method(name, 10, **{h.name: value}).name == name


def test_search_ranges_in_words() -> None:
    assert [str(s) for s in (Search("log", (0.1, 10.0)), Search("choice", (1.0, 2.0)))] == ["[0.1, 10] log", "{1, 2}"]


def test_command_lists_every_method_as_json() -> None:
    done = CliRunner().invoke(app, ["methods", "--json"])
    assert done.exit_code == 0
    records = {record["name"]: record for record in json.loads(done.stdout)}
    assert set(records) == set(METHODS)
    woods = records["woods"]
    assert woods["needs"] == ["labelled", "wild"]
    assert woods["default_detector"] == "energy"
    assert {h["name"]: h["default"] for h in woods["hyperparameters"]}["false_alarms"] == 0.05
    assert [stage["name"] for stage in woods["stages"]["paper"]] == ["pretrain", "wild"]
    assert records["irm"]["uses_environments"]
    assert not records["erm"]["uses_environments"]
    fast = sum(stage["epochs"] for stage in records["scone"]["stages"]["fast"])
    assert fast < sum(stage["epochs"] for stage in records["scone"]["stages"]["paper"])


def test_command_for_people() -> None:
    listed = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"}).stdout
    assert all(name in listed for name in METHODS)
    assert "penalty_weight=100.0" in listed
    one = CliRunner().invoke(app, ["methods", "scone"], env={"COLUMNS": "200"}).stdout
    assert "margin = -10.0" in one
    assert "pretrain" in one
