"""The first screen of the results page: which row stands for a method, what it says of the bars, and what it never hides."""

import re
from typing import Any

from tests.bench.making import ran, record

from wildspec.bench import brief, protocol_page
from wildspec.bench.names import Names
from wildspec.bench.protocols import rows
from wildspec.bench.render import SPACE
from wildspec.bench.tables import TableRow, summarize
from wildspec.training.recipe import Recipe

PAPER = {"id_acc": 0.9310, "ood_acc": 0.8662, "fpr95_id": 0.0013, "auroc": 0.9998}
JOINT = {"fs_fpr95": 0.10, "covariate_kept": 0.85, "detection_rate": 0.95}
PLAIN, SCALED, PUBLISHED = Recipe("fast"), Recipe("fast", 0.3), Recipe("paper")
CHANGED = Recipe("paper", changes={"wild.lr": 0.5})


Records = list[dict[str, Any]]


def run(recipe: Recipe, *seeds: int, day: int = 1, stage: dict[str, Any] | None = None, **changes: Any) -> Records:
    environment = {**record()["environment"], "created": f"2025-01-{day:02d}T00:00:00+00:00"}
    usual = {"method": "scone", "detector": "energy", "environment": environment}
    made = [ran(recipe, seed=seed, **{**usual, **changes}) for seed in seeds or (0,)]
    for entry in made:
        entry["config"]["stages"][0] |= stage or {}
    return made


def found(*groups: Records) -> list[TableRow]:
    (table,) = summarize([entry for group in groups for entry in group])
    return list(table.rows)


def stands(*groups: Records) -> str:
    return brief.representative(found(*groups)).how.short


def test_published_length_goes_before_fast_and_fast_before_anything_else() -> None:
    assert stands(run(PLAIN, 0, 1, 2), run(PUBLISHED)) == "paper"
    assert stands(run(SCALED, 0, 1, 2), run(CHANGED, 0, 1), run(PLAIN)) == "fast"
    assert stands(run(SCALED), run(CHANGED, 0, 1)) == CHANGED.label


def test_then_seeds_then_the_protocols_labels_then_todays_definition_then_the_newest() -> None:
    all_labels = Recipe("paper", all_labels=True)
    assert stands(run(PUBLISHED), run(all_labels, 0, 1, 2)) == "paper, all labels"
    assert stands(run(all_labels, 0, 1), run(PUBLISHED, 0, 1)) == "paper"
    assert stands(run(PUBLISHED, 0, 0, 0), run(all_labels, 0, 1)) == "paper, all labels", "a seed counts once"
    assert stands(run(PLAIN, day=9, stage={"lr": 0.7}), run(PLAIN, day=1)) == "fast"
    assert stands(run(PLAIN, 0, 1, stage={"lr": 0.7}), run(PLAIN, 0)) == "fast (earlier)"
    half = Recipe("fast", 0.5)
    assert stands(run(SCALED, day=1), run(half, day=2)) == "fast x0.5"
    assert stands(run(SCALED, day=2), run(half, day=1)) == "fast x0.3"


def test_no_choice_looks_at_test_numbers() -> None:
    """Whatever the numbers are, the same rows stand for the methods."""
    def chosen(first: float, second: float) -> list[str]:
        groups = [
            run(PLAIN, 0, 1, id_acc=first), run(PUBLISHED, id_acc=second), run(CHANGED, id_acc=first),
            *(run(recipe, 0, 1, method="spectral+", detector=name, mirror=mirror, id_acc=value, seconds=seconds)
              for recipe, value, seconds in ((PLAIN, first, 300.0), (SCALED, second, 200.0))
              for name in ("knn", "wild_knn", "wild_linear") for mirror in (False, True)),
        ]  # fmt: skip
        return [f"{row.name} {row.detector} {row.how.short}" for row in brief.chosen(found(*groups))]

    assert chosen(0.9, 0.1) == chosen(0.1, 0.9) == [
        "spectral+ wild_knn fast x0.3", "spectral+ wild_knn fast x0.3, mirrored",
        "spectral+ wild_linear fast x0.3", "spectral+ wild_linear fast x0.3, mirrored", "scone energy paper",
    ]  # fmt: skip


