"""A fit on a frozen network: what it learns, what it keeps, and input that is not as it should be."""

import json
import time
import tracemalloc
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import command
import tiny_model
import wildspec
from quick_wild import fake_module
from tiny_backbone import Grid
from wildspec import Files, Training, WildClassifier
from wildspec.bundle.onnx_export import export_onnx
from wildspec.data import ImageSource, load_images, open_source
from wildspec.decision.verdicts import join
from wildspec.errors import CheckpointError, InputError
from wildspec.evaluation.own_decision import evaluate_own
from wildspec.images import frozen_network, reading, time_limit
from wildspec.report import write_report
from wildspec.serving.engine import BundleEngine
from wildspec.serving.onnx_engine import OnnxEngine

FROZEN: dict[str, Any] = {"backbone": Grid(), "training": None, "size": 24, "device": "cpu", "alpha": 0.1}
pytestmark = pytest.mark.filterwarnings("ignore:the labelled images are tiny")


def _fit(labelled: Any, wild: Any = None, **changes: Any) -> WildClassifier:
    return WildClassifier(**{**FROZEN, **changes}).fit(labelled, wild)


@pytest.fixture(scope="module")
def model() -> WildClassifier:
    labelled, wild = tiny_model.labelled_and_wild()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _fit(labelled, wild)


@pytest.mark.parametrize(
    ("name", "made_for", "side", "size"),
    [("efficientnet_lite0", 224, 640, 224), ("efficientnet_lite0", 224, 224, 224), ("efficientnet_lite0", 224, 223, 160),
     ("efficientnet_lite0", 224, 32, 160), ("efficientnet_lite0", 224, 0, 224), ("efficientnet_lite2", 260, 250, 160),
     ("timm:one_size:pretrained", 224, 32, 224), ("timm:silent:pretrained", None, 500, 224)],
)  # fmt: skip
def test_pictures_are_seen_at_the_size_the_network_was_made_for_if_they_have_it(
    name: str, made_for: int | None, side: int, size: int
) -> None:
    assert frozen_network.usual_size(name, made_for, side) == size


@pytest.mark.parametrize(("side", "size"), [(100, 160), (300, 224)])
def test_a_fit_looks_at_its_pictures_before_it_chooses(rng: np.random.Generator, side: int, size: int) -> None:
    pictures = rng.integers(0, 256, (24, 8, 8, 3), dtype=np.uint8).repeat(side // 8 + 1, 1).repeat(side // 8 + 1, 2)
    model = WildClassifier(training=None, device="cpu", alpha=0.1).fit((pictures, np.arange(24) % 2))
    assert model.fitted_.preprocess.size == size


def test_two_hundred_classes_of_six_images(rng: np.random.Generator) -> None:
    colours = rng.integers(0, 256, (220, 2, 2, 3)).repeat(5, 1).repeat(5, 2)

    def draw(classes: np.ndarray) -> np.ndarray:
        return (colours[classes] + rng.normal(0, 8, (len(classes), 10, 10, 3))).clip(0, 255).astype(np.uint8)

    labels = np.repeat(np.arange(200), 6)
    names = np.array([f"kind {c:03d}" for c in range(200)])
    model = _fit((draw(labels), names[labels]), draw(rng.integers(0, 220, 300)))
    assert model.classes_.tolist() == names.tolist()
    asked = rng.integers(0, 200, 200)
    found = model.predict(draw(asked))
    assert np.mean(found == names[asked]) > 0.8
    unknown = np.mean(model.predict(draw(rng.integers(200, 220, 100))) == "rejected")
    assert unknown > 2 * np.mean(found == "rejected"), "with four images of a class to compare with, some are told"


def test_it_classifies_and_rejects(model: WildClassifier, known: Any, unknown: np.ndarray) -> None:
    images, labels = known
    shifted, _ = tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 15), 80, shifted=True)
    found = evaluate_own(
        model, id=(torch.from_numpy(_pixels(images)), labels), covariate=(torch.from_numpy(_pixels(shifted)), labels),
        semantic=torch.from_numpy(_pixels(unknown)),
    )  # fmt: skip
    assert found.id_acc > 0.9
    assert found.id_kept is not None
    assert found.id_kept > 0.7
    assert found.fs_auroc is not None
    assert found.fs_auroc > 0.8, "a world this simple is told apart"


def test_scoring_the_pool_rejects_what_the_fit_said(model: WildClassifier) -> None:
    _, wild = tiny_model.labelled_and_wild()
    rejected = int((model.predict(wild) == "rejected").sum())
    assert rejected == model.metrics_["wild"]["rejected"] > 0


