"""Records in, tables out: the arithmetic against the standard library, the text against what one reads off it."""

import statistics
from pathlib import Path
from typing import Any

import pytest
from tests.bench.making import record, wide

from wildspec.bench.records import (
    find_records,
    load_records,
    mean_and_spread,
    read_record,
    write_record,
)
from wildspec.bench.render import to_markdown
from wildspec.bench.tables import HEADLINE, SEVERITY, UNSEEN, summarize
from wildspec.errors import DataError


def test_mean_and_spread_are_the_textbook_ones() -> None:
    values = [0.93, 0.91, 0.925]
    assert mean_and_spread(values) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    assert mean_and_spread([0.5]) == (0.5, None)


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", record())
    assert read_record(tmp_path / "a.json") == {"schema": "wildspec.bench/1", **record()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"auroc": 99.98}, r"auroc must be a fraction in \[0, 1\], got 99.98"),
        ({"auroc": float("nan")}, "auroc must be a fraction"),
        ({"fs_auroc": True}, "fs_auroc must be a fraction"),
        ({"method": 3}, "method must be text"),
        ({"unseen": {"miniplaces": {"fpr95_id": -0.1}}}, "unseen miniplaces: fpr95_id must be a fraction"),
    ],
)
def test_a_wrong_record_is_never_written(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        write_record(tmp_path / "a.json", record(**changes))
    assert not (tmp_path / "a.json").exists()


def test_a_record_without_its_seed_is_refused(tmp_path: Path) -> None:
    without = {key: value for key, value in record().items() if key not in ("seed", "splits")}
    with pytest.raises(DataError, match="lacks seed, splits"):
        write_record(tmp_path / "a.json", without)


def test_an_absent_metric_is_null_and_a_dash(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", record(fs_auroc=None))
    (table,) = summarize(load_records([tmp_path]))
    assert "fs_auroc" not in table.rows[0].cells
    assert "fs_auroc" not in table.metrics


def test_find_records_passes_over_other_files(tmp_path: Path) -> None:
    write_record(tmp_path / "deep" / "b.json", record())
    (tmp_path / "config.json").write_text('{"epochs": 3}')
    (tmp_path / "torn.json").write_text('{"sch')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    assert find_records([tmp_path]) == [tmp_path / "deep" / "b.json"]
    with pytest.raises(DataError, match="is no benchmark record"):
        load_records([tmp_path / "config.json"])
    with pytest.raises(DataError, match="does not exist"):
        load_records([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no benchmark records"):
        load_records([tmp_path / "empty"])


def test_merging_counts_a_file_once_and_drops_no_seed(tmp_path: Path) -> None:
    write_record(tmp_path / "one" / "a.json", record(seed=0))
    write_record(tmp_path / "two" / "a.json", record(seed=0))  # a copy of the same result
    write_record(tmp_path / "two" / "b.json", record(seed=1, id_acc=0.95))
    write_record(tmp_path / "two" / "c.json", record(seed=1, id_acc=0.90))  # the seed again, another outcome
    (table,) = summarize(load_records([tmp_path / "one", tmp_path / "two", tmp_path / "one" / "a.json"]))
    (row,) = table.rows
    assert row.seeds == (0, 1, 1)
    assert row.cells["id_acc"].mean == pytest.approx(100 * (0.93 + 0.95 + 0.90) / 3)
    assert row.cells["id_acc"].spread == pytest.approx(100 * statistics.stdev([0.93, 0.95, 0.90]))


def test_the_papers_number_and_the_difference() -> None:
    (table,) = summarize([record(ood_acc=0.87)])
    cells = table.rows[0].cells
    assert cells["ood_acc"].paper == (86.62,)
    assert cells["ood_acc"].difference == pytest.approx(87 - 86.62)
    assert cells["ood_acc"].met
    assert cells["fpr95_id"].difference == pytest.approx(0.2 - 0.13)
    assert cells["fpr95_id"].met is False, "lower is better"
    assert cells["fs_fpr95"].paper == ()


def test_met_is_decided_on_the_printed_digits() -> None:
    def met(value: float) -> bool | None:
        return summarize([record(auroc=value)])[0].rows[0].cells["auroc"].met

    assert met(0.99976) is True  # 99.976 prints as 99.98
    assert met(0.99974) is False  # 99.974 prints as 99.97


def test_a_protocol_of_ones_own_has_no_rows_of_the_paper() -> None:
    """One model under one score is one row there, by the name that was asked for."""
    (table,) = summarize([record(method="erm", detector="energy", recipe="fast", protocol="own", semantic="animals")])
    assert [row.name for row in table.rows] == ["erm+energy"]


def test_cross_entropy_with_energy_is_two_rows_of_the_paper() -> None:
    (table,) = summarize([record(method="erm", detector="energy", recipe="paper")])
    assert [row.name for row in table.rows] == ["energy", "erm"]
    assert all(row.cells["fpr95_id"].paper == (35.59,) for row in table.rows)


def test_rows_stand_in_the_papers_order_and_strangers_last() -> None:
    pairs = [("spectral", "knn"), ("spectral", "energy"), ("oe", "msp"), ("erm", "msp")]
    (table,) = summarize([record(method=method, detector=detector) for method, detector in pairs])
    assert [row.name for row in table.rows] == ["msp", "oe", "spectral", "spectral+energy"]
    assert table.rows[-1].cells["id_acc"].paper == ()


def test_our_variant_is_measured_against_the_papers_method_under_either_detector() -> None:
    rows = summarize([record(method="spectral+", detector=name, fpr95_id=0.0012) for name in ("knn", "wild_knn")])[0].rows
    assert [(row.name, row.detector) for row in rows] == [("spectral+", "knn"), ("spectral+", "wild_knn")]
    for row in rows:
        assert row.cells["fpr95_id"].paper == (0.13,)
        assert row.cells["fpr95_id"].met is True


def test_recipes_are_never_averaged_together() -> None:
    (table,) = summarize([record(recipe="fast"), record(recipe="paper", id_acc=0.5)])
    assert [(row.recipe, row.cells["id_acc"].mean) for row in table.rows] == [("fast", 93.0), ("paper", 50.0)]


def _rate(value: float) -> dict[str, Any]:
    return {"hparams": {"eta_l": 0.5, "eta_u": 2.0}, "stages": [{"name": "pretrain", "lr": value}]}


def test_two_recipes_of_one_name_stay_apart() -> None:
    (table,) = summarize([record(config=_rate(0.1)), record(seed=1, config=_rate(0.2), id_acc=0.5)])
    assert [(row.recipe, row.cells["id_acc"].mean) for row in table.rows] == [("fast", 93.0), ("fast #2", 50.0)]


def test_both_recipes_of_one_name_are_in_the_grids() -> None:
    made = [record(config=_rate(rate), severities={"2": {"ood_acc": value}}) for rate, value in ((0.1, 0.7), (0.2, 0.31))]
    text = to_markdown(summarize(made))
    assert "70.00 / – / –" in text
    assert "31.00 / – / –" in text


def test_another_severity_in_the_wild_pool_is_another_table() -> None:
    """Trained at 1 and tested at 2, trained at 3 and tested at 2: never one mean."""
    made = [record(severities={"2": {"ood_acc": 0.7}}), record(severity=3, severities={"2": {"ood_acc": 0.31}})]
    tables = [table for table in summarize(made) if table.kind == SEVERITY]
    assert [(t.trained, t.severity, t.rows[0].cells["ood_acc"].mean) for t in tables] == [(1, 2, 70.0), (3, 2, 31.0)]
    assert "severity 3, tested at severity 2" in tables[1].title


def test_a_mean_over_fewer_runs_says_so() -> None:
    made = [record(severities={"2": {"ood_acc": 0.7}}), record(seed=1, fs_auroc=None)]
    text = to_markdown(summarize(made))
    assert "95.00 [1 of 2 runs]" in text, "the full-spectrum AUROC is of one seed"
    assert "70.00 / – / – [1 of 2 runs]" in text, "so is severity 2"


def test_seeds_are_named_and_training_time_counts_each_model_once() -> None:
    made = [record(), record(detector="energy"), record(seconds=60.0, id_acc=0.9), record(seed=2)]
    (table,) = summarize(made)
    assert [row.seeds for row in table.rows] == [(0, 0, 2), (0,)]
    assert "| 3 (0, 0, 2) |" in to_markdown([table])
    assert table.provenance["training_seconds"] == 120 + 60 + 120, "seed 0, seed 0 again, seed 2"


def test_a_stand_in_quotes_the_paper_but_takes_no_difference() -> None:
    (table,) = summarize([record(semantic="textures10")])
    cell = table.rows[0].cells["fpr95_id"]
    assert table.stand_in_for == "textures"
    assert (cell.paper, cell.difference, cell.met) == ((12.05,), None, None)
    text = to_markdown([table])
    assert "textures10 stands in for textures" in text
    assert "0.20 (12.05)" in text


def test_lsun_r_quotes_both_printed_numbers() -> None:
    (table,) = summarize([record(semantic="lsun_r", ood_acc=0.8)])
    assert table.rows[0].cells["ood_acc"].paper == (79.38, 79.68)
    assert "80.00** (79.38 / 79.68; +0.62)" in to_markdown([table])


def test_sweep_and_impact_have_their_own_published_rows() -> None:
    point = record(protocol="sweep", semantic="textures", config={"hparams": {"eta_l": 0.02, "eta_u": 1.0}})
    (table,) = summarize([point])
    assert table.rows[0].cells["ood_acc"].paper == (60.60,)
    assert table.rows[0].cells["id_acc_validation"].paper == (89.04,)
    assert "ID-Acc (validation)" in to_markdown([table])
    (table,) = summarize([record(protocol="impact", semantic="cifar10_unknown_gaussian_noise")])
    assert table.rows[0].cells["ood_acc"].paper == (88.18,)
    assert table.rows[0].cells["auroc"].paper == ()


def test_severities_and_unseen_sets_become_tables_of_their_own() -> None:
    tables = summarize(wide())
    assert [table.kind for table in tables] == [HEADLINE, *[SEVERITY] * 4, *[UNSEEN] * 2]
    assert [table.severity for table in tables[1:5]] == [2, 3, 4, 5]
    assert [table.tested_on for table in tables[5:]] == ["textures10", "miniplaces"], "in the protocol's order"
    assert tables[6].rows[0].cells["fpr95_id"].mean == pytest.approx(63)
    assert tables[6].rows[0].cells["fpr95_id"].paper == (), "the paper trained with that set in the pool"
    assert len(summarize(wide(), unseen=False, severities=False)) == 1


def test_merging_runs_of_several_commits_names_them_all() -> None:
    other = {**record()["environment"], "commit": "def"}
    (table,) = summarize([record(), record(seed=1, environment=other, command="wildspec bench cifar10 --first-seed 1")])
    assert table.provenance["commits"] == ["abc", "def"]
    assert len(table.provenance["commands"]) == 2
    assert table.rows[0].seeds == (0, 1), "the same recipe: one row"