def test_of_ours_most_seeds_then_todays_definition_then_the_shortest_training() -> None:
    ours = {"method": "spectral+", "detector": "wild_linear"}
    more, short = run(PLAIN, 0, 1, 2, seconds=900.0, **ours), run(SCALED, 0, 1, seconds=60.0, **ours)
    assert brief.ours(found(more, short)).how.short == "fast"
    assert brief.ours(found(more[:2], short)).how.short == "fast x0.3"
    then = run(SCALED, 0, 1, seconds=60.0, stage={"warmup": 0.25}, **ours)
    assert brief.ours(found(more[:2], then)).how.short == "fast"


def test_other_sets_in_the_pool_get_a_row_by_the_default_detector_and_one_of_the_other_with_mirror_images() -> None:
    assert brief.elsewhere(run(PLAIN, method="spectral+", detector="wild_knn"), Names([])) == [], "the main set has its own"
    kinds = [("wild_knn", False), ("wild_knn", True), ("wild_linear", False), ("wild_linear", True), ("knn", True)]
    made = [
        ran(PLAIN, detector=detector, mirror=mirror, semantic=name, fpr95_id=0.01 * i, seconds=60.0 * i)
        for name in ("scenes9_crop", "textures10")
        for i, (detector, mirror) in enumerate(kinds, 1)
    ]
    said, text = brief.elsewhere(made, Names(made))
    assert "stand in for the paper's sets" in said
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.replace(SPACE, " ").splitlines()[2:]]
    assert [(row[0], row[1], row[2], row[5], row[7], row[8]) for row in cells] == [
        ("textures10<br>(textures)", "wild_knn", "fast", "1.00<br>(12.05)", "1", "1.0"),
        ("textures10<br>(textures)", "wild_linear", "fast, mirrored", "4.00<br>(12.05)", "1", "4.0"),
        ("scenes9_crop<br>(lsun_c)", "wild_knn", "fast", "1.00<br>(1.76)", "1", "1.0"),
        ("scenes9_crop<br>(lsun_c)", "wild_linear", "fast, mirrored", "4.00<br>(1.76)", "1", "4.0"),
    ]


def block(records: Records) -> str:
    return "\n\n".join(brief.page_block(records, Names(records))).replace(SPACE, " ")


def test_held_is_said_with_seeds_minutes_and_each_run() -> None:
    good, values = {**PAPER, **JOINT, "seconds": 420.0, "detector": "wild_linear"}, enumerate((0.88, 0.86, 0.87))
    text = block([ran(PLAIN, **{**good, "ood_acc": value}, seed=seed) for seed, value in values])
    assert text.startswith(
        "- **Held**, as means over 3 seeds: the paper's four numbers on SVHN (ID-Acc ≥ 93.10, OOD-Acc ≥ 86.62, "
        "FPR95 ≤ 0.13, AUROC ≥ 99.98) by one model within 20 minutes of training. By `spectral+` with `wild_linear`, "
        "recipe fast, in 7.0 minutes (its runs one by one: 4, 3, 4 of 4).\n"
    )
    assert "**Held** by 1 of our 1 rows: the joint decision (fs-FPR95 ≤ 10, " in text
    assert "or more; by 1 together with the four numbers." in text
    assert "**Missed**" not in text
    assert "were chosen while looking at these test images" in text


