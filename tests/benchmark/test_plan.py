"""What a benchmark run will do, settled before anything is trained: which models, which rows, which recipes."""

import re
from pathlib import Path

import pytest
from tests.benchmark.tiny_run import ERM, TINY, request_of

from wildspec.benchmark.protocols import protocol
from wildspec.benchmark.recipe import Recipe, parse_changes
from wildspec.benchmark.run import Request, plan
from wildspec.errors import InputError
from wildspec.methods import build_method


def test_sweep_makes_one_row_per_point(data: Path, cache: Path, tmp_path: Path) -> None:
    request = Request(
        protocol("sweep"), ("textures10",), {"spectral": ["knn"]}, (0,), data=data, out=tmp_path, cache=cache, recipe=TINY
    )
    jobs = plan(request)
    assert len({job.folder for job in jobs}) == 8
    assert [job.recipe.hparams() for job in jobs][:2] == [{"eta_l": 0.02, "eta_u": 2.0}, {"eta_l": 0.1, "eta_u": 2.0}]
    assert "eta_l=0.02" in jobs[0].recipe.label


def test_models_without_wild_data_are_shared_as_far_as_their_labelled_set_is(tmp_path: Path) -> None:
    request = Request(
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
    with pytest.raises(InputError, match="unknown method 'magic'; choose from erm"):
        plan(request_of(data, cache, tmp_path, "magic"))
    with pytest.raises(InputError, match="unknown detector 'magic'"):
        plan(request_of(data, cache, tmp_path, "spectral+magic"))
    with pytest.raises(InputError, match="semantic must be one of svhn"):
        plan(request_of(data, cache, tmp_path, semantics=("moon",)))
    for changes, message in (
        ({"train.lr": 0.1}, "--set train.lr: method spectral has the stages pretrain, finetune, not 'train'"),
        ({"pretrain.speed": 1}, "--set pretrain.speed: there is no such field; choose from name, epochs, lr"),
        ({"pretrain.augmentation": 1}, "set it as pretrain.augmentation.scale=VALUE"),
        ({"pretrain.lr.x": 1}, "set it as pretrain.lr=VALUE"),
        ({"eta_x": 1}, "has no hyper-parameter 'eta_x'"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            plan(request_of(data, cache, tmp_path, recipe=Recipe("fast", changes=changes)))
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
