"""Short names of recipes: short, stable, never one name for two recipes, and a legend that can be typed."""

import shlex
from typing import Any

from tests.bench.making import ran, record
from typer.main import get_command

from wildspec.bench.names import Names, arguments, legend, letter
from wildspec.bench.tables import summarize
from wildspec.cli.bench import app
from wildspec.training.recipe import Recipe, parse_changes

LONG = Recipe("fast", changes={"pretrain.augmentation.blur_sigma": [0.1, 2.0], "pretrain.epochs": 150, "rounds": 2})
OTHER = Recipe("fast", changes={"eta_l": 1.5, "pretrain.epochs": 200, "pretrain.lr": 0.3})


def made(recipe: Recipe, day: int, **changes: Any) -> dict[str, Any]:
    environment = {**record()["environment"], "created": f"2025-01-{day:02d}T00:00:00+00:00"}
    return ran(recipe, environment=environment, **changes)


def names(*records: dict[str, Any]) -> list[str]:
    found = Names(records)
    return [found.of(entry).short for entry in records]


def test_short_labels_are_names_and_long_ones_get_letters_by_date() -> None:
    assert names(
        made(OTHER, 2), made(LONG, 1), made(Recipe("fast"), 3), made(Recipe("paper", all_labels=True), 4),
        made(Recipe("fast", 0.3), 5), made(LONG, 6, mirror=True), made(OTHER, 7, method="spectral"),
    ) == ["fast-B", "fast-A", "fast", "paper, all labels", "fast x0.3", "fast-A, mirrored", "fast-B"]  # fmt: skip


def test_new_records_leave_old_names_alone() -> None:
    before = [made(LONG, 1), made(OTHER, 2)]
    after = [made(Recipe("paper", changes={**OTHER.changes, "pretrain.warmup": 15}), 3), *before, made(LONG, 9, seed=1)]
    assert names(*after)[1:3] == names(*before) == ["fast-A", "fast-B"]
    assert names(*after)[::3] == ["paper-C", "fast-A"]
    assert names(*reversed(after)) == names(*after)[::-1], "the order of files does not matter"


def test_one_preset_name_with_other_stages_is_another_name() -> None:
    now, then, third = made(Recipe("fast"), 2), made(Recipe("fast"), 1), made(Recipe("fast"), 3, method="spectral")
    then["config"]["stages"][0]["lr"] = 0.5
    third["config"]["stages"][0]["lr"] = 0.25
    assert names(now, then, third) == ["fast", "fast (earlier)", "fast (earlier) #2"]
    found = Names([now, then, third])
    assert found.of(then).full == "fast (earlier)"
    assert found.of(then).arguments == "--preset fast --set pretrain.lr=0.5"
    long, old = made(LONG, 1), made(LONG, 2)
    old["config"]["stages"][0]["lr"] = 0.5
    assert names(long, old) == ["fast-A", "fast-B"], "a letter is taken for no preset; the legend says the rest"


def test_a_preset_that_changes_leaves_letters_alone() -> None:
    records = [made(LONG, 1), made(OTHER, 2)]
    assert names(*records) == ["fast-A", "fast-B"]
    for entry in records:  # as if today's preset were another than theirs
        entry["config"]["stages"][-1]["weight_decay"] = 0.5
    assert names(*records) == ["fast-A", "fast-B"]
    assert all(Names(records).of(entry).full.endswith(" (earlier)") for entry in records)


def test_one_label_for_two_recipes_is_two_names() -> None:
    one = made(Recipe("fast", changes={"eta_l": 1.0}, name="mine"), 1)
    two = made(Recipe("fast", changes={"eta_l": 2.0}, name="mine"), 2)
    assert names(one, two) == ["mine", "mine #2"]
    assert len({Names([one, two]).of(entry).full for entry in (one, two)}) == 2, "nor in what programs read"
    bare = [record(config={"hparams": {"eta_l": value}}) for value in (1, 2)]
    shorts = names(*bare)
    assert len(set(shorts)) == 2
    assert all(short.startswith("fast [") for short in shorts), "nothing is known but that they differ"


