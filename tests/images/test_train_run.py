"""``wildspec train`` end to end: digits and folders into a bundle that every command opens; cut, killed, resumed."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import wildspec
from wildspec.cli.main import app
from wildspec.data import load_digits_images
from wildspec.errors import CheckpointError, DataError, InputError, MissingDependencyError
from wildspec.files import read_json, sha256_file
from wildspec.images.data_spec import DataSpec, open_data, read_environments
from wildspec.images.reading import read_known
from wildspec.methods import build_method
from wildspec.training.stage_json import stage_from_json, stage_to_json

QUICK = ("--method", "sharpdro", "--epochs", 4, "--backbone", "small", "--device", "cpu", "--json")


def cli(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def weights(bundle: Path) -> str:
    return sha256_file(bundle / "weights.safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("trained") / "oe"
    done = cli("train", "--method", "oe", "--epochs", 20, "--set", "weight=0.25", "--set", "wild.lr=0.002", "--backbone",
               "small", "--out", out, "--device", "cpu", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    return out, json.loads(done.stdout)


def test_the_record_says_what_was_trained(trained: tuple[Path, dict[str, Any]]) -> None:
    out, record = trained
    assert record["finished"]
    assert record["hparams"] == {"weight": 0.25}
    assert [stage["name"] for stage in record["stages"]] == ["pretrain", "wild"]
    assert record["stages"][1]["lr"] == 0.002  # as given, not suited
    assert sum(stage["epochs"] for stage in record["stages"]) == pytest.approx(20)
    assert not record["stages"][0]["augmentation"]["flip"]  # digits are not mirrored
    assert record["result"]["sha256"] == weights(out)
    log = read_json(out / "log.json")
    assert log[-1]["step"] == record["result"]["steps"]
    assert not (out / "training").exists()


def test_every_command_opens_it(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, record = trained
    model = wildspec.load(out, device="cpu")
    parts = open_data(DataSpec()).parts
    pixels, labels = parts.validation.gather(range(60)).permute(0, 2, 3, 1).numpy(), parts.validation.labels[:60].numpy()
    assert np.mean(model.predict(pixels) == model.classes_[labels]) > 0.6
    assert model.metrics_["validation"]["count"] == 142
    assert record["metrics"] == model.metrics_
    digit = tmp_path / "digit.png"
    Image.fromarray(parts.validation.gather([0])[0].permute(1, 2, 0).numpy()).save(digit)
    scored = cli("score", out, digit, "--out", tmp_path / "scores.csv", "--neighbours", 1, "--json")
    assert scored.exit_code == 0, scored.output
    assert json.loads(scored.stdout)["rows"] == 1
    reported = cli("report", out, "--out", tmp_path / "report.html", "--no-map")
    assert reported.exit_code == 0, reported.output
    from wildspec.serving.open_engine import open_engine

    assert open_engine(out, "cpu").classes == model.fitted_.classes


def test_fit_and_train_see_the_same_folder_alike(folders: Path, tmp_path: Path) -> None:
    """One split and one normalization, whichever command it is."""
    common = ["--labelled", folders / "labelled", "--wild", folders / "wild", "--method", "woods", "--epochs", 1, "--device",
              "cpu", "--backbone", "small", "--json"]  # fmt: skip
    for command in ("fit", "train"):
        done = cli(command, *common, "--out", tmp_path / command)
        assert done.exit_code == 0, done.output
    one, other = (read_json(tmp_path / command / "model.json") for command in ("fit", "train"))
    assert one["preprocess"] == other["preprocess"]
    assert one["preprocess"]["std"] != [1.0, 1.0, 1.0]
    assert one["data"] == other["data"]
    assert one["decision"]["detector"] == other["decision"]["detector"]
    assert one["network"] == other["network"]


def test_errors_are_one_line(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, new = trained[0], tmp_path / "a"
    cases: list[tuple[list[Any], str]] = [
        (["--out", new], "--method is missing"),
        (["--method", "woods", "--labelled", tmp_path / "none", "--out", new], "does not exist"),
        (["--method", "nothing", "--out", new], "method must be one of"),
        (["--method", "erm", "--set", "eta=1", "--out", new], "no hyper-parameter 'eta'"),
        (["--method", "erm", "--set", "train.rate=1", "--out", new], "no such field"),
        (["--method", "erm", "--backbone", "nothing", "--out", new], "nothing"),
        (["--method", "erm", "--out", out], "holds a model already"),
        (["--resume", "--seed", "3", "--out", out], "leave out --seed"),
        (["--resume", "--no-flip", "--set", "eta=1", "--out", out], "leave out"),
        (["--resume", "--out", new], "no training to go on with"),
        (["--data", "digits", "--wild", tmp_path, "--method", "oe", "--out", new], "own images"),
    ]
    for words, message in cases:
        done = cli("train", *words)
        assert isinstance(done.exception, InputError | DataError), (words, done.output)
        assert message in str(done.exception), words
        assert "\n" not in str(done.exception)
    assert not new.exists()  # nothing was started


def test_a_missing_package_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # importing it is an ImportError
    done = cli("train", "--method", "erm", "--tensorboard", "--out", tmp_path / "model")
    assert isinstance(done.exception, MissingDependencyError)
    assert "pip install 'wildspec[tensorboard]'" in str(done.exception)
    assert not (tmp_path / "model").exists(), "the same command would be refused once the package is there"


# -- cut and killed --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "model"
    assert cli("train", *QUICK, "--out", out).exit_code == 0
    return out


def test_cut_and_resumed_is_the_whole_training(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    cut = cli("train", *QUICK, "--out", out, "--minutes-limit", 1e-9)
    assert cut.exit_code == 1
    record = json.loads(cut.stdout)
    assert (record["finished"], record["result"]) == (False, None)
    with pytest.raises(CheckpointError, match=r"not finished.*wildspec train --resume"):
        wildspec.load(out)
    refused = cli("train", *QUICK, "--out", out)
    assert "holds a training already" in str(refused.exception)
    while (done := cli("train", "--resume", "--out", out, "--device", "cpu", "--json")).exit_code == 1:
        pass
    assert done.exit_code == 0, done.output
    assert weights(out) == weights(whole)
    again = cli("train", "--resume", "--out", out, "--json")  # nothing left to do
    assert json.loads(again.stdout)["result"] == json.loads(done.stdout)["result"]


def test_killed_while_the_bundle_comes_to_its_place_it_is_resumed(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before one of the renames of the last second, the first or the last among them, or before the clearing up."""
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    rename, remove = os.replace, shutil.rmtree
    renames_left, out = 0, tmp_path / "trained"

    def replace(source: Any, target: Any) -> None:
        nonlocal renames_left
        if Path(source).is_relative_to(out / "training" / "bundle"):
            if renames_left == 0:
                raise KeyboardInterrupt  # nothing of ours tidies up after a kill
            renames_left -= 1
        rename(source, target)

    def rmtree(path: Any, *rest: Any, **more: Any) -> None:
        if Path(path) == out / "training":
            raise KeyboardInterrupt
        remove(path, *rest, **more)

    def killed(*words: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("os.replace", replace)
            patch.setattr("shutil.rmtree", rmtree)
            cli("train", *words, "--out", out)
        assert (out / "training").is_dir()

    killed(*QUICK)
    for number in (0, 1, len(names) - 1, len(names)):
        renames_left, out = number, shutil.copytree(tmp_path / "trained", tmp_path / f"killed-{number}")
        killed("--resume", "--device", "cpu")
        done = cli("train", "--resume", "--out", out, "--device", "cpu", "--json")
        assert done.exit_code == 0, done.output
        assert weights(out) == weights(whole), number
        assert sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()) == names
        wildspec.load(out, device="cpu")


