"""The whole runner on a tiny generated parquet set: two methods, two seeds, cut and resumed."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.bench import making
from tests.bench.tiny import write_office_home
from tests.bench.tiny_run import ERM, TINY, request_of
from typer.testing import CliRunner

from wildspec.bench.measure import mean_class_accuracy
from wildspec.bench.plan import BenchRequest, plan
from wildspec.bench.protocols import protocol
from wildspec.bench.published import published, tables
from wildspec.bench.records import METRICS, OPEN_SET, find_records, read_record
from wildspec.bench.run import run
from wildspec.bench.tables import summarize
from wildspec.cli.bench import SETS, _apart, _tell
from wildspec.cli.main import app
from wildspec.data import data_sets
from wildspec.methods.hparams import HPARAMS

MEASURED = tuple(metric for metric in METRICS if metric not in OPEN_SET)  # those are of a shift to another domain

PLUS = {name + key: value for name in ("pseudo_label", "pseudo_label2", "warmup_head", "warmup_head2")
        for key, value in ((".epochs", 1.0), (".batch_labelled", 48), (".batch_wild", 48))
        if key != ".batch_wild" or name.startswith("pseudo_label")}  # fmt: skip


@pytest.fixture(scope="module")
def whole(data: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uncut run of both methods and both seeds, every detector of the paper on the cross-entropy model."""
    out = tmp_path_factory.mktemp("whole")
    assert run(request_of(data, cache, out)).complete
    assert run(request_of(data, cache, out, "msp,odin,energy,mahalanobis,vim,knn,ash,erm", ERM)).complete
    return out


def test_records_hold_everything_a_table_needs(whole: Path) -> None:
    records = [read_record(path) for path in find_records([whole])]
    detectors = ("ash", "energy", "knn", "mahalanobis", "msp", "odin", "vim")
    assert sorted((r["method"], r["detector"], r["seed"]) for r in records) == [
        *(("erm", detector, seed) for detector in detectors for seed in (0, 1)),
        ("spectral", "knn", 0), ("spectral", "knn", 1),
    ]  # fmt: skip
    for record in records:
        assert all(0 <= record[metric] <= 1 for metric in MEASURED), "the validation accuracy among them"
        assert sorted(record["severities"]) == ["1", "2", "3", "4", "5"]
        assert sorted(record["unseen"]) == ["miniplaces", "textures10"]
        assert record["severities"]["1"]["ood_acc"] == record["ood_acc"]
        assert record["threshold_from"] == "calibrated"
        assert record["views"] > 0
        assert record["seconds"] > 0
        assert set(record["splits"]) == {
            "labelled", "wild", "id_validation", "id_test", "semantic_test", "covariate_test_1"
        }  # fmt: skip
        assert record["environment"]["versions"]["torch"]
        assert record["config"]["model"] == "small"
        assert record["config"]["dropout"] == 0, "it has none, whatever the preset says of others"
    spectral = next(record for record in records if record["method"] == "spectral")
    hparams = spectral["config"]["hparams"]
    assert {"eta_l": 0.5, "eta_u": 2.0}.items() <= hparams.items(), "the paper's choice for SVHN"
    assert set(hparams) == {entry.name for entry in HPARAMS["spectral"]}, "defaults, too: they may be others tomorrow"
    assert [stage["name"] for stage in spectral["config"]["stages"]] == ["pretrain", "finetune"]
    assert spectral["detector_config"]["k"] == 50
    assert spectral["config"]["wild"] == {"pi_c": 0.5, "pi_s": 0.1, "sizes": [150, 150, 42]}
    assert (spectral["config"]["device"], spectral["config"]["precision"]) == ("cpu", "fp32")
    assert next(record for record in records if record["method"] == "erm")["config"]["wild"] is None