def test_full_names_keep_every_setting() -> None:
    (found,) = {Names([entry]).of(entry) for entry in [made(LONG, 1, mirror=True)]}
    assert (found.short, found.recipe) == ("fast-A, mirrored", "fast-A")
    assert found.full == "fast, pretrain.augmentation.blur_sigma=[0.1, 2.0], pretrain.epochs=150, rounds=2, mirrored"
    assert found.mirrored
    assert not found.as_it_is
    assert Names([record()]).of(record()).arguments == "", "an old record that does not say"


def test_arguments_can_be_typed() -> None:
    given = Recipe("fast", 0.5, LONG.changes, model="small", size=8, all_labels=True)
    words = shlex.split(arguments(given.to_json(), {"pretrain.schedule": "step"}))
    command = get_command(app).commands["cifar10"]  # type: ignore[attr-defined]
    parsed = command.make_context("cifar10", [*words, "--data", ".", "--out", "."]).params
    changes = parse_changes(parsed["change"])
    assert changes == {**LONG.changes, "pretrain.schedule": "step"}
    same = {key: parsed[key] for key in ("preset", "scale", "model", "size", "all_labels")}
    assert Recipe(changes=LONG.changes, **same) == given


def test_legend_has_every_recipe_once() -> None:
    records = [made(LONG, 1), made(LONG, 1, mirror=True), made(Recipe("paper"), 2, method="erm"), made(Recipe("paper"), 3)]
    found = Names(records)
    assert legend([(entry["method"], found.of(entry)) for entry in records]) == [
        ("fast-A", "`--preset fast --set 'pretrain.augmentation.blur_sigma=[0.1,2]' --set pretrain.epochs=150 "
         "--set rounds=2`", "spectral+"),
        ("paper", "`--preset paper`", "erm, spectral+"),
    ]  # fmt: skip
    lost = made(Recipe("fast"), 1)
    lost["config"]["stages"] = lost["config"]["stages"][:1]
    ((name, text, _),) = legend([("spectral+", Names([lost]).of(lost))])
    assert name == "fast (earlier)"
    assert text.startswith("an earlier `fast`; today it cannot be set: its stages were pretrain, not ")
    then = made(Recipe("fast"), 1)
    then["config"]["stages"][0]["lr"] = 0.5
    ((name, text, _),) = legend([("spectral+", Names([then]).of(then))])
    assert (name, text) == ("fast (earlier)", "an earlier `fast`; today: `--preset fast --set pretrain.lr=0.5`")
    assert legend([("spectral", Names([record()]).of(record()))]) == [("fast", "fast", "spectral")]


def test_settings_that_the_preset_has_taken_over_are_the_preset() -> None:
    """What was typed with them before and without them since is one row, with the seeds of both."""
    plain = made(Recipe("fast"), 2, seed=1)
    stage = plain["config"]["stages"][0]
    before = Recipe("fast", changes={"pretrain.epochs": stage["epochs"], "pretrain.warmup": stage["warmup"], "rounds": 2})
    records = [made(before, 1, seed=0), made(before, 1, seed=0, mirror=True), plain]
    found = Names(records)
    assert [found.of(entry).short for entry in records] == ["fast", "fast, mirrored", "fast"]
    assert [found.of(entry).full for entry in records] == ["fast", "fast, mirrored", "fast"]
    assert found.of(records[0]).as_it_is
    assert legend([("spectral+", found.of(entry)) for entry in records]) == [("fast", "`--preset fast`", "spectral+")]
    (table,) = summarize(records)
    assert [(row.how.short, row.seeds) for row in table.rows] == [("fast", (0, 1)), ("fast, mirrored", (0,))]


def test_a_whole_number_makes_no_other_name() -> None:
    recipes = [Recipe("fast", changes={**LONG.changes, "pretrain.epochs": value}) for value in (60, 60.0)]
    assert names(*(made(recipe, day) for day, recipe in enumerate(recipes, 1))) == ["fast-A", "fast-A"]


def test_letters_go_on_after_z() -> None:
    assert [letter(number) for number in (0, 25, 26, 27, 701, 702)] == ["a", "z", "aa", "ab", "zz", "aaa"]