def test_a_training_refused_for_another_in_its_folder_leaves_that_ones_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins while this one still reads its data."""
    record = tmp_path / "model" / "training" / "run.json"

    def slow(*given: Any) -> Any:
        record.parent.mkdir(parents=True)
        record.write_text("the other one's")
        return open_data(*given)

    monkeypatch.setattr("wildspec.images.train_run.open_data", slow)
    done = cli("train", *QUICK, "--out", tmp_path / "model")
    assert "holds a training already" in str(done.exception)
    assert record.read_text() == "the other one's"


# -- images on disk --------------------------------------------------------------------------------------------------------
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
    out = tmp_path / "model"
    done = cli("train", "--method", "vrex", "--labelled", folders / "labelled", "--environments", environments,
               "--no-flip", "--epochs", 25, "--backbone", "small", "--out", out, "--device", "cpu", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["classes"] == ["one", "two", "zero"]
    assert record["hparams"] == {"num_environments": 5}  # follows the data
    assert record["environments"] == "5 of the data"
    tests = ["--test", folders / "test", "--covariate", folders / "covariate", "--semantic", folders / "semantic"]
    for words in ([], ["--detector", "energy"]):
        done = cli("evaluate", out, *tests, *words, "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)["detectors"][0]["evaluation"]
        assert found["id_acc"] > 0.9
        assert found["ood_acc"] > 0.9  # the labels of a set without the class 'one' are renumbered by name
        assert found["threshold_from"] == "calibrated"
    wrong = cli("evaluate", out, "--test", folders / "wild")
    assert isinstance(wrong.exception, DataError)


def test_a_method_that_needs_wild_images_is_refused_without(folders: Path, tmp_path: Path) -> None:
    missing = cli("train", "--method", "woods", "--labelled", folders / "labelled", "--out", tmp_path / "b")
    assert "learns from wild images" in str(missing.exception)
    assert not (tmp_path / "b").exists()  # free for the next try, with a wild pool


def test_an_unknown_class_in_a_test_set(tmp_path: Path) -> None:
    extra = tmp_path / "extra" / "nine"
    extra.mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(extra / "a.png")
    with pytest.raises(InputError, match="--unknown"):
        read_known(str(tmp_path / "extra"), 8, ("one", "two", "zero"))


def test_environment_files(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([0, 2, 1]))
    assert read_environments(str(tmp_path / "e.npy"), 3).tolist() == [0, 2, 1]
    for content in ("0\n1", "0\n1\n-1", "a\nb\nc"):
        (tmp_path / "e.txt").write_text(content)
        with pytest.raises(DataError, match="environments"):
            read_environments(str(tmp_path / "e.txt"), 3)
    with pytest.raises(InputError, match="needs --labelled"):
        DataSpec("files")


def test_a_stage_comes_back_from_json() -> None:
    for name in ("spectral", "woods"):
        for stage in build_method(name, 3).stages("paper"):
            kept = json.loads(json.dumps(stage_to_json(stage)))
            assert stage_from_json(kept) == stage
            assert stage_from_json({**kept, "steps": 3, "taken": 2}) == stage
            assert kept.pop("ema") == 0.0  # as written by a version that had no averages
            assert stage_from_json(kept) == stage
