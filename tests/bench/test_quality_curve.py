"""The curve of quality against time: what a look measures, that it changes nothing, and that cuts leave no trace in it."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from tests.bench.tiny import write_tiny
from tests.training.common import data as digits
from tests.training.common import method, quiet, stages
from tests.training.common import model as small_model

from wildspec.bench.plan import BenchRequest
from wildspec.bench.prepare import Prepared, prepare
from wildspec.bench.protocols import choose_rows, protocol
from wildspec.bench.quality_curve import FILE, Look, read_curve
from wildspec.bench.records import PAPER, find_records, read_record
from wildspec.bench.run import run
from wildspec.bench.store import Store
from wildspec.data import Preprocess
from wildspec.models import build_model
from wildspec.training import train
from wildspec.training.recipe import Recipe

CPU = torch.device("cpu")
TINY = Recipe("fast", model="small", changes={
    "pretrain.epochs": 4.0, "pretrain.warmup": 0.0, "pretrain.batch_labelled": 48, "pretrain.batch_wild": 48,
    "finetune.epochs": 1.0, "finetune.batch_labelled": 48,
})  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def prepared(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(protocol("cifar10").resized(8), "svhn", Store(data, tmp_path_factory.mktemp("cache")), unseen=False)


def test_a_look_agrees_with_least_squares_and_neighbours_of_other_libraries(prepared: Prepared, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = build_model("small", 10, size=8).eval()
    found = Look(prepared, Preprocess(size=8), tmp_path, 1, CPU).metrics(model)

    def rows(images: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            features = model.features(Preprocess(size=8)(images)).double().numpy()
        return features / np.linalg.norm(features, axis=1, keepdims=True)

    bank, labels = rows(prepared.labelled.images), prepared.labelled.labels.numpy()
    weights = np.linalg.lstsq(bank, np.eye(10)[labels], rcond=1e-9)[0]
    k = min(50, len(bank))
    distance = NearestNeighbors(n_neighbors=k).fit(bank)
    sets = {"id": prepared.id_test, "shifted": prepared.covariate_test[1], "unknown": prepared.semantic_test}
    places = {name: rows(images.images) for name, images in sets.items()}
    scores = {name: distance.kneighbors(place)[0][:, -1] for name, place in places.items()}
    for name, metric in (("id", "id_acc"), ("shifted", "ood_acc")):
        assert found[metric] == pytest.approx(np.mean((places[name] @ weights).argmax(1) == sets[name].labels.numpy()))
    truth = np.repeat([0, 1], [len(scores["id"]), len(scores["unknown"])])
    assert found["auroc"] == pytest.approx(roc_auc_score(truth, np.concatenate([scores["id"], scores["unknown"]])), abs=1e-3)
    assert 0 <= found["fpr95_id"] <= 1


def test_watching_changes_no_bit_and_costs_no_training_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still except while somebody watches."""
    import wildspec.training.loop as loop

    plain = train(small_model(), method(), digits(), quiet(), stages=stages())
    clock = {"now": 0.0}
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock["now"])
    seen = []

    def watch(model: torch.nn.Module, moment: dict[str, object]) -> None:
        model.eval()
        clock["now"] += 100.0
        seen.append(moment)

    watched = train(small_model(), method(), digits(), quiet(), stages=stages(), watch=watch)
    assert watched.seconds == 0
    assert [(row["stage"], row["epoch"], row["last"]) for row in seen] == [
        ("pretrain", 1.0, False), ("pretrain", 2.0, True), ("finetune", 1.0, False), ("finetune", 2.0, True),
    ]  # fmt: skip
    assert [row["seconds"] for row in seen] == [0.0] * 4
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, watched.model.state_dict()[name]), name


def test_a_cut_run_has_the_curve_of_a_whole_one(data: Path, tmp_path: Path) -> None:
    """Every two epochs and at the end of each stage; after each cut the same command goes on."""
    request = BenchRequest(
        protocol("cifar10").resized(8), ("svhn",), choose_rows(["spectral"]), (0,), data, tmp_path / "whole", TINY,
        cache=tmp_path / "cache", device="cpu", unseen=False, curve=2,
    )  # fmt: skip
    assert run(request).complete
    pieces = dataclasses.replace(request, out=tmp_path / "pieces", limit=1e-3)
    for call in itertools.count():
        if run(pieces).complete:
            break
        assert call < 100
    curves = [
        read_record(find_records([folder])[0])["curve"] for folder in (request.out, pieces.out)
    ]  # fmt: skip
    for curve in curves:
        assert [(row["stage"], row["epoch"]) for row in curve] == [("pretrain", 2.0), ("pretrain", 4.0), ("finetune", 1.0)]
        assert all(0 <= row[metric] <= 1 for row in curve for metric in PAPER)
        assert [row["seconds"] for row in curve] == sorted(row["seconds"] for row in curve)
    without_time = [[{k: v for k, v in row.items() if k != "seconds"} for row in curve] for curve in curves]
    assert without_time[0] == without_time[1]


def test_steps_taken_again_after_a_cut_count_once(tmp_path: Path) -> None:
    rows = [{"step": 10, "auroc": 0.1}, {"step": 20, "auroc": 0.2}, {"step": 20, "auroc": 0.3}, {"step": 30, "auroc": 0.4}]
    (tmp_path / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["auroc"] for row in read_curve(tmp_path)] == [0.1, 0.3, 0.4]
    assert read_curve(tmp_path / "elsewhere") == []


def test_a_line_torn_by_a_kill_costs_nothing_else(prepared: Prepared, tmp_path: Path) -> None:
    """kill -9 while a look is written; the look is taken again after resuming, on a line of its own."""
    rows = [{"step": 10, "auroc": 0.1}, {"step": 20, "auroc": 0.2}]
    (tmp_path / FILE).write_text(json.dumps(rows[0]) + "\n" + json.dumps(rows[1])[:-4])
    assert read_curve(tmp_path) == rows[:1]
    torch.manual_seed(0)
    model = build_model("small", 10, size=8).eval()
    Look(prepared, Preprocess(size=8), tmp_path, 1, CPU)(model, {"step": 20, "epoch": 1.0, "last": True})
    assert [row["step"] for row in read_curve(tmp_path)] == [10, 20]