def test_the_joint_decision_stands_beside_the_plain_detector(data: Path, cache: Path, tmp_path: Path) -> None:
    """One model, two records; the one that uses the wild pool says what it made of it, in the protocol's shares."""
    recipe = dataclasses.replace(TINY, changes={**TINY.changes, **PLUS})
    request = request_of(data, cache, tmp_path, "spectral++knn,spectral++wild_knn", recipe, seeds=(0,))
    assert [(job.method, job.detectors) for job in plan(request)] == [("spectral+", ("knn", "wild_knn"))]
    assert run(request).complete
    records = {record["detector"]: record for record in map(read_record, find_records([tmp_path]))}
    plain, joint = records["knn"], records["wild_knn"]
    assert "pool" not in plain
    pool = joint["pool"]
    assert pool["true"]["pool"] == [120, 150, 30], "0.4, 0.5 and 0.1 of the largest pool that 150 covariate images allow"
    assert all(0 <= a <= b for a, b in zip(pool["true"]["attributed"], pool["true"]["pool"], strict=True))
    assert joint["threshold"] == max(pool["threshold_id"], pool["threshold_shift"])
    assert pool["mixture"]["n"] == 300
    assert joint["id_acc"] == plain["id_acc"]
    assert [stage["name"] for stage in joint["config"]["stages"]] == [
        "pretrain", "warmup_head", "pseudo_label", "warmup_head2", "pseudo_label2", "finetune"
    ]  # fmt: skip


def test_mirrored_measuring_finds_the_model_and_gives_rows_of_its_own(
    data: Path, cache: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    request = request_of(data, cache, out, seeds=(0,))
    plain = read_record(plan(request)[0].record("knn"))
    mirrored = dataclasses.replace(request, mirror=True)
    (job,) = plan(mirrored)
    log = (job.folder / "metrics.jsonl").read_bytes()
    assert run(mirrored).done == [job.name]
    record = read_record(job.record("knn"))
    assert (job.folder / "metrics.jsonl").read_bytes() == log, "nothing was trained again"
    assert record["recipe"] == f"{plain['recipe']}, mirrored"
    assert record["config"] == {**plain["config"], "mirror": True}
    assert record["threshold"] != plain["threshold"]
    assert run(mirrored).found == [job.name]


def test_an_accurate_model_comes_out(whole: Path) -> None:
    """Ten colours are easy: a runner that mixed up labels, sets or weights would not get there."""
    records = [read_record(path) for path in find_records([whole])]
    assert all(record["id_acc"] > 0.8 for record in records if record["method"] == "erm")


def test_one_model_serves_all_detectors(whole: Path) -> None:
    records = [read_record(path) for path in find_records([whole])]
    for seed in (0, 1):
        mine = [r for r in records if (r["method"], r["seed"]) == ("erm", seed)]
        assert len({(r["id_acc"], r["ood_acc"], r["seconds"], r["steps"]) for r in mine}) == 1
        assert len({r["auroc"] for r in mine}) > 3, "but they score differently"


def test_views_are_counted(whole: Path) -> None:
    record = next(read_record(path) for path in find_records([whole]) if "spectral" in str(path))
    per_epoch = math.floor(240 / 48)
    assert record["views"] == 3 * per_epoch * (2 * 48 + 2 * 48) + 2 * per_epoch * 48


def test_tables_are_written_in_three_formats(whole: Path) -> None:
    text = (whole / "table.md").read_text()
    assert "| spectral | knn |" in text
    head = text.split("All severities")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in head.splitlines() if line.startswith("|")]
    assert rows[2:] == ["msp", "odin", "energy", "mahalanobis", "vim", "knn", "ash", "erm", "spectral"], "as in the paper"
    assert "(93.10; " in text
    assert (whole / "table.csv").read_text().startswith("protocol,")
    assert r"\begin{table}" in (whole / "table.tex").read_text()


def test_a_second_call_does_nothing(whole: Path, data: Path, cache: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in find_records([whole])}
    outcome = run(request_of(data, cache, whole))
    assert len(outcome.found) == 2
    assert not outcome.done
    assert {path: path.stat().st_mtime_ns for path in find_records([whole])} == before


def test_cut_at_every_step_and_resumed_gives_the_same_numbers(whole: Path, data: Path, cache: Path, tmp_path: Path) -> None:
    request = request_of(data, cache, tmp_path, seeds=(0,), limit=1e-3)
    calls = 0
    while not (outcome := run(request)).complete:
        assert len(outcome.cut) == 1
        calls += 1
        assert calls < 60
    assert calls >= 5, "every call gets one step further"
    mine = read_record(find_records([tmp_path])[0])
    theirs = read_record(whole / find_records([tmp_path])[0].relative_to(tmp_path))
    same = [*MEASURED, "views", "steps", "severities", "unseen", "splits"]
    assert {key: mine[key] for key in same} == {key: theirs[key] for key in same}


