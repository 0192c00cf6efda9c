"""The page of CIFAR-10: its rows are chosen without a look at test numbers, its counts are those of the records."""

import csv
import io
from typing import Any

from tests.bench.making import METRIC_VALUES, ran, record

import cifar_page
from wildspec.bench.tables import summarize
from wildspec.training.recipe import Recipe

PAPER = {"id_acc": 0.9310, "ood_acc": 0.8662, "fpr95_id": 0.0013, "auroc": 0.9998}  # what the paper prints for spectral
PLAIN, LONGER, PUBLISHED = Recipe("fast"), Recipe("fast", 2.0), Recipe("paper")
Records = list[dict[str, Any]]


def run(recipe: Recipe, *seeds: int, day: int = 1, **changes: Any) -> Records:
    environment = {**record()["environment"], "created": f"2025-01-{day:02d}T00:00:00+00:00"}
    usual = {"method": "scone", "detector": "energy", "environment": environment}
    return [ran(recipe, seed=seed, **{**usual, **changes}) for seed in seeds or (0,)]


def ours(recipe: Recipe, *seeds: int, **changes: Any) -> Records:
    return run(recipe, *seeds, **{"method": "spectral+", "detector": "wild_linear", **changes})


def names(*groups: Records) -> list[str]:
    (table,) = summarize([entry for group in groups for entry in group], unseen=False, severities=False)
    return [f"{row.detector}: {row.recipe}" for row in [*cifar_page.ours(table), *cifar_page.papers(table)]]


def test_of_the_papers_methods_the_published_recipe_then_fast_then_seeds_then_date() -> None:
    assert names(run(PLAIN, 0, 1, 2), run(PUBLISHED)) == ["energy: paper"]
    assert names(run(LONGER, 0, 1, 2), run(PLAIN)) == ["energy: fast"]
    half = Recipe("fast", 0.5)
    assert names(run(LONGER, day=1), run(half, day=2)) == ["energy: fast x0.5"]
    assert names(run(LONGER, day=2), run(half, day=1)) == ["energy: fast x2"]


def test_rows_with_all_labels_stand_apart_and_the_newest_is_shown() -> None:
    generous = Recipe("paper", all_labels=True)
    old, new = run(generous, 0, 1, 2), run(generous, 0, day=2)
    new[0]["config"]["dropout"] = 0.1
    (table,) = summarize([*run(PUBLISHED), *old, *new], unseen=False, severities=False)
    assert [row.recipe for row in cifar_page.papers(table)] == ["paper"]
    assert [row.recipe for row in cifar_page.papers(table, all_labels=True)] == ["paper, all labels #2"]


def test_of_ours_fast_as_it_is_then_seeds_then_date() -> None:
    assert names(ours(LONGER, 0, 1, 2), ours(PLAIN, 3)) == ["wild_linear: fast"]
    half = Recipe("fast", 0.5)
    assert names(ours(LONGER, 0, 1), ours(half, 0, day=2)) == ["wild_linear: fast x2"]
    assert names(ours(LONGER, day=1), ours(half, day=2), ours(PLAIN, mirror=True)) == [
        "wild_linear: fast x0.5", "wild_linear: fast, mirrored",
    ]  # fmt: skip


def test_no_choice_looks_at_test_numbers() -> None:
    def chosen(first: float, second: float) -> list[str]:
        return names(
            run(PLAIN, 0, 1, id_acc=first), run(PUBLISHED, id_acc=second), ours(PLAIN, id_acc=first),
            ours(LONGER, 0, 1, id_acc=second),
        )  # fmt: skip

    assert chosen(0.9, 0.1) == chosen(0.1, 0.9) == ["wild_linear: fast", "energy: paper"]


def test_what_is_met_and_what_is_missed_is_counted_over_seeds_and_run_by_run() -> None:
    linear = {"detector": "wild_linear", "mirror": True}
    good = [entry for seed, value in ((3, 0.87), (4, 0.86), (5, 0.88)) for entry in
            ours(PLAIN, seed, **{**PAPER, "ood_acc": value}, **linear)]  # fmt: skip
    records = [*good, *ours(PLAIN, 0, **{**PAPER, "ood_acc": 0.8587}), *run(PUBLISHED, 0, 1, 2, id_acc=0.9465, auroc=0.5)]
    (main,) = summarize(records, unseen=False, severities=False)
    plain, mirrored, others = cifar_page.in_brief(main, records).splitlines()
    assert "**3 of the paper's 4 numbers**" in plain
    assert "missed: accuracy on shifted images by 0.75." in plain
    assert "after the recipe was fixed" not in plain, "seed 0 was looked at"
    assert "**4 of the paper's 4 numbers**" in mirrored
    assert "meets 4, 3, 4 of 4" in mirrored
    assert "seeds 3, 4, 5, which were run after the recipe was fixed" in mirrored
    assert "like for like" in others
    assert "1 rows, 1 with preset `paper`, 1 with three seeds or more" in others
    assert "meet 3 of the paper's 4 numbers; 1 rows are within 1 point" in others


def test_the_page_has_every_set_and_the_csv_every_number() -> None:
    harder = {str(level): {**METRIC_VALUES, "ood_acc": 0.9 - level / 10} for level in range(1, 6)}
    full = {"severities": harder, "unseen": {"miniplaces": {**METRIC_VALUES, "fpr95_id": 0.63, "auroc": 0.9}}}
    records = [*ours(PLAIN, 0, 1, **PAPER, **full), *ours(PLAIN, semantic="textures10"), *ours(LONGER, id_acc=0.125)]
    text = cifar_page.page(records)
    assert "**93.10 ± 0.00**<br>93.10, +0.00" in text
    more = cifar_page.full(records)
    assert "`textures10` stands in for the paper's textures" in more
    assert "93.00<br>(92.50)" in more, "no difference to a number of another set"
    assert "| wild_linear | fast | 86.6 / 40.0 | 70.0 / 40.0 | 60.0 / 40.0 | 50.0 / 40.0 | 40.0 / 40.0 |" in text
    assert "| wild_linear | fast | 63.0 / 90.0 |" in text
    assert "12.50" not in text
    rows = list(csv.DictReader(io.StringIO(cifar_page.all_numbers(records))))
    assert len(rows) == 3 + 4 + 1
    assert any(row["recipe"] == "fast x2" and row["id_acc"] == "12.500" for row in rows)
    assert {row["seeds"] for row in rows if row["recipe"] == "fast" and row["pool"] == "svhn"} == {"0 1"}
