"""Which definition of a recipe a record ran: today's, or an earlier one, and how to run that one again."""

from pathlib import Path

import pytest
from tests.bench.making import ran, record

from wildspec.bench.editions import Edition, edition, recipe_hash
from wildspec.bench.protocols import protocol
from wildspec.bench.records import load_records
from wildspec.methods import build_method
from wildspec.training.recipe import Recipe

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "results" / "records"


@pytest.mark.parametrize("method", ["spectral", "spectral+", "nscl", "erm", "scone"])
@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_what_was_run_today_is_todays(method: str, preset: str) -> None:
    assert not edition(ran(Recipe(preset), method)).earlier
    assert not edition(ran(Recipe(preset, scale=0.3), method)).earlier


def test_another_stage_is_an_earlier_edition_and_says_what_to_set() -> None:
    made = ran(Recipe("fast", changes={"pretrain.epochs": 60, "rounds": 2}))
    stage = made["config"]["stages"][0]
    stage["lr"], stage["augmentation"]["grey"], stage["augmentation"]["blur_sigma"] = 0.123, 0.456, [0.3, 0.4]
    found = edition(made)
    assert found.earlier
    assert found.changes == {
        "pretrain.lr": 0.123, "pretrain.augmentation.grey": 0.456, "pretrain.augmentation.blur_sigma": [0.3, 0.4],
    }  # fmt: skip
    again = ran(Recipe("fast", changes={"pretrain.epochs": 60, "rounds": 2, **found.changes}))
    assert recipe_hash(again) == recipe_hash(made), "those settings give what was run"


def test_a_setting_that_came_later_had_its_default() -> None:
    made = ran(Recipe("fast"))
    for stage in made["config"]["stages"]:
        del stage["ema"]
    changed = {key: value for key, value in edition(made).changes.items() if not key.endswith(".ema")}
    assert changed == {}
    stage = made["config"]["stages"][0]
    stage["warmup"] = 77.0
    stage.pop("nesterov")  # True by default, as every preset has it
    assert edition(made).changes["pretrain.warmup"] == 77.0
    assert "pretrain.nesterov" not in edition(made).changes


def test_a_hyper_parameter_that_the_protocol_fixed_otherwise() -> None:
    made = ran(Recipe("fast"))
    made["config"]["hparams"]["eta_u"] = 7.5
    assert edition(made).changes == {"eta_u": 7.5}
    asked = ran(Recipe("fast", changes={"eta_u": 7.5}))
    assert not edition(asked).earlier, "what was asked for is no other edition"
    made = ran(Recipe("fast"))
    made["config"]["hparams"].pop("agreement")
    assert edition(made).changes == {"agreement": build_method("spectral+", 2).agreement}


def test_a_number_of_stages_that_follows_from_a_hyper_parameter_can_be_set() -> None:
    rounds = {key: value for key, value in ran(Recipe("fast", changes={"rounds": 3}))["config"].items() if key != "recipe"}
    made = ran(Recipe("fast", changes={"pretrain.epochs": 60}))
    made["config"] |= {**rounds, "stages": rounds["stages"]}
    made["config"]["stages"][0]["epochs"] = 60
    assert edition(made).changes == {"rounds": 3}, "not other stages, but another number of rounds"


def test_changes_that_are_the_presets_own_today() -> None:
    stage = build_method("spectral+", 2, **protocol("cifar10").hparams("spectral+", "svhn")[0]).stages("fast")[0]
    same = {"pretrain.epochs": stage.epochs, "pretrain.lr": stage.lr}
    assert edition(ran(Recipe("fast", changes=same))) == Edition(alone=Recipe("fast"))
    for changes in ({**same, "pretrain.lr": 9.0}, {**same, "eta_l": 9.0}, {**same, "dropout": 0.3}, {}):
        assert edition(ran(Recipe("fast", changes=changes))).alone is None


def test_other_stages_cannot_be_set() -> None:
    made = ran(Recipe("fast"))
    made["config"]["stages"].append({**made["config"]["stages"][-1], "name": "polish"})
    found = edition(made)
    assert found.earlier
    assert found.changes == {}
    assert "polish, not pretrain" in found.lost
    gone = ran(Recipe("fast"))
    gone["config"]["recipe"]["changes"] = {"polish.lr": 1.0}
    assert "the stages are" in edition(gone).lost


def test_a_whole_number_is_the_same_with_and_without_a_point() -> None:
    codes = {recipe_hash(ran(Recipe("fast", changes={"pretrain.epochs": value}))) for value in (60, 60.0)}
    assert len(codes) == 1
    assert recipe_hash(ran(Recipe("fast", changes={"pretrain.epochs": 60.5}))) not in codes


def test_what_cannot_be_told_counts_as_todays() -> None:
    assert not edition(record()).earlier, "no stages in it"
    assert not edition(ran(Recipe("fast")) | {"method": "of-a-plugin"}).earlier
    own = ran(Recipe("fast")) | {"protocol": "of-somebody", "semantic": "of-theirs"}
    own["config"]["hparams"]["eta_u"] = 7.5
    assert not edition(own).earlier, "the file with what the protocol fixes is not at hand"


def test_every_committed_record_can_be_run_again_today() -> None:
    """The settings that the page shows give the stages that the record holds."""
    for made in load_records([COMMITTED]):
        found, mirror = edition(made), bool(made["config"].get("mirror"))
        assert not found.lost
        recipe = Recipe(**made["config"]["recipe"]).with_changes(**found.changes)
        again = ran(recipe, made["method"], mirror=mirror, semantic=made["semantic"])
        given, usual = made["config"]["hparams"], build_method(made["method"], 10)
        again["config"]["hparams"] = {  # a hyper-parameter at its default may be given or not
            key: value for key, value in again["config"]["hparams"].items() if key in given or value != getattr(usual, key)
        }
        assert recipe_hash(again) == recipe_hash(made)