def _pixels(images: np.ndarray) -> np.ndarray:
    """As they are read: enlarged to the network's size."""
    sized = [np.asarray(Image.fromarray(image).resize((24, 24), Image.Resampling.BICUBIC)) for image in images]
    return np.stack(sized).transpose(0, 3, 1, 2)


def test_verdicts_hang_together(model: WildClassifier, known: Any) -> None:
    images, _ = known
    chances = model.predict_proba(images)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    predicted, scores, p = model.predict(images), model.ood_score(images), model.p_value(images)
    kept = predicted != "rejected"
    np.testing.assert_array_equal(predicted[kept], model.classes_[chances.argmax(1)][kept])
    assert set(np.unique(predicted)) <= {"rejected", *model.classes_}
    assert (scores[p > 0.1] <= model.threshold_).all(), "the promise: what p-values keep is kept"
    why = model.explain(images[:2], neighbours=3)
    assert [len(one.neighbours) for one in why] == [3, 3]


def test_the_record_says_what_was_done(model: WildClassifier) -> None:
    assert model.record_["training"]["method"] == "frozen"
    found = model.metrics_["validation"]
    assert 0 <= found["calibration_error"] < 0.5
    assert found["accuracy"] > 0.9
    assert model.metrics_["wild"]["count"] == 84