def test_missed_is_said_with_what_is_lacking() -> None:
    near = {**PAPER, **JOINT, "ood_acc": 0.8587, "fs_fpr95": 0.2}
    made = [ran(PLAIN, detector="wild_knn", **near, seed=seed) for seed in range(3)]
    text = block(made)
    assert text.startswith("- **Missed**, as means over 3 seeds or more: the paper's four numbers on SVHN (")
    assert "training. Nearest: `spectral+` with `wild_knn`, recipe fast, 3 of 4; it misses OOD-Acc by 0.75.\n" in text
    assert (
        "**Missed** with the default detector and no mirror images: `spectral+` with `wild_knn`, recipe fast, 3 of 4; it "
        "misses OOD-Acc by 0.75."
    ) in text
    assert "**Missed** by each of our 1 rows: the joint decision" in text
    assert "**Held**" not in text
    slow = block([ran(PLAIN, detector="wild_knn", **{**PAPER, **JOINT}, seed=seed, seconds=1500.0) for seed in range(3)])
    assert "3 seeds or more: the paper's four" in slow
    assert "4 of 4; it misses the time by 5.0 minutes." in slow
    worse = block([ran(PLAIN, **{**near, "id_acc": 0.92, "auroc": 0.9}, seed=seed) for seed in range(3)])
    assert "1 of 4; it misses ID-Acc by 1.10, OOD-Acc by 0.75 and AUROC by 9.98." in worse


def test_one_lucky_seed_holds_nothing() -> None:
    text = block([ran(PLAIN, detector="wild_knn", **PAPER, **JOINT)])
    assert text.startswith("- **Missed**, no recipe of ours has 3 seeds: ")
    assert "**Missed** by want of seeds: the joint decision" in text
    again = block([ran(PLAIN, detector="wild_knn", **PAPER, **JOINT, seconds=seconds) for seconds in (60.0, 70.0, 80.0)])
    assert again.startswith("- **Missed**, no recipe of ours has 3 seeds: "), "three runs of one seed are one seed"


def test_every_row_of_the_paper_is_there_run_or_not() -> None:
    text = block([*run(PUBLISHED, 0, 0, id_acc=0.9465, auroc=0.9), *run(PLAIN, 0, method="erm")])
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert [line[0].removeprefix("| ") for line in lines] == [row.row for row in rows()]
    scone = next(line for line in lines if line[0] == "| scone")
    assert scone[1:4] == ["energy", "paper", "**94.65 ± 0.00**<br>94.65, +0.00"]
    assert scone[7:] == ["3 of 4", "1 (2 runs)", "2.0 |"]
    woods = next(line for line in lines if line[0] == "| woods")
    assert woods[2:4] == ["–", "not run<br>94.86"]
    assert "- **Open**: no record of ours yet." in text
    assert re.search(r"The paper's own rows: 3 of 20 run, 1 by the published recipe, 0 with 3 seeds or more\.", text)
    generous = block(run(Recipe("paper", all_labels=True), method="erm"))
    assert "2 by the published recipe (2 of these with all labels, not the protocol's half)" in generous
    assert block([record(semantic="textures10")]).startswith("No record on the main set yet")


def test_long_names_stand_on_the_page_only_in_the_legend() -> None:
    long = Recipe("fast", changes={"pretrain.augmentation.blur_sigma": [0.1, 2.0], "pretrain.epochs": 150, "rounds": 2})
    looks = [{"step": 1, "stage": "pretrain", "epoch": 1, "seconds": 60.0, "views": 1e6, **PAPER}]
    made = [ran(long, detector=name, seed=seed, mirror=mirror, unseen={"textures10": PAPER | JOINT}, curve=looks)
            for name in ("knn", "wild_knn", "wild_linear") for seed in range(3) for mirror in (False, True)]  # fmt: skip
    text = protocol_page.page("cifar10", [*made, ran(long, semantic="miniplaces")])
    assert long.label not in text
    assert text.count("blur_sigma") == 1
    assert "Looks at spectral+ (fast-A), seed 0:" in text
    first = text.split("## Recipes")[0]
    row, rule = "| **spectral+** | wild_knn | fast-A |", "One recipe stands for"
    assert first.index("**Missed**") < first.index(row) < first.index(rule)