def test_cut_in_every_stage_of_our_learner_and_resumed_gives_the_same_numbers(
    data: Path, cache: Path, tmp_path: Path
) -> None:
    """Six stages, two attributions made between them: what a cut run has learned of the wild pool is kept with it."""
    recipe = dataclasses.replace(TINY, changes={**TINY.changes, "pretrain.epochs": 1.0, **PLUS})
    request = request_of(data, cache, tmp_path / "cut", "spectral++knn,spectral++wild_knn", recipe, seeds=(0,), unseen=False)
    assert run(dataclasses.replace(request, out=tmp_path / "whole")).complete
    stages = set()
    while not run(dataclasses.replace(request, limit=1e-3)).complete:
        state = max((tmp_path / "cut").rglob("checkpoints/*/state.json"), key=lambda path: path.parent.name)
        stages.add(json.loads(state.read_text())["facts"]["stage_number"])
    assert stages == {0, 1, 2, 3, 4, 5}, "cut in every one of them"
    for path in find_records([tmp_path / "cut"]):
        mine, theirs = read_record(path), read_record(tmp_path / "whole" / path.relative_to(tmp_path / "cut"))
        same = [*MEASURED, "views", "steps", "severities", "splits", *(["pool"] if "pool" in mine else [])]
        assert {key: mine[key] for key in same} == {key: theirs[key] for key in same}


def test_another_detector_reuses_the_trained_model(whole: Path, data: Path, cache: Path) -> None:
    steps = {path: path.stat().st_mtime_ns for path in whole.rglob("checkpoints/*/state.json")}
    outcome = run(request_of(data, cache, whole, "erm+knn", ERM, semantics=("textures10",)))
    assert len(outcome.done) == 2
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("checkpoints/*/state.json")} == steps, "no step was taken"
    assert (whole / "cifar10" / "labelled-only").is_dir(), "a model without wild data serves every semantic set"
    assert len(run(request_of(data, cache, whole, "erm+energy", ERM, semantics=("textures10",))).done) == 2
    for path in whole.rglob("textures10.samples.safetensors"):  # for the figures: the scores of both detectors
        assert {"id.score.knn", "id.score.energy", "id.features"} <= set(load_file(path))
        path.unlink()
    for path in whole.rglob("records/textures10-*.json"):
        path.unlink()


def test_office_home_pair_end_to_end(tmp_path: Path) -> None:
    data = write_office_home(tmp_path / "data", per_class=10)
    recipe = dataclasses.replace(TINY, changes={**TINY.changes, "pretrain.epochs": 1.0, "finetune.epochs": 1.0}, size=8)
    said: list[str] = []
    small = protocol("office-home").resized(8)
    request = BenchRequest(small, ("Ar->Rw",), {"spectral": ["knn"]}, (0,), data, tmp_path / "run", recipe, device="cpu")
    assert run(request, said.append).complete
    assert any("--init" in line for line in said), "the paper starts from pre-trained weights"
    (path,) = find_records([tmp_path / "run"])
    assert path.name == "Ar-to-Rw-knn.json"
    record = read_record(path)
    assert (record["covariate"], record["semantic"], record["unseen"]) == ("domain", "Ar->Rw", {})
    assert record["detector_config"]["k"] == 5
    assert "(78.60; " in (tmp_path / "run" / "table.md").read_text(), "the paper's number for that pair"


def test_mean_class_accuracy_counts_classes_not_samples() -> None:
    labels = torch.tensor([0, 0, 0, 0, 3, 3])
    predicted = torch.tensor([0, 0, 0, 1, 0, 0])
    assert mean_class_accuracy(predicted, labels) == pytest.approx((3 / 4 + 0) / 2)


def test_a_run_ends_with_its_table(
    whole: Path, data: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _tell(run(request_of(data, cache, whole)), "cifar10", ("svhn",), whole)
    lines = capsys.readouterr().out.splitlines()
    assert "found done: 2" in lines
    assert lines[0].startswith("cifar10, svhn in the wild pool")
    row = next(line.split() for line in lines if line.strip().startswith("spectral"))
    records = [read_record(path) for path in find_records([whole]) if "spectral" in str(path)]
    shown = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "covariate_kept", "detection_rate")
    means = [f"{sum(100 * record[metric] for record in records) / len(records):.2f}" for metric in shown]
    assert row == ["spectral", *means], "all of them fit into 80 columns"
    assert any("(93.10)" in line for line in lines)


