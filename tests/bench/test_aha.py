"""benchmarks/aha.py: the pool's hidden truth, AHA's search, and a run on made-up features from start to end."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.scripts import ROOT, load_script, run_script

from wildspec.bench.protocols import protocol
from wildspec.bench.store import Store
from wildspec.files import read_json
from wildspec.models import build_model
from wildspec.training.checkpoint import save


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    return load_script("benchmarks/aha.py")


def test_features_and_truth_of_every_set(script: ModuleType, data: Path, tmp_path: Path) -> None:
    """The truth of a wild image, against the class whose colour it has; noise of severity 1 leaves the colour alone."""
    plan = replace(protocol("cifar10").resized(8), model="small")
    model = build_model("small", 10, size=8)
    save(tmp_path / "checkpoints", 1, {f"model.{name}": value for name, value in model.state_dict().items()}, {})
    script.make_features(tmp_path, data, tmp_path / "features", plan)
    sets = script.read_features(tmp_path / "features")
    assert {name: len(one["truth"]) for name, one in sets.items()} == {
        "labelled": 20, "wild": 300, "id_test": 40, "covariate": 40, "semantic": 30
    }  # fmt: skip  # 240 unlabelled: 2 of each class for validation, 150 wild, each also with noise
    images, kind, truth = script.chosen_images(plan, Store(data, tmp_path / "features" / "cache"))["wild"]
    assert np.bincount(kind).tolist() == [120, 150, 30]
    assert ((truth == -1) == (kind == 2)).all()
    assert (sets["wild"]["truth"] == truth).all()
    train = Store(data, tmp_path / "features" / "cache").load("cifar10", "train", 8)
    colours = np.stack([train.images[train.labels == c].float().mean(dim=(0, 2, 3)).numpy() for c in range(10)])
    seen = images.images.float().mean(dim=(2, 3)).numpy()
    nearest = np.linalg.norm(seen[:, None] - colours, axis=2).argmin(axis=1)
    assert (nearest == truth)[kind < 2].mean() > 0.95
    task, pool_truth, rows = script.make_task(sets, 1)
    assert task.counts == (120, 150, 30)
    assert (pool_truth == truth[rows]).all()
    assert not (rows == np.sort(rows)).all()


def test_the_search_asks_where_unknown_samples_begin(script: ModuleType) -> None:
    """1,000 samples, the 200 of highest energy unknown: half of the questions are around the 200th."""
    energy = np.random.default_rng(0).permutation(1000).astype(float)
    rows = script.search(energy, energy >= 800, 60, np.random.default_rng(1))
    assert len(rows) == len(set(rows.tolist())) == 60
    near = np.sort(np.abs(energy[rows] - 799.5))
    assert near[30] < 60, "of 60 at random the 30th nearest would be some 250 away"
    assert 0.3 < (energy[rows] >= 800).mean() < 0.7
    assert len(script.search(energy[:10], energy[:10] >= 800, 60, np.random.default_rng(1))) == 10


def _features(folder: Path) -> None:
    """Three known groups, moved a little where shifted, and a fourth nobody knows."""
    rng = np.random.default_rng(0)
    middle = 8 * np.eye(4, 32)

    def write(name: str, like: int, shifted: int, unknown: int) -> None:
        kind = np.repeat([0, 1, 2], [like, shifted, unknown])
        truth = np.where(kind == 2, -1, rng.integers(3, size=len(kind)))
        features = middle[truth] + rng.normal(size=(len(kind), 32)) + (kind == 1)[:, None] * 0.2
        rows: dict[str, Any] = {"features": features.astype(np.float16), "logits": features[:, :3].astype(np.float16)}
        np.savez(folder / f"{name}.npz", kind=kind, truth=truth, **rows)

    folder.mkdir()
    sizes = {"labelled": (120, 0, 0), "wild": (90, 110, 40), "id_test": (60, 0, 0), "covariate": (0, 60, 0)}
    for name, counts in {**sizes, "semantic": (0, 0, 60)}.items():
        write(name, *counts)


def test_a_run_and_the_same_command_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _features(tmp_path / "features")
    out = tmp_path / "aha.json"
    words = ["--features", tmp_path / "features", "--out", out, "--rules", "random", "--draws", 1]
    run_script(monkeypatch, "benchmarks/aha.py", *words)
    found = read_json(out)
    assert [(r["learner"], r["rule"], r["answers"]) for r in found["records"]] == [
        ("network", None, 0), ("wildspec", None, 0), ("wildspec", "random", 100), ("heads", "search", 100),
        ("wildspec", "search", 100), ("heads", "all", 240),
    ]  # fmt: skip  # 500 answers of a pool of 240: left out
    for record in found["records"]:
        assert sum(record["asked"]) == record["answers"]
        assert record["id_acc"] > 0.9
        if record["answers"]:
            assert record["auroc"] > 0.95, "groups lie eleven deviations apart"
    assert found["images"]["wild"] == [90, 110, 40]
    run_script(monkeypatch, "benchmarks/aha.py", *words)
    assert read_json(out) == found
    run_script(monkeypatch, "benchmarks/aha.py", *words[:-3], "groups", "--draws", 1)
    assert [r["rule"] for r in read_json(out)["records"]] == [*(r["rule"] for r in found["records"]), "groups"]


def test_without_features_it_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        run_script(monkeypatch, "benchmarks/aha.py", "--features", tmp_path, "--out", tmp_path / "aha.json")
    assert "--run and --data" in capsys.readouterr().err
