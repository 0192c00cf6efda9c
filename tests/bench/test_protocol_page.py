"""The generated page of a protocol: bars counted by hand, every kind of record shown, misses shown as misses."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.bench.making import METRIC_VALUES, record

from wildspec.bench import bars, curve_page, protocol_page
from wildspec.bench.protocols import choose_rows, rows
from wildspec.bench.records import write_record
from wildspec.bench.render import SPACE
from wildspec.bench.tables import summarize

PAPER = {"id_acc": 0.9310, "ood_acc": 0.8662, "fpr95_id": 0.0013, "auroc": 0.9998}
JOINT = {"fs_fpr95": 0.10, "covariate_kept": 0.85, "detection_rate": 0.95}


def _judged(**changes: Any) -> bars.Judged:
    (table,) = summarize([record(**{**PAPER, **JOINT, **changes})])
    return bars.judge(table.rows[0])


def test_exactly_the_bar_holds_and_a_hair_less_does_not() -> None:
    assert _judged().all_four
    assert _judged().all_joint
    for metric, worse in (("id_acc", 0.9309), ("ood_acc", 0.866), ("fpr95_id", 0.0014), ("auroc", 0.9997)):
        judged = _judged(**{metric: worse})
        assert [name for name, good in judged.four.items() if not good] == [metric]
        assert judged.short == {metric: pytest.approx(100 * abs(worse - PAPER[metric]))}
    for metric, worse in (("fs_fpr95", 0.1001), ("covariate_kept", 0.8499), ("detection_rate", 0.9499)):
        judged = _judged(**{metric: worse})
        assert judged.all_four
        assert [name for name, good in judged.joint.items() if not good] == [metric]
    assert _judged(seconds=1200).in_time
    assert not _judged(seconds=1201).in_time
    assert not _judged(auroc=None).all_four, "what was not measured is not held"


def test_a_miss_is_printed_as_a_miss_with_what_is_lacking() -> None:
    near = record(**{**PAPER, **JOINT, "ood_acc": 0.8587})
    far = record(**{**PAPER, **JOINT, "ood_acc": 0.8587, "id_acc": 0.92}, detector="wild_knn")
    text = bars.to_markdown([near, far])
    assert "**missed**. Nearest: spectral + knn (fast) with 3 of 4; it misses OOD-Acc by 0.75." in text
    assert "| 85.87 ✗<br>by 0.75 |" in text.replace(SPACE, " ")
    assert "1 with 3 of 4, 1 with 2 of 4" in text
    assert "within 20 minutes of training: **missed** by each of 2 records." in text
    assert "the four numbers and the joint decision: **missed** as means, **missed** by 0 of 2 records." in text


def test_what_holds_is_said_to_hold_with_its_time() -> None:
    text = bars.to_markdown([record(**PAPER, **JOINT, method="spectral+", seconds=420.0, seed=seed) for seed in (0, 1, 2)])
    assert "**held** by 3 of 3 records: spectral+ + knn (fast), seed 0, in 7.0 minutes (aim of 8: held)" in text
    assert "Other seeds of that row: seed 1: 4 of 4, seed 2: 4 of 4." in text
    assert "The same as means over the runs of a row: **held** by spectral+ + knn (fast)." in text
    assert "**held** by 1 of 1 rows (knn); with 3 seeds or more: spectral+ + knn (fast)." in text
    assert "**held** by spectral+ + knn (fast) as means, **held** by 3 of 3 records." in text
    assert "ours 3 (spectral+, fast)." in text
    assert "erm 0 **missed**" in text
    twice = bars.to_markdown([record(), record(seconds=60.0), record(method="erm", detector="energy", seed=5)])
    assert "erm 1 (erm, fast) **missed**; scone 0 **missed**; ours 1 (spectral, fast) **missed**." in twice
    slow = bars.to_markdown([record(**PAPER, **JOINT, seconds=1500.0)])
    assert "by one trained model within 20 minutes of training: **missed** by each of 1 records." in slow
    assert "with 4 of 4; it misses the time by 5.0 minutes" in slow


def test_a_mean_above_does_not_hide_a_seed_below() -> None:
    text = bars.to_markdown([record(**{**PAPER, "ood_acc": value}, seed=n) for n, value in enumerate((0.88, 0.86, 0.87))])
    assert "87.00 ✓" in text.replace(SPACE, " ")
    assert "2 with 4 of 4, 1 with 3 of 4" in text


def test_one_seed_above_does_not_hide_the_others() -> None:
    found = {0: 0.87, 1: 0.84, 2: 0.85}
    text = bars.to_markdown([record(**{**PAPER, **JOINT, "ood_acc": v}, seed=n, seconds=600.0) for n, v in found.items()])
    assert "**held** by 1 of 3 records: spectral + knn (fast), seed 0, in 10.0 minutes (aim of 8: missed)." in text
    assert "Other seeds of that row: seed 1: 3 of 4, seed 2: 3 of 4." in text
    assert "runs of a row: **missed**. Nearest: spectral + knn (fast) with 3 of 4; it misses OOD-Acc by" in text
    assert "joint decision: **missed** as means, **held** by 1 of 3 records." in text


def test_only_the_main_set_at_the_protocols_severity_counts() -> None:
    elsewhere = [record(**PAPER, **JOINT, semantic="textures10"), record(**PAPER, **JOINT, severity=3)]
    assert bars.to_markdown(elsewhere).startswith("No record of ours")
    text = bars.to_markdown([record(), *elsewhere, record(method="woods", detector="energy")])
    assert "textures10 run, miniplaces (not run)" in text
    assert "2 of 18; not run: msp, " in text
    assert "| woods |" not in text, "the table of bars is of ours"


def _way(count: int, **values: float) -> list[dict[str, Any]]:
    return [
        {"step": n, "stage": "pretrain", "epoch": n, "seconds": 60.0 * n, "views": 1e6 * n,
         **{metric: value * n / count for metric, value in {**PAPER, **values}.items()}, "fpr95_id": 0.01 / n}
        for n in range(1, count + 1)
    ]  # fmt: skip


def test_first_met_is_the_first_look_as_good_as_the_paper() -> None:
    curve = _way(10)
    assert curve_page.first_met(curve, "id_acc", 93.10) == "10.0"
    assert curve_page.first_met(curve, "fpr95_id", 0.13) == "8.0", "1 / 7 = 0.143, 1 / 8 = 0.125"
    assert curve_page.first_met(curve, "ood_acc", 90.0) == "never; best 86.62 at 10.0"
    assert curve_page.first_met([{"auroc": None, "seconds": 1.0}], "auroc", 99.0) == "–"


def test_looks_of_one_model_are_shown_once_and_thinned() -> None:
    curve = _way(100)
    found = [record(curve=curve, detector=name, method="spectral+") for name in ("wild_knn", "knn")]
    (one,) = curve_page.with_curve(found)
    assert one["detector"] == "knn"
    mirrored = record(detector="knn", curve=curve, config={"hparams": {}, "mirror": True})
    assert curve_page.with_curve([mirrored, *found]) == [one]  # looks are not mirrored: nor is what they end in
    lines = curve_page.looks(one).splitlines()[2:]
    assert len(lines) == curve_page.SHOWN + 1
    assert lines[0].startswith("| 1.0 | 1.0 | pretrain | 1 | 0.93 |")
    assert lines[-2].startswith("| 100.0 | 100.0 | pretrain | 100 | 93.10 |")
    assert lines[-1].startswith("| 2.0 | 6.0 | finished, its own head, knn |  | 93.00 | 86.00 |")
    assert len(curve_page.looks(record(curve=curve[:1])).splitlines()) == 4


def _committed() -> list[dict[str, Any]]:
    """Records of every kind that a page may meet."""
    unseen = {name: {**METRIC_VALUES, "fpr95_id": 0.6} for name in ("textures10", "scenes9_resize")}
    harder = {str(level): {**METRIC_VALUES, "ood_acc": 0.9 - level / 10} for level in range(1, 6)}
    full = {"severities": harder, "unseen": unseen}
    made = [record(method="spectral+", detector=d, seed=s, **full) for d in ("knn", "wild_knn") for s in (0, 1, 2)]
    made[0]["curve"] = _way(5)
    made += [record(method="erm", detector="energy", recipe="paper", seed=s, **full) for s in (0, 1)]
    made += [record(semantic=name, method="spectral+") for name in ("textures10", "miniplaces", "scenes9_crop")]
    made.append(record(semantic="scenes9_resize", method="spectral+", curve=_way(3)))
    made.append(record(method="spectral+", recipe="fast, mirrored", config={"hparams": {}, "mirror": True}))
    return made


def test_page_has_every_part_and_the_command_of_each() -> None:
    text = protocol_page.page("cifar10", _committed())
    titles = [line for line in text.splitlines() if line.startswith("#")]
    parts = ["### All severities", "### Semantic sets that were not in the wild pool", "### Quality against training time"]
    assert titles[:9] == [
        "# Benchmark: cifar10", "## In brief", "## Recipes", "## What of the bars holds",
        "## cifar10, svhn in the wild pool, gaussian_noise severity 1", *parts, "### How it was made",
    ]  # fmt: skip
    stand_ins = [f"## cifar10, {name} in the wild pool, gaussian_noise severity 1"
                 for name in ("textures10", "miniplaces", "scenes9_crop", "scenes9_resize")]  # fmt: skip
    assert [title for title in titles[9:] if title.startswith("## ")] == stand_ins
    main, other = text.split("## cifar10, svhn")[1].split("## cifar10, textures10")
    assert main.count("| not run |") == len(rows()) - 2, "cross-entropy with energy is two rows of the paper"
    assert "not run" not in other, "stand-ins show what was run"
    assert "../img/cifar10-svhn-time.png" in main
    assert "`wildspec bench figures docs/results/records --out docs/img`" in main
    methods = "--methods energy,erm,spectral++knn,spectral++wild_knn"
    assert f"`wildspec bench cifar10 --semantic svhn {methods} --data DIR --out RUN --curve 10`" in main
    assert choose_rows(methods.split()[1].split(",")) == {"erm": ["energy"], "spectral+": ["knn", "wild_knn"]}
    assert "--semantic miniplaces --methods spectral++knn --data" in other
    assert "Looks at spectral+ (fast), seed 0:" in main
    assert "60.00 / 99.95 / 20.00" in main, "unseen sets"
    assert "| – / – / – |" in main, "the mirrored row has no severities"
    assert "../img/cifar10-scenes9_resize-time.png" in other
    assert "../img/cifar10-textures10-time.png" not in other


def test_page_without_looks_or_unseen_sets_says_so() -> None:
    text = protocol_page.page("cifar10", [record()])
    assert "The curve is **not run**" in text
    assert protocol_page.NONE_UNSEEN in text


def test_other_protocols_have_pages_without_bars() -> None:
    pair = record(protocol="office-home", semantic="Ar->Cl", covariate="domain")
    text = protocol_page.page("office-home", [pair])
    assert "bars" not in text
    assert "wildspec bench office-home --semantic 'Ar->Cl' --methods" in text
    assert "not run" not in text


def test_pictures_are_drawn_with_the_page_that_shows_them(script: ModuleType, site: Path) -> None:
    folder = site / "docs" / "results" / "records"
    for number, made in enumerate(_committed()):
        write_record(folder / f"{number}.json", made)
    page = site / "docs" / "results" / "cifar10.md"
    files = script.wanted_files(site)
    page.write_text(files[page], encoding="utf-8")
    assert script.draw_pictures([], site) == []
    drawn = script.draw_pictures([page], site)
    assert sorted(path.name for path in drawn) == ["cifar10-scenes9_resize-time.png", "cifar10-svhn-time.png"]
    assert all(path.parent == site / "docs" / "img" and path.stat().st_size > 0 for path in drawn)