def test_rows_of_one_method_are_told_apart_by_what_differs() -> None:
    recipes = ("fast, eta_l=0.1, eta_u=1", "fast, eta_l=0.5, eta_u=1", "fast, mirrored, sigma=[0.1, 2], eta_l=0.5, eta_u=1")
    (table,) = summarize([making.record(recipe=recipe) for recipe in recipes])
    assert {row.recipe: _apart(row, table.rows) for row in table.rows} == {
        recipes[0]: ["eta_l=0.1"], recipes[1]: ["eta_l=0.5"], recipes[2]: ["mirrored", "sigma=[0.1, 2]", "eta_l=0.5"],
    }  # fmt: skip
    (alone,) = summarize([making.record()])
    assert _apart(alone.rows[0], alone.rows) == []


def test_help_names_the_semantic_sets_of_each_protocol() -> None:
    for name, text in SETS.items():
        made = protocol(name)
        usual = made.default_semantic or made.semantic[0].name
        if made.kind == "domains":
            assert usual in text
            continue
        listed = text.split(", ")
        assert listed[0] == usual
        assert sorted(listed) == sorted(entry.name for entry in made.semantic)


def test_command_line(whole: Path, data: Path, cache: Path, tmp_path: Path) -> None:
    call = CliRunner().invoke
    table = call(app, ["bench", "table", str(whole), "--json"])
    assert table.exit_code == 0
    assert json.loads(table.stdout)[0]["rows"][0]["name"] == "msp"
    assert "spectral" in call(app, ["bench", "table", str(whole), "--format", "csv"]).stdout
    shown = call(app, ["bench", "paper", "--table", "main", "--method", "spectral", "--semantic", "svhn"])
    assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
        ["method", "semantic", "ood_acc", "id_acc", "fpr95_id", "auroc"],
        ["spectral", "svhn", "86.62", "±", "0.3", "93.10", "±", "0.1", "0.13", "±", "0.0", "99.98", "±", "0.0"],
    ]
    assert shown.stdout.startswith("tab:ood (main): Main results on CIFAR-10, as printed")
    everything = call(app, ["bench", "paper"]).stdout
    assert all(f"{entry['label']} ({name}): " in everything for name, entry in tables().items())
    assert len(everything.splitlines()) == len(published()) + 2 * len(tables())
    nothing = call(app, ["bench", "paper", "--method", "nobody"])
    assert nothing.exit_code == 1
    assert "the paper prints no such number" in nothing.stderr
    prepared = call(app, ["bench", "prepare", "cifar10", "--data", str(data), "--cache", str(tmp_path), "--json"])
    assert prepared.exit_code == 0
    assert all(row["complete"] for row in json.loads(prepared.stdout))
    where = ["--data", str(data), "--cache", str(cache)]
    lacking = call(app, ["bench", "prepare", "cifar10", "--semantic", "textures", *where])
    assert lacking.exit_code == 1
    assert "textures all        missing" in lacking.stdout
    assert "get it from https://www.robots.ox.ac.uk" in lacking.stdout
    listed = json.loads(call(app, ["bench", "sets", "cifar10", "lsun_r", "--data", str(data), "--json"]).stdout)
    assert [row["set"] for row in listed][:3] == ["cifar10", "svhn", "lsun_c"]
    assert listed[0]["splits"]["test"]["there"]
    assert listed[0]["splits"]["test"]["images"] == [10_000]
    assert not next(row for row in listed if row["set"] == "lsun_r")["splits"]["all"]["there"]
    words = call(app, ["bench", "sets", "svhn"]).stdout
    assert words.startswith("svhn: SVHN")
    assert "73,257 or 15,000 images" in words
    assert "md5 eb5a983be6a315427106f1b164d9cef3" in words
    assert "cifar10" not in words
    assert len(json.loads(call(app, ["bench", "sets", "--json"]).stdout)) == len(data_sets())
    assert call(app, ["bench", "sets", "moon"]).exit_code != 0
