"""``wildspec evaluate`` on any bundle: its own decision, other detectors, images and embeddings."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import tiny_model
import wildspec
from wildspec.cli.main import app
from wildspec.detectors import names_for
from wildspec.errors import InputError


def cli(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def rows(*words: Any, status: int = 0) -> dict[str, dict[str, Any]]:
    done = cli("evaluate", *words, "--json")
    assert done.exit_code == status, done.output
    return {one["detector"]: one for one in json.loads(done.stdout)["detectors"]}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("digits") / "oe"
    done = cli("train", "--method", "oe", "--epochs", 12, "--backbone", "small", "--out", out, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    return out


def test_every_detector_on_a_trained_model(digits: Path) -> None:
    found = rows(digits, "--detector", "all")
    assert set(found) == set(names_for(wildspec.load(digits, device="cpu").model_))
    assert len({one["evaluation"]["id_acc"] for one in found.values()}) == 1  # one network
    assert all(one["evaluation"]["threshold_from"] == "calibrated" for one in found.values())
    assert found["energy"]["evaluation"]["auroc"] > 0.6


def test_its_own_decision_is_the_same_detector_fitted_again(digits: Path, tmp_path: Path) -> None:
    """What is in the bundle against the same detector, fitted and calibrated on the images opened again."""
    own = rows(digits, "--out", tmp_path / "found.json")
    assert list(own) == ["wild_knn"]
    again = rows(digits, "--detector", "wild_knn")
    for name, value in again["wild_knn"]["evaluation"].items():
        expected = value if isinstance(value, str) else pytest.approx(value, abs=1e-5)
        assert own["wild_knn"]["evaluation"][name] == expected, name
    kept = json.loads((tmp_path / "found.json").read_text())
    assert kept["detectors"] == list(own.values())
    assert wildspec.load(digits, device="cpu").threshold_ == own["wild_knn"]["evaluation"]["threshold"]


def test_a_pair_that_cannot_work(digits: Path) -> None:
    done = cli("evaluate", digits, "--detector", "msp,knn:k=400")
    assert done.exit_code == 1
    assert "knn:k=400 cannot be used here" in done.output
    assert "msp" in done.output
    for words, message in ((("--detector", "nothing"), "unknown detector"), (("--detector", "knn:k"), "NAME:KEY=VALUE")):
        refused = cli("evaluate", digits, *words)
        assert isinstance(refused.exception, InputError)
        assert message in str(refused.exception)


# -- a model of wildspec fit -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fitted")
    labelled, wild = tiny_model.labelled_and_wild()
    images, labels = labelled
    np.savez(root / "labelled.npz", images=images, labels=labels)
    np.save(root / "wild.npy", wild)
    done = cli("fit", "--labelled", root / "labelled.npz", "--wild", root / "wild.npy", "--epochs", 2, "--size", 10,
               "--alpha", 0.1, "--backbone", "small", "--device", "cpu", "--out", root / "model", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    return root


def test_what_fit_made_is_measured_too(fitted: Path) -> None:
    model = wildspec.load(fitted / "model", device="cpu")
    own = rows(fitted / "model")  # held-out images stand in for a test set
    (only,) = own.values()
    assert only["evaluation"]["id_kept"] == pytest.approx(model.metrics_["validation"]["kept"])
    assert only["evaluation"]["id_acc"] == pytest.approx(model.metrics_["validation"]["accuracy"])
    assert only["evaluation"]["auroc"] is None
    named = rows(fitted / "model", "--detector", "energy", "--alpha", 0.1)
    assert named["energy"]["evaluation"]["id_acc"] == pytest.approx(model.metrics_["validation"]["accuracy"])


def test_images_it_learned_from_are_left_out(fitted: Path) -> None:
    with pytest.warns(UserWarning, match=r"left out.*learned from"):
        found = rows(fitted / "model", "--test", fitted / "labelled.npz")
    model = wildspec.load(fitted / "model", device="cpu")
    data = np.load(fitted / "labelled.npz")
    held = len(data["labels"]) - model.record_["data"]["labelled"]["split"]["parts"]["train"]["count"]
    (only,) = found.values()
    share = only["evaluation"]["id_acc"] * held
    assert share == pytest.approx(round(share), abs=1e-6)


def test_other_images_than_it_learned_from_are_refused(fitted: Path, tmp_path: Path) -> None:
    data = np.load(fitted / "labelled.npz")
    np.savez(tmp_path / "fewer.npz", images=data["images"][:-1], labels=data["labels"][:-1])
    done = cli("evaluate", fitted / "model", "--detector", "energy", "--labelled", tmp_path / "fewer.npz")
    assert "no longer holds the images" in str(done.exception)
    moved = tmp_path / "moved.npz"
    shutil.copy(fitted / "labelled.npz", moved)
    assert rows(fitted / "model", "--detector", "energy", "--labelled", moved, "--wild", fitted / "wild.npy")


def test_a_model_of_embeddings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(3, 8) * 6

    def table(name: str, groups: tuple[int, ...], n: int, labels: bool = True) -> Path:
        values = np.concatenate([centres[g] + rng.normal(size=(n, 8)) for g in groups]).astype(np.float32)
        given = {"labels": np.repeat([f"c{g}" for g in groups], n)} if labels else {}
        np.savez(tmp_path / name, embeddings=values, **given)
        return tmp_path / f"{name}.npz"

    known, wild = table("known", (0, 1), 80), table("wild", (0, 1, 2), 40, labels=False)
    fit = cli("fit", "--from-embeddings", "--labelled", known, "--wild", wild, "--out", tmp_path / "model")
    assert fit.exit_code == 0, fit.output
    test, unknown = table("test", (0, 1), 50), table("unknown", (2,), 50, labels=False)
    (found,) = rows(tmp_path / "model", "--test", test, "--semantic", unknown).values()
    model = wildspec.load(tmp_path / "model")
    kept = np.isin(model.predict(np.load(test)["embeddings"]), model.classes_)
    assert found["evaluation"]["id_kept"] == pytest.approx(kept.mean())
    assert found["evaluation"]["id_acc"] > 0.9
    told = cli("evaluate", tmp_path / "model", "--test", test, "--semantic", unknown).output
    assert "100 test samples" in told
    assert "unknown: 50" in told
    both = {name: np.concatenate([np.load(known)[name][::16], np.load(test)[name]]) for name in ("embeddings", "labels")}
    np.savez(tmp_path / "both", **both)
    with pytest.warns(UserWarning, match=r"10 of the 110 samples .*learned from"):
        (again,) = rows(tmp_path / "model", "--test", tmp_path / "both.npz", "--semantic", unknown).values()
    assert again["evaluation"] == found["evaluation"], "what taught the model does not count"
    for words, message in (((), "give --test"), (("--test", test, "--detector", "knn"), "leave out --detector")):
        assert message in str(cli("evaluate", tmp_path / "model", *words).exception)