def test_a_bundle_decides_the_same(model: WildClassifier, known: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = wildspec.load(tmp_path / "m", backbone=Grid(seed=7), device="cpu")  # its weights come from the bundle
    images, _ = known
    np.testing.assert_array_equal(again.predict(images), model.predict(images))
    np.testing.assert_allclose(again.ood_score(images), model.ood_score(images), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(again.predict_proba(images), model.predict_proba(images), rtol=1e-6)
    assert again.get_params()["training"] is None
    with pytest.raises(InputError, match="backbone=MODULE"):
        wildspec.load(tmp_path / "m", device="cpu")
    write_report(again, tmp_path / "report.html", "example")
    assert "frozen network" in (tmp_path / "report.html").read_text()
    facts = BundleEngine(again, "m").describe()
    assert (facts["method"], facts["detector"]) == ("frozen", "rule")


@pytest.mark.parametrize("wild", [True, False])
def test_one_onnx_graph_says_what_the_model_says(model: WildClassifier, known: Any, wild: bool, tmp_path: Path) -> None:
    if not wild:
        with pytest.warns(UserWarning, match="no wild images"):
            model = _fit(tiny_model.labelled_and_wild()[0], per_class=True)
    model.save(tmp_path / "m")
    read = wildspec.load(tmp_path / "m", backbone=Grid(), device="cpu")
    export_onnx(read.fitted_, tmp_path / "m.onnx", BundleEngine(read, "m").describe())
    engine = OnnxEngine(tmp_path / "m.onnx")
    pixels = load_images(open_source(np.concatenate([known[0], tiny_model.labelled_and_wild()[1]])), 24).images
    mine = model.decide(pixels, 3)
    theirs = join([engine.decide(part.numpy(), 3) for part in pixels.split(50)])
    assert len(pixels) > 100
    assert np.abs(theirs.score - mine.score).max() < 1e-3
    assert np.abs(theirs.probabilities - mine.probabilities).max() < 1e-3
    assert np.abs(theirs.threshold - mine.threshold).max() < 1e-4
    assert np.abs(theirs.distances - mine.distances).max() < 1e-4
    clear = np.abs(mine.score - mine.threshold) > 1e-3
    assert clear.mean() > 0.95
    assert (theirs.predicted == mine.predicted)[clear].all()
    assert 0 < mine.rejected.mean() < 1


@pytest.mark.parametrize("change", [
    lambda record: record["frozen"]["rule"].update(n_classes=5),
    lambda record: record["frozen"].update(temperature=-1.0),
    lambda record: record["frozen"]["thresholds"].pop("alpha"),
])  # fmt: skip
def test_a_bundle_that_was_changed_is_refused(model: WildClassifier, tmp_path: Path, change: Any) -> None:
    from wildspec.bundle.manifest import MANIFEST, describe

    model.save(tmp_path / "m")
    record = json.loads((tmp_path / "m" / "model.json").read_text())
    change(record)
    (tmp_path / "m" / "model.json").write_text(json.dumps(record))
    (tmp_path / "m" / MANIFEST).unlink()
    (tmp_path / "m" / MANIFEST).write_text(json.dumps(describe(tmp_path / "m", "images").to_json()))
    with pytest.raises(CheckpointError):
        wildspec.load(tmp_path / "m", backbone=Grid(), device="cpu")


def test_without_wild_images_it_works(known: Any) -> None:
    labelled, _ = tiny_model.labelled_and_wild()
    with pytest.warns(UserWarning, match="no wild images"):
        model = _fit(labelled)
    images, labels = known
    assert (model.predict_proba(images).argmax(1) == labels).mean() > 0.9
    assert "wild" not in model.metrics_


def test_the_same_seed_gives_the_same_model_with_a_cache_or_without(known: Any) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    with_cache, without = _fit(labelled, wild), _fit(labelled, wild, files=Files(cache=False))
    np.testing.assert_array_equal(with_cache.ood_score(known[0]), without.ood_score(known[0]))


def test_a_frozen_network_needs_weights() -> None:
    with pytest.raises(InputError, match="brings no weights"):
        frozen_network.frozen_encoder("small")


@pytest.mark.parametrize("shift", [True, False, np.bool_(False)])
def test_a_shift_is_there_where_one_is_said_to_be(shift: Any, tmp_path: Path) -> None:
    """A quarter of the pool has other colours: a test finds that, and a person may know better."""
    labelled, wild = tiny_model.labelled_and_wild()
    model = _fit(labelled, wild, shift=shift)
    assert np.isfinite(model.fitted_.decision.thresholds.shifted) == bool(shift)
    model.save(tmp_path / "m")
    assert wildspec.load(tmp_path / "m", device="cpu", backbone=Grid()).get_params()["shift"] is bool(shift)


def test_a_network_that_is_trained_is_told_nothing_of_a_shift(known: Any) -> None:
    with pytest.raises(InputError, match="shift"):
        WildClassifier(training=Training("erm", epochs=1), shift=False).fit(known)


# -- as typed ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    fake_module(monkeypatch, "timm", create_model=lambda name, pretrained, num_classes: Grid())
    return command.runner(monkeypatch, capsys)


WORDS = ["--backbone", "timm:grid:pretrained", "--size", "24", "--device", "cpu", "--alpha", "0.1", "--no-flip"]


def test_fit_score_and_evaluate_as_typed(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    Image.new("L", (30, 24), 77).save(wild / "grey.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 900, 3), np.uint8)).save(wild / "panorama.png")
    with pytest.warns(UserWarning, match="images are small, 10 px"):
        status, out, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *WORDS)
    assert status == 0, err
    assert "frozen" in err
    assert "of 86 images look like none of your 3 classes" in out
    decision = wildspec.load(tmp_path / "m", device="cpu").fitted_.decision
    raised = int(sum(decision.thresholds.at_shifted(decision.rule.wild_shifted > 0.5) > decision.threshold))
    assert [line.split()[1] for line in out.splitlines() if line.startswith("shift:")] == [str(raised)] * (raised > 0)
    assert "calibration error" not in out, "of a dozen images it would be chance"
    status, out, err = run("score", tmp_path / "m", wild, "--out", tmp_path / "scores.csv")
    assert status == 0, err
    assert "86 rows" in out
    status, out, err = run("evaluate", tmp_path / "m", "--semantic", wild, "--json")
    assert status == 0, err
    assert json.loads(out)["detectors"][0]["detector"] == "rule"
    status, _, err = run("evaluate", tmp_path / "m", "--semantic", wild, "--detector", "knn")
    assert (status, err.count("\n")) == (2, 1)


def test_the_wild_folder_is_the_labelled_one(run: Any, tmp_path: Path) -> None:
    labelled, _ = tiny_model.write_folders(tmp_path)
    status, _, err = run("fit", "--labelled", labelled, "--wild", labelled, "--out", tmp_path / "m", *WORDS)
    assert (status, err.count("\n")) == (2, 1)
    assert "labelled" in err


def test_a_class_of_two_images(known: Any) -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()
    keep = np.concatenate([np.flatnonzero(shapes != "ring"), np.flatnonzero(shapes == "ring")[:2]])
    model = _fit((images[keep], shapes[keep]), wild)
    assert model.classes_.tolist() == ["bar", "disc", "ring"]
    chances = model.predict_proba(known[0])
    assert np.isfinite(chances).all()
    some = known[1] < 2
    assert (chances.argmax(1)[some] == known[1][some]).mean() > 0.8


def test_damaged_weights_end_it_before_images_are_read(
    monkeypatch: pytest.MonkeyPatch, run: Any, tmp_path: Path
) -> None:
    from wildspec.models.registry import BACKBONES

    weights = BACKBONES["efficientnet_lite0"].weights
    assert weights is not None
    (tmp_path / f"{weights.name}.pth").write_bytes(b"damaged")
    monkeypatch.setenv("WILDSPEC_WEIGHTS", str(tmp_path))
    labelled, wild = tiny_model.write_folders(tmp_path)
    status, _, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m")
    assert status == 2
    assert "damaged" in err
    assert err.count("\n") == 1


def test_a_fit_that_cannot_be_done_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that every block of images moves by a minute: the blocks are not done in two, but in an hour."""
    minutes = iter(range(1000))
    monkeypatch.setattr(time_limit, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 60.0 * next(minutes)))
    with pytest.raises(InputError, match=r"not done in 2 min.*--minutes \d+"):
        _fit(*tiny_model.labelled_and_wild(), minutes=2, files=Files(cache=False))
    minutes = iter(range(1000))
    assert len(_fit(*tiny_model.labelled_and_wild(), minutes=60, files=Files(cache=False)).classes_) == 3


def test_one_class_is_said_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()
    monkeypatch.setattr(frozen_network, "make_network", lambda *_, **__: pytest.fail("too late"))
    with pytest.raises(InputError, match=r"one class only, 'bar'"):
        _fit((images[:40], shapes[:40]), wild)


@pytest.mark.parametrize("labels", [np.ones(40, int), np.r_[np.zeros(39, int), 1]], ids=["from 1", "one unreadable"])
def test_one_class_with_images_beside_an_empty_one_is_one_class(labels: np.ndarray, tmp_path: Path) -> None:
    (images, _), wild = tiny_model.labelled_and_wild()
    for i, label in enumerate(labels.tolist()):
        (tmp_path / str(label)).mkdir(exist_ok=True)
        Image.fromarray(images[i]).save(tmp_path / str(label) / f"{i}.png")
    if labels[0] != labels[-1]:
        (tmp_path / "1" / "39.png").write_bytes(b"torn")
    given = tmp_path if labels[0] != labels[-1] else (images[:40], labels)
    with pytest.raises(InputError, match=r"one class only"):
        _fit(given, wild)


def test_classes_that_are_numbered_from_1_are_told_how_to_count() -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()
    with pytest.raises(InputError, match=r"'0'.*from 0"):
        _fit((images, 1 + np.unique(shapes, return_inverse=True)[1]), wild)


def test_settings_may_be_numpys_numbers(tmp_path: Path) -> None:
    """As a search over settings gives them."""
    labelled, wild = tiny_model.write_folders(tmp_path)
    files = Files(max_unreadable=np.float32(0.1))
    given: dict[str, Any] = {
        "alpha": np.float32(0.1), "held_out": np.float32(0.2), "size": np.int64(24), "random_state": np.int64(3),
        "minutes": np.float32(5), "files": files,
    }  # fmt: skip
    found = _fit(labelled, wild, **given)
    found.save(tmp_path / "m")
    again = wildspec.load(tmp_path / "m", backbone=Grid())
    same = _fit(labelled, wild, size=24, random_state=3, alpha=float(np.float32(0.1)))
    assert np.array_equal(again.ood_score(wild), same.ood_score(wild))


def test_a_single_image_may_have_any_channels_and_three_grey_ones_are_asked_about(model: WildClassifier) -> None:
    one = tiny_model.labelled_and_wild()[1][0]
    alpha = np.dstack([one, np.full(one.shape[:2], 255, np.uint8)])
    expected = model.ood_score(one[None])
    assert model.ood_score(alpha) == pytest.approx(expected)
    assert model.ood_score(one) == pytest.approx(expected)
    assert len(model.predict(one[..., :1])) == len(model.predict(one[None, ..., 0])) == 1
    for three in (one.transpose(2, 0, 1), torch.zeros(3, 28, 28)):
        with pytest.raises(InputError, match=r"\[None\]"):
            model.predict(three)
        assert len(model.predict(three[None])) == 1
        assert len(model.predict(three[:, None])) == 3


def test_many_images_are_asked_about_in_little_memory(model: WildClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    count, side = 4000, model.fitted_.preprocess.size

    class Many(ImageSource):
        labels, classes = np.full(count, -1), ()

        def name(self, i: int) -> str:
            return str(i)

        def load(self, i: int) -> np.ndarray:
            return np.full((side, side, 3), i % 251, np.uint8)

    answers, most = [], []
    for limit in (1 << 30, 1 << 20):
        monkeypatch.setattr(reading, "IN_MEMORY_BYTES", limit)
        tracemalloc.start()
        answers.append(model.ood_score(Many()))
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert np.array_equal(*answers)
    assert most[0] - most[1] > count * 3 * side**2 / 2
