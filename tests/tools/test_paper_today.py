"""Labels of preset "paper" against what the preset says today."""

from tests.bench.making import ran

from paper_today import as_today
from wildspec.training.recipe import Recipe

PAPER = Recipe("paper", all_labels=True)
TODAY = 1e-4  # the rate of OE's stage "wild"


def label(recipe: Recipe, method: str = "oe", **config: object) -> tuple[str, dict[str, object]]:
    made = ran(recipe, method)
    made["config"] |= config
    (found,) = as_today([made])
    assert {**found, "recipe": "", "config": ""} == {**made, "recipe": "", "config": ""}, "nothing else changes"
    return found["recipe"], found["config"]["recipe"]["changes"]


def test_the_preset_as_it_is_keeps_its_name() -> None:
    for method in ("oe", "woods", "erm", "spectral"):
        assert label(PAPER, method) == (PAPER.label, {})


def test_a_change_to_what_the_preset_says_today_is_none() -> None:
    assert label(Recipe("paper", changes={"wild.lr": TODAY}, all_labels=True)) == (PAPER.label, {})


def test_what_an_older_preset_said_is_shown() -> None:
    older = ran(Recipe("paper", changes={"wild.lr": 1e-3}, all_labels=True), "oe")["config"]["stages"]
    assert label(PAPER, stages=older) == ("paper, all labels, wild.lr=0.001", {"wild.lr": 1e-3})
    assert label(PAPER, dropout=0.0)[1] == {"dropout": 0.0}
    hparams = ran(PAPER, "woods")["config"]["hparams"]
    assert label(PAPER, "woods", hparams={**hparams, "tolerance": 0.05})[1] == {"tolerance": 0.05}


def test_other_presets_and_lengths_are_left_alone() -> None:
    for recipe in (Recipe("fast", changes={"wild.lr": TODAY}), Recipe("paper", scale=0.5, changes={"wild.lr": TODAY})):
        assert label(recipe) == (recipe.label, {"wild.lr": TODAY})
