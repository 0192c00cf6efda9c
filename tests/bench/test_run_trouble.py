"""The runner when things go wrong: cut, diverging, another process beside it, weights that do not fit."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tests.bench.tiny_run import request_of
from torch import nn
from typer.testing import CliRunner

from wildspec.bench.plan import plan
from wildspec.bench.protocols import protocol
from wildspec.bench.records import find_records, read_record
from wildspec.bench.run import _write_samples, detector_of, run
from wildspec.cli.main import app
from wildspec.errors import DataError, InputError
from wildspec.files import write_text
from wildspec.models import build_model
from wildspec.training import DivergenceError
from wildspec.training.lock import locked
from wildspec.training.recipe import Recipe


def test_the_same_command_again_goes_on_where_time_ended(
    data: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (
        f"bench cifar10 --semantic svhn --methods spectral --data {data} --cache {cache} --out {tmp_path} --backbone small "
        "--size 8 --device cpu --no-unseen --json --set pretrain.epochs=3 --set pretrain.warmup=0 "
        "--set pretrain.batch_labelled=48 --set pretrain.batch_wild=48 --set finetune.epochs=1 "
        "--set finetune.batch_labelled=48"
    ).split()
    cut = CliRunner().invoke(app, [*words, "--minutes-limit", "0.0001"])
    assert cut.exit_code == 1, cut.stderr
    assert len(json.loads(cut.stdout)["cut"]) == 1
    assert len(list(tmp_path.rglob("checkpoints/step-*"))) == 1
    assert not list(tmp_path.rglob("records/*.json"))
    monkeypatch.setattr(sys, "argv", ["wildspec", *words])
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["complete"]
    assert len(outcome["done"]) == 1
    (record,) = find_records([tmp_path])
    assert read_record(record)["command"] == " ".join(["wildspec", *words])
    assert read_record(record)["steps"] == 3 * 5 + 5, "no step was lost or taken twice"


def test_a_diverging_method_does_not_stop_the_others(data: Path, cache: Path, tmp_path: Path) -> None:
    wild = Recipe("fast", 0.1, {"train.lr": 1e12, "train.batch_labelled": 48}, "small")
    outcome = run(request_of(data, cache, tmp_path, "erm+knn", wild, seeds=(0, 1), unseen=False))
    assert len(outcome.failed) == 2
    assert not outcome.complete
    assert "diverged" in next(iter(outcome.failed.values()))
    assert outcome.tables == []


def test_batches_too_large_for_one_method_do_not_stop_the_others(data: Path, cache: Path, tmp_path: Path) -> None:
    """Of 240 labelled images, in batches of 128 and of 512."""
    recipe = Recipe("fast", 0.01, model="small")
    outcome = run(request_of(data, cache, tmp_path, "spectral+knn,erm+knn", recipe, seeds=(0,), unseen=False))
    assert [name.split()[0] for name in outcome.failed] == ["spectral"]
    assert "batch_labelled=240" in next(iter(outcome.failed.values()))
    recipe = Recipe("fast", 0.01, {"pretrain.batch_labelled": 500}, "small")
    first = run(request_of(data, cache, tmp_path / "first", "oe+msp", recipe, seeds=(0,), unseen=False))
    assert [name.split()[0] for name in first.failed] == ["oe"], "the training that it begins as"
    assert [name.split()[0] for name in outcome.done] == ["erm"]
    assert outcome.tables


def test_what_another_process_is_training_is_passed_over(data: Path, cache: Path, tmp_path: Path) -> None:
    """Two commands may share a run folder: each does what nobody else has in hand."""
    request = request_of(data, cache, tmp_path, unseen=False)
    first, second = plan(request)
    told: list[str] = []
    with locked(first.folder):
        outcome = run(request, told.append)
    assert (outcome.done, outcome.busy, outcome.complete) == ([second.name], [first.name], False)
    assert f"passed over: {first.name}: another process is training it" in told
    assert outcome.to_json()["busy"] == [first.name]
    again = run(request)
    assert (again.done, again.found, again.complete) == ([first.name], [second.name], True)


def test_what_another_process_has_measured_meanwhile_is_not_measured_again(
    data: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(data, cache, tmp_path, unseen=False, seeds=(0,))
    (job,) = plan(request)

    def trained(model: nn.Module, *rest: object, **more: object) -> SimpleNamespace:
        for detector in job.detectors:  # as if somebody else had just written it
            write_text(job.record(detector), "{}")
        return SimpleNamespace(finished=True, model=model)

    monkeypatch.setattr("wildspec.training.train", trained)
    monkeypatch.setattr("wildspec.bench.run.write_tables", lambda out: [])
    assert run(request).done == [job.name]
    assert job.record("knn").read_text() == "{}"
    assert not job.samples.exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_of_one_group_are_refused(
    data: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    """As torchrun starts them: each would measure every model and write every record."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", str(rank))
    with pytest.raises(InputError, match=r"torchrun started 2.*one wildspec bench per GPU") as caught:
        run(request_of(data, cache, tmp_path / "run", unseen=False))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_every_seed_starts_from_its_own_weights(
    data: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[torch.Tensor] = []

    def note(model: nn.Module, *rest: object, **more: object) -> None:
        started.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
        raise DivergenceError("that is all that was wanted")

    monkeypatch.setattr("wildspec.training.train", note)
    for _ in range(2):
        run(request_of(data, cache, tmp_path, unseen=False))
    first, second, first_again, second_again = started
    assert torch.equal(first, first_again)
    assert torch.equal(second, second_again)
    assert not torch.allclose(first, second)


def test_samples_of_other_detectors_are_kept_and_a_damaged_file_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "svhn.samples.safetensors"
    _write_samples(path, {"id.score.knn": torch.ones(2)})
    _write_samples(path, {"id.score.energy": torch.zeros(3)})
    assert {name: len(value) for name, value in load_file(path).items()} == {"id.score.knn": 2, "id.score.energy": 3}
    path.write_bytes(b"nothing of the kind")
    _write_samples(path, {"id.score.energy": torch.zeros(3)})
    assert list(load_file(path)) == ["id.score.energy"]

    def full(*rest: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(DataError, match=r"cannot write .*No space left.*--out"):
        _write_samples(path, {"id.score.msp": torch.zeros(3)})
    assert list(load_file(path)) == ["id.score.energy"]


def test_a_labelled_set_smaller_than_k_gets_a_smaller_k() -> None:
    cifar = protocol("cifar10")
    assert [detector_of("knn", cifar, n).config()["k"] for n in (20, 50, 25_000)] == [20, 50, 50]
    assert detector_of("energy", cifar, 20).name == "energy"


def test_init_weights(data: Path, cache: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.safetensors"
    save_file({"backbone.nothing": build_model("small", 3).head.weight.detach().clone()}, wrong)
    recipe = Recipe("fast", 0.1, {"train.batch_labelled": 48}, "small", str(wrong))
    with pytest.raises(InputError, match=r"wrong\.safetensors do not fit"):
        run(request_of(data, cache, tmp_path / "run", "erm+knn", recipe, seeds=(0,)))
    right = tmp_path / "right.safetensors"
    backbone = {f"backbone.{k}": v.clone() for k, v in build_model("small", 3).backbone.state_dict().items()}
    save_file(backbone, right)
    first = next(iter(backbone))
    save_file({**backbone, first: backbone[first][:-1].clone()}, wrong)
    with pytest.raises(InputError, match=r"1 of \d+ tensors .*another shape, first [\w.]+"):
        run(request_of(data, cache, tmp_path / "run", "erm+knn", recipe, seeds=(0,)))
    recipe = Recipe("fast", 0.1, {"train.batch_labelled": 48}, "small", str(right))
    assert run(request_of(data, cache, tmp_path / "run", "erm+knn", recipe, seeds=(0,), unseen=False)).complete
