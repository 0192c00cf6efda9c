"""Which records count as one recipe: what they state decides, neither their label nor what a preset is today."""

from typing import Any

import pytest
from tests.bench.making import ran, record

from wildspec.bench.same_recipe import asked, recipe_names, settings
from wildspec.bench.tables import summarize
from wildspec.training.recipe import Recipe

STAGE = {"name": "pretrain", "lr": 0.1, "augmentation": {"grey": 0.2, "noise": 0.0}}


def made(stage: dict[str, Any], day: int = 1, **changes: Any) -> dict[str, Any]:
    environment = {**record()["environment"], "created": f"2025-01-{day:02d}T00:00:00+00:00"}
    return record(config={"hparams": {}, "stages": [stage]}, environment=environment, **changes)


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": {"name": "x", "all_labels": True}}, {"recipe": {"name": "x", "size": 8}}, {"mirror": True},
        {"recipe": {"name": "x", "init": "a/weights.safetensors"}}, {"recipe": {"name": "x", "changes": {"dropout": 0.3}}},
        {"hparams": {"eta_l": 0.5, "eta_u": 1.0}}, {"model": "small"}, {"dropout": 0.3},
    ],
)  # fmt: skip
def test_a_label_hides_no_difference(other: dict[str, Any]) -> None:
    """--label gives a name, not a licence to average what was trained or measured otherwise."""
    config = record()["config"]
    (table,) = summarize([record(recipe="x"), record(recipe="x", seed=1, config={**config, **other})])
    assert [row.recipe for row in table.rows] == ["x", "x #2"]
    older = {"recipe": {"name": "x", "size": None, "all_labels": False, "changes": {}}}  # the same, said or not said
    (table,) = summarize([record(recipe="x"), record(recipe="x", seed=1, config={**config, **older})])
    assert table.rows[0].seeds == (0, 1)


def test_another_pool_is_another_row() -> None:
    def with_unknown(share: float, seed: int) -> dict[str, Any]:
        return record(recipe="x", seed=seed, config={**record()["config"], "wild": {"pi_c": 0.5, "pi_s": share}})

    (table,) = summarize([with_unknown(0.1, 0), with_unknown(0.1, 1), with_unknown(0.4, 2)])
    assert [(row.recipe, row.seeds) for row in table.rows] == [("x", (0, 1)), ("x #2", (2,))]


def test_another_setting_of_the_detector_is_another_row() -> None:
    records = [record(recipe="x", detector="ash", seed=n, detector_config={"percent": p}) for n, p in enumerate((90, 65))]
    (table,) = summarize([*records, record(recipe="x", detector="scale", detector_config={"percent": 85})])
    assert sorted((row.detector, row.recipe) for row in table.rows) == [("ash", "x"), ("ash", "x #2"), ("scale", "x")]


def test_other_images_are_another_row() -> None:
    """Seeds that were run on another version of the data, or another --data, are not averaged with the others."""
    def seen(seed: int, test_set: str) -> dict[str, Any]:
        return record(recipe="x", seed=seed, splits={"labelled": "ab" * 32, "id_test": test_set * 32})

    (table,) = summarize([seen(0, "cd"), seen(1, "cd"), seen(2, "ef")])
    assert [(row.recipe, row.seeds) for row in table.rows] == [("x", (0, 1)), ("x #2", (2,))]
    other_set = record(recipe="x", semantic="textures10", splits={"labelled": "12" * 32})
    assert recipe_names([seen(0, "cd"), other_set]) == ["x", "x"], "another set has other images by its nature"


def test_a_setting_that_an_old_record_does_not_state_parts_no_recipes() -> None:
    old = {**STAGE, "augmentation": {"grey": 0.2}}
    louder = {**STAGE, "augmentation": {"grey": 0.2, "noise": 0.5}}
    assert recipe_names([made(old), made(STAGE, 2), made(louder, 3)]) == ["fast", "fast", "fast #2"]
    assert recipe_names([made(STAGE), made({**STAGE, "lr": 0.2}, 2)]) == ["fast", "fast #2"]
    assert recipe_names([made(STAGE), made({**STAGE, "name": "other"}, 2)]) == ["fast", "fast #2"], "other stages"


def test_stages_and_hyper_parameters_of_former_names_are_the_same_recipe() -> None:
    names = ("settle", "promote2"), ("warmup_head", "pseudo_label2")
    old, new = ({**made(STAGE)["config"], "stages": [{**STAGE, "name": name} for name in some]} for some in names)
    old["hparams"], new["hparams"] = {"settle": True}, {"warmup_head": True}
    assert recipe_names([record(config=old), record(config=new, seed=1)]) == ["fast", "fast"]
    assert settings(record(config=old)) == settings(record(config=new))


def test_names_go_by_date_and_by_place_and_not_by_the_order_of_files() -> None:
    other = {**STAGE, "lr": 0.2}
    found = recipe_names([made(other, 3, semantic="textures10"), made(other, 2), made(STAGE, 1)])
    assert found == ["fast", "fast #2", "fast"]


def test_what_was_asked_for() -> None:
    assert asked(ran(Recipe("fast"), mirror=True)) == asked(ran(Recipe("fast"), "erm", mirror=True))
    plain, labels, longer = (asked(ran(recipe)) for recipe in (Recipe("paper"), Recipe(all_labels=True), Recipe(scale=2)))
    assert (plain.preset, plain.as_it_is, plain.mirrored) == ("paper", True, False)
    assert (labels.preset, labels.as_it_is, labels.all_labels) == ("fast", True, True)
    assert not longer.as_it_is
    assert not asked(record()).as_it_is, "a record that does not say"


def test_settings_are_flat_and_complete() -> None:
    found = settings(made(STAGE))
    assert found["pretrain.augmentation.grey"] == 0.2
    assert found["pretrain.lr"] == 0.1
    assert (found["mirror"], found["init"], found["stages"]) == (False, None, ["pretrain"])
