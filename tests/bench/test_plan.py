"""What a benchmark run will do, settled before anything is trained: which models, which rows, which recipes."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.bench.making import record
from tests.bench.tiny_run import ERM, TINY, request_of

from wildspec.bench.plan import BenchRequest, plan
from wildspec.bench.protocols import protocol, protocol_names
from wildspec.bench.records import write_record
from wildspec.bench.run import run
from wildspec.cli.main import main
from wildspec.errors import DataError, InputError
from wildspec.methods import build_method
from wildspec.training.recipe import Recipe, parse_changes


def test_sweep_makes_one_row_per_point(data: Path, cache: Path, tmp_path: Path) -> None:
    request = BenchRequest(
        protocol("sweep"), ("textures10",), {"spectral": ["knn"]}, (0,), data=data, out=tmp_path, cache=cache, recipe=TINY
    )
    jobs = plan(request)
    assert len({job.folder for job in jobs}) == 8
    assert [job.recipe.hparams() for job in jobs][:2] == [{"eta_l": 0.02, "eta_u": 2.0}, {"eta_l": 0.1, "eta_u": 2.0}]
    assert "eta_l=0.02" in jobs[0].recipe.label


def test_models_without_wild_data_are_shared_as_far_as_their_labelled_set_is(tmp_path: Path) -> None:
    request = BenchRequest(
        protocol("office-home"), ("Ar->Cl", "Ar->Rw", "Cl->Ar"), {"erm": ["energy"]}, (0,), tmp_path, tmp_path
    )
    first, second, third = (job.folder for job in plan(request))
    assert first == second != third


def test_another_severity_is_another_model(data: Path, cache: Path, tmp_path: Path) -> None:
    usual = plan(request_of(data, cache, tmp_path))[0]
    harder = plan(request_of(data, cache, tmp_path, severity=3))[0]
    assert usual.folder != harder.folder
    assert plan(request_of(data, cache, tmp_path, severity=1))[0].folder == usual.folder
    erm, erm_harder = (plan(request_of(data, cache, tmp_path, "erm", ERM, severity=s))[0] for s in (None, 3))
    assert erm.folder == erm_harder.folder, "a model without wild data does not know the severity"
    assert erm.record("knn") != erm_harder.record("knn")


def test_names_are_checked_before_anything_is_trained(data: Path, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'magic'; choose from erm"):
        plan(request_of(data, cache, tmp_path, "magic"))
    with pytest.raises(InputError, match="unknown detector 'magic'"):
        plan(request_of(data, cache, tmp_path, "spectral+magic"))
    with pytest.raises(InputError, match="semantic must be one of"):
        plan(request_of(data, cache, tmp_path, semantics=("moon",)))
    for changes, message in (
        ({"train.lr": 0.1}, "--set train.lr: the stages are pretrain, finetune, not 'train'"),
        ({"pretrain.speed": 1}, "--set pretrain.speed: there is no such field; choose from epochs, lr"),
        ({"pretrain.labelled_views": 1}, "--set pretrain.labelled_views: there is no such field"),
        ({"pretrain.name": "first"}, "--set pretrain.name: there is no such field"),  # methods know stages by their names
        ({"pretrain.augmentation": 1}, "set it as pretrain.augmentation.scale=VALUE"),
        ({"pretrain.lr.x": 1}, "set it as pretrain.lr=VALUE"),
        ({"pretrain.lr": 0.1, "pretrain.lr.x": 1}, "--set pretrain.lr.x: it is set as a whole and in part"),
        ({"pretrain.lr.x": 1, "pretrain.lr": 0.1}, "--set pretrain.lr: it is set as a whole and in part"),
        ({"eta_x": 1}, "has no hyper-parameter 'eta_x'"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            plan(request_of(data, cache, tmp_path, recipe=Recipe("fast", changes=changes)))
    with pytest.raises(InputError, match="resnet34 has no dropout"):
        plan(request_of(data, cache, tmp_path, recipe=Recipe("fast", model="resnet34", changes={"dropout": 0.3})))
    for preset in ("paper", "fast"):
        assert plan(request_of(data, cache, tmp_path, recipe=Recipe(preset, model="resnet34")))
    assert not list(tmp_path.iterdir())


def test_changes_of_a_stage_are_made_at_once() -> None:
    given = ["pretrain.epochs=4", "pretrain.warmup=1", "pretrain.schedule=step", "dropout=0.3"]
    given += ["pretrain.augmentation.scale=[0.3, 1]", "pretrain.augmentation.grey=0"]
    recipe = Recipe("fast", 0.5, parse_changes(given))
    pretrain, finetune = recipe.stages(build_method("spectral", 10))
    assert (pretrain.epochs, pretrain.warmup, pretrain.schedule) == (4, 1, "step")
    assert (pretrain.augmentation.scale, pretrain.augmentation.grey) == ((0.3, 1), 0)
    assert finetune.epochs == 0.5 * build_method("spectral", 10).stages("fast")[1].epochs
    assert recipe.label.startswith("fast x0.5, dropout=0.3, ")
    assert recipe.hparams() == {}
    assert recipe.slug() != Recipe("fast", 0.5).slug() != Recipe("fast").slug() == "fast"
    named = Recipe("fast", 0.5, parse_changes(given), name="ours")
    assert (named.label, named.slug()) == ("ours", recipe.slug())
    with pytest.raises(InputError, match="--set takes NAME=VALUE"):
        parse_changes(["pretrain.lr"])


def test_what_is_wrong_is_told_before_data_are_read(data: Path, cache: Path, tmp_path: Path) -> None:
    for changes, message in (
        ({"methods": ""}, "--methods names nothing"),
        ({"semantics": ()}, "--semantic names nothing"),
        ({"severity": 9}, "severity must be one of 1, 2, 3, 4, 5; got 9"),
        ({"device": "cuda:77"}, "device 'cuda:77'"),
        ({"recipe": Recipe("fast", model="huge")}, "model must be one of small"),
        ({"recipe": Recipe("fast", init=str(tmp_path / "none.safetensors"))}, "is not there; give a safetensors file"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            plan(request_of(data, cache, tmp_path, **changes))
    request = BenchRequest(protocol("office-home"), ("Ar->Cl",), {"erm": ["energy"]}, (0,), tmp_path, tmp_path, severity=1)
    with pytest.raises(InputError, match="office-home has no severities"):
        plan(request)
    with pytest.raises(InputError, match=r"preset must be .*'slow'"):
        Recipe("slow")


def test_every_set_must_be_there_before_the_first_model_is_trained(data: Path, tmp_path: Path) -> None:
    """Of two sets in the pool the second is missing: nothing is trained with the first."""
    request = request_of(data, tmp_path / "cache", tmp_path / "run", semantics=("svhn", "textures", "lsun_c"))
    with pytest.raises(DataError, match=r"Textures .*lsun_c \(all\).*bench sets cifar"):
        run(request)
    assert not (tmp_path / "run").exists()


def test_what_is_there_of_a_set_is_kept_though_the_rest_is_missing(data: Path, tmp_path: Path) -> None:
    shards = sorted((data / "cifar10").glob("train-*.parquet"))
    for source in (shards[0], *(data / "cifar10").glob("test-*"), *(data / "svhn").glob("*")):
        copy = tmp_path / "data" / source.parent.name / source.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    with pytest.raises(DataError, match=r"1 of 2 shards .*train-00001-of-00002"):
        run(request_of(tmp_path / "data", tmp_path / "cache", tmp_path / "run"))
    assert [path.name for path in (tmp_path / "cache" / "cifar10").glob("*.json")] == ["train-00000-of-00002.8.json"]


def test_finished_runs_need_no_data(tmp_path: Path) -> None:
    request = request_of(tmp_path / "nowhere", tmp_path / "cache", tmp_path / "run", seeds=(0,))
    (job,) = plan(request)
    write_record(job.record("knn"), record())
    assert run(request).found == [job.name]


@pytest.mark.parametrize("name", protocol_names())
def test_a_missing_set_is_one_line_and_exit_status_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["wildspec", "bench", name, "--data", str(tmp_path), "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    for needle in ("get it from http", "images", "-*.parquet", "md5"):
        assert needle in lines[0]
