"""``wildspec train`` and ``wildspec evaluate`` end to end: digits, folders, resuming, refusals."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from wildspec.cli.main import app
from wildspec.data import load_digits_images
from wildspec.detectors import detector_names
from wildspec.detectors.choose import choose_detector, parse_detector
from wildspec.errors import CheckpointError, DataError, InputError, MissingDependencyError
from wildspec.runs import DataSpec, load_run, open_task
from wildspec.runs.task import known_images, read_environments
from wildspec.training.stage_json import stage_from_json, stage_to_json


def cli(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def oe_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "oe"
    done = cli("train", "--method", "oe", "--epochs", 20, "--set", "weight=0.25", "--set", "wild.lr=0.002", "--out", out,
               "--device", "cpu", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["hparams"] == {"weight": 0.25}
    assert [stage["name"] for stage in record["stages"]] == ["pretrain", "wild"]
    assert record["stages"][1]["lr"] == 0.002  # as given, not suited
    assert sum(stage["epochs"] for stage in record["stages"]) == pytest.approx(20)
    assert not record["stages"][0]["augmentation"]["flip"]  # digits are not mirrored
    return out


def test_every_detector_on_a_run(oe_run: Path) -> None:
    done = cli("evaluate", oe_run, "--detector", "all", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document == json.loads((oe_run / "evaluation.json").read_text())
    found = {entry["detector"]: entry for entry in document["detectors"]}
    assert sorted(found) == sorted(set(detector_names()) - {"unknown_logit", "unknown_head", "one_against_rest"})
    accuracies = {entry["evaluation"]["id_acc"] for entry in found.values()}
    assert len(accuracies) == 1  # one network
    assert accuracies.pop() > 0.8
    assert all(entry["evaluation"]["threshold_from"] == "calibrated" for entry in found.values())
    assert found["energy"]["evaluation"]["auroc"] > 0.7


def test_default_detector_and_a_pair_that_cannot_work(oe_run: Path) -> None:
    assert [entry["detector"] for entry in json.loads(cli("evaluate", oe_run, "--json").stdout)["detectors"]] == ["msp"]
    done = cli("evaluate", oe_run, "--detector", "msp,knn:k=400")
    assert done.exit_code == 1
    assert "knn:k=400 cannot be used here: knn with k = 400 needs a bank of at least 400" in done.output.replace("\n", " ")
    assert "msp" in done.output


def test_a_run_reloads_to_the_network_that_was_trained(oe_run: Path) -> None:
    run = load_run(oe_run)
    task = open_task(run.data)
    assert task.id_test is not None
    logits = run.model(run.preprocess(task.id_test.gather(range(20))))
    assert (logits.argmax(1) == task.id_test.labels[:20]).float().mean() > 0.7
    assert not run.model.training


def test_errors_are_one_line(oe_run: Path, tmp_path: Path) -> None:
    cases: list[tuple[list[Any], str]] = [
        (["train", "--out", tmp_path / "a"], "--method is missing"),
        (["train", "--method", "woods", "--labelled", tmp_path / "none", "--out", tmp_path / "a"], "does not exist"),
        (["train", "--method", "nothing", "--out", tmp_path / "a"], "method must be one of"),
        (["train", "--method", "erm", "--set", "eta=1", "--out", tmp_path / "a"], "no hyper-parameter 'eta'"),
        (["train", "--method", "erm", "--set", "train.rate=1", "--out", tmp_path / "a"], "no such field"),
        (["train", "--method", "erm", "--out", oe_run], "holds a run already"),
        (["train", "--resume", "--seed", "3", "--out", oe_run], "leave out --seed"),
        (["train", "--resume", "--no-flip", "--out", oe_run], "leave out --flip"),
        (["train", "--data", "digits", "--wild", tmp_path, "--method", "oe", "--out", tmp_path / "a"], "own images"),
        (["evaluate", tmp_path], "is no run folder"),
        (["evaluate", oe_run, "--detector", "nothing"], "unknown detector"),
        (["evaluate", oe_run, "--detector", "knn:k"], "NAME:KEY=VALUE"),
    ]
    for words, message in cases:
        done = cli(*words)
        assert isinstance(done.exception, InputError | DataError), (words, done.output)
        assert message in str(done.exception), words
        assert "\n" not in str(done.exception)
    assert not (tmp_path / "a").exists()  # nothing was started


def test_a_missing_package_leaves_no_run_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # importing it is an ImportError
    done = cli("train", "--method", "erm", "--tensorboard", "--out", tmp_path / "run")
    assert isinstance(done.exception, MissingDependencyError)
    assert "pip install 'wildspec[tensorboard]'" in str(done.exception)
    assert not (tmp_path / "run").exists(), "the same command would be refused once the package is there"


def test_cut_and_resumed_is_the_whole_run(tmp_path: Path) -> None:
    words = ["--method", "sharpdro", "--epochs", 4, "--device", "cpu", "--json"]
    whole = cli("train", *words, "--out", tmp_path / "whole")
    assert whole.exit_code == 0
    cut = cli("train", *words, "--out", tmp_path / "cut", "--minutes-limit", 1e-9)
    assert cut.exit_code == 1
    with pytest.raises(InputError, match="is not finished; go on with: wildspec train --resume"):
        load_run(tmp_path / "cut")
    while (done := cli("train", "--resume", "--out", tmp_path / "cut", "--device", "cpu", "--json")).exit_code == 1:
        pass
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["result"]["sha256"] == json.loads(whole.stdout)["result"]["sha256"]
    again = cli("train", "--resume", "--out", tmp_path / "cut", "--json")  # nothing left to do
    assert json.loads(again.stdout)["result"] == json.loads(done.stdout)["result"]


def test_a_pre_trained_network_is_trained_on_pixels_scaled_its_own_way(tmp_path: Path) -> None:
    """And a run that was cut before its first checkpoint goes on from the same weights, not from nothing."""
    given = ("train", "--method", "erm", "--model", "efficientnet_lite0", "--epochs", 0.02, "--device", "cpu", "--json")
    done = cli(*given, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [255 * value for value in record["preprocess"]["mean"]] == pytest.approx([127] * 3)
    assert "dropout" in str(cli(*given, "--out", tmp_path / "other", "--set", "dropout=0.1").exception)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "run.json").write_text(json.dumps({**record, "result": None}))
    again = cli("train", "--resume", "--out", tmp_path / "cut", "--device", "cpu", "--json")
    assert again.exit_code == 0, again.output
    first, second = (load_run(tmp_path / name).model.state_dict() for name in ("run", "cut"))
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-4, atol=1e-5)


def test_a_damaged_run_is_refused(oe_run: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(oe_run, broken)
    weights = broken / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        load_run(broken)
    record = json.loads((broken / "run.json").read_text())
    (broken / "run.json").write_text(json.dumps({**record, "schema": "wildspec.run/9"}))
    with pytest.raises(CheckpointError, match=r"wildspec\.run/9"):
        load_run(broken)


# -- images on disk ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as PNG files: labelled 0, 1, 2; a wild folder; tests, the covariate one without the class 'one'."""
    root = tmp_path_factory.mktemp("folders")
    digits = load_digits_images()
    names = {0: "zero", 1: "one", 2: "two"}

    def write(folder: str, digit: int, which: slice, noise: float = 0.0) -> None:
        place = root / folder
        place.mkdir(parents=True, exist_ok=True)
        members = (digits.labels == digit).nonzero().ravel()[which]
        for i in members.tolist():
            pixels = digits.images[i].numpy().transpose(1, 2, 0)
            if noise:
                pixels = np.clip(pixels + np.random.default_rng(i).normal(0, noise, pixels.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{digit}-{i}.png")

    for digit, name in names.items():
        write(f"labelled/{name}", digit, slice(0, 60))
        write(f"test/{name}", digit, slice(60, 90))
        write("wild", digit, slice(90, 120))
        if digit != 1:
            write(f"covariate/{name}", digit, slice(60, 90), noise=20)
    write("wild", 7, slice(0, 20))
    write("semantic", 7, slice(20, 80))
    return root


def test_your_own_images(folders: Path, tmp_path: Path) -> None:
    environments = tmp_path / "environments.txt"
    environments.write_text("\n".join(str(i % 5) for i in range(180)))
    out = tmp_path / "run"
    done = cli("train", "--method", "vrex", "--labelled", folders / "labelled", "--environments", environments,
               "--no-flip", "--held-out", 0.2, "--epochs", 25, "--out", out, "--device", "cpu", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["classes"] == ["one", "two", "zero"]
    assert record["hparams"] == {"num_environments": 5}  # follows the data
    assert record["environments"] == "5 of the data"
    done = cli("evaluate", out, "--detector", "energy", "--test", folders / "test", "--covariate", folders / "covariate",
               "--semantic", folders / "semantic", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["detectors"][0]["evaluation"]
    assert found["id_acc"] > 0.9
    assert found["ood_acc"] > 0.9  # the labels of a set without the class 'one' are renumbered by name
    assert found["threshold_from"] == "calibrated"
    alone = json.loads(cli("evaluate", out, "--json").stdout)["detectors"][0]["evaluation"]
    assert alone["threshold_from"] == "id_95"  # held-out images stand in for the test set
    assert alone["auroc"] is None
    wrong = cli("evaluate", out, "--test", folders / "wild")
    assert isinstance(wrong.exception, DataError)


def test_wild_folder_and_unknown_class_in_a_test_set(folders: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = cli("train", "--method", "woods", "--labelled", folders / "labelled", "--wild", folders / "wild", "--epochs", 4,
               "--out", out, "--device", "cpu")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "stage wild" in done.output
    missing = cli("train", "--method", "woods", "--labelled", folders / "labelled", "--out", tmp_path / "b")
    assert "learns from wild images" in str(missing.exception)
    extra = tmp_path / "extra" / "nine"
    extra.mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(extra / "a.png")
    with pytest.raises(InputError, match="give unknown classes as --semantic"):
        known_images(str(tmp_path / "extra"), 8, ("one", "two", "zero"))
    assert not (tmp_path / "b").exists()  # free for the next try, with a wild pool


def test_environment_files(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([0, 2, 1]))
    assert read_environments(str(tmp_path / "e.npy"), 3).tolist() == [0, 2, 1]
    for content in ("0\n1", "0\n1\n-1", "a\nb\nc"):
        (tmp_path / "e.txt").write_text(content)
        with pytest.raises(DataError, match="environments"):
            read_environments(str(tmp_path / "e.txt"), 3)
    with pytest.raises(InputError, match="needs --labelled"):
        DataSpec("files")


def test_small_parts() -> None:
    from wildspec.methods import build_method

    assert parse_detector("ash:variant=b:percentile=90") == ("ash", {"variant": "b", "percentile": 90})
    labels = torch.tensor([0] * 30 + [1] * 9)
    assert choose_detector("knn", labels).config()["k"] == 4
    assert choose_detector("knn:k=7", labels).config()["k"] == 7
    for name in ("spectral", "woods"):
        for stage in build_method(name, 3).stages("paper"):
            assert stage_from_json(json.loads(json.dumps(stage_to_json(stage)))) == stage


def test_a_training_refused_for_another_in_its_folder_leaves_that_ones_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins while this one still reads its data."""
    from wildspec.runs import training

    plain = training.open_task

    def slow(*given: Any) -> Any:
        task = plain(*given)
        tmp_path.joinpath("run.json").write_text("the other one's")
        return task

    monkeypatch.setattr(training, "open_task", slow)
    done = cli("train", "--method", "erm", "--epochs", 1, "--out", tmp_path, "--device", "cpu")
    assert isinstance(done.exception, InputError)
    assert "holds a run already" in str(done.exception)
    assert (tmp_path / "run.json").read_text() == "the other one's"
