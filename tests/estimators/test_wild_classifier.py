"""WildClassifier: learns, decides by its own threshold, explains with true neighbours, survives a round trip, says no."""

import hashlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import tiny_model
import wildspec
from wildspec import WildClassifier
from wildspec.data import ArraySource, load_images, open_source
from wildspec.errors import CheckpointError, DataError, InputError, InputTypeError, MissingDependencyError
from wildspec.estimators.wild_fit import rows_to_show, split_labelled

QUICK: dict[str, Any] = {"size": tiny_model.SIDE, "epochs": 2, "device": "cpu", "alpha": 0.1}


@pytest.fixture(scope="module")
def model() -> WildClassifier:
    return tiny_model.fitted()


@pytest.fixture(scope="module")
def known() -> tuple[np.ndarray, np.ndarray]:
    images, shapes = tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 15), 77)
    return images, np.array([tiny_model.CLASSES.index(shape) for shape in shapes])


@pytest.fixture(scope="module")
def unknown() -> np.ndarray:
    return tiny_model.pictures({"stripes": 20}, 78)[0]


def _quick(**changes: Any) -> WildClassifier:
    return WildClassifier(**{**QUICK, **changes})


def test_it_learns_to_tell_classes_and_to_refuse(model: WildClassifier, known: Any, unknown: np.ndarray) -> None:
    images, labels = known
    predicted = model.predict(images)
    kept = predicted >= 0
    assert kept.mean() >= 0.8
    assert (predicted[kept] == labels[kept]).mean() >= 0.9
    assert (model.predict(unknown) == -1).mean() >= 0.8
    assert model.classes_.tolist() == list(tiny_model.CLASSES)


def test_rejection_is_the_threshold_and_p_values_are_counts(model: WildClassifier, known: Any, unknown: np.ndarray) -> None:
    images = np.concatenate([known[0], unknown])
    scores, p = model.ood_score(images), model.p_value(images)
    assert np.array_equal(model.predict(images) == -1, scores > model.threshold_)
    calibration = model.fitted_.decision.calibration.scores.tolist()
    expected = [(1 + sum(c >= s for c in calibration)) / (1 + len(calibration)) for s in scores]
    assert p.tolist() == pytest.approx(expected)
    assert np.array_equal(p <= model.alpha, scores > model.fitted_.decision.calibration.id_threshold)


def test_probabilities_are_over_the_known_classes(model: WildClassifier, known: Any) -> None:
    p = model.predict_proba(known[0])
    assert p.shape == (len(known[0]), 3)
    assert p.sum(1) == pytest.approx(1)
    predicted = model.predict(known[0])
    assert np.array_equal(p.argmax(1)[predicted >= 0], predicted[predicted >= 0])


def test_the_threshold_rests_on_images_it_never_learned_from(model: WildClassifier) -> None:
    """The conformal quantile of the calibration part; the wild pool can only raise it."""
    (images, shapes), _ = tiny_model.labelled_and_wild()
    loaded = load_images(ArraySource(images, shapes))
    split = split_labelled(loaded, model.held_out, model.alpha, model.seed)
    scores = np.sort(model.ood_score(images[split["calibration"]]))
    rank = int(np.ceil((len(scores) + 1) * (1 - model.alpha)))
    calibration = model.fitted_.decision.calibration
    assert calibration.id_threshold == pytest.approx(scores[rank - 1], abs=1e-6)
    assert model.threshold_ == max(calibration.id_threshold, calibration.shifted)
    assert not set(split["calibration"]) & (set(split["train"]) | set(split["validation"]))
    assert [int(name) for name in model.fitted_.bank.names] == split["train"].tolist(), "the bank is the training part"
    recorded = model.record_["data"]["labelled"]["split"]["parts"]["calibration"]
    lines = "".join(f"{i} {i}\n" for i in sorted(split["calibration"].tolist()))  # index, then name
    assert recorded == {"count": len(scores), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


def test_neighbours_are_the_nearest_by_brute_force(model: WildClassifier, known: Any) -> None:
    (images, shapes), _ = tiny_model.labelled_and_wild()
    queries = known[0][:4]
    size = model.fitted_.preprocess.size
    with torch.no_grad():
        def embed(x: np.ndarray) -> np.ndarray:
            pixels = load_images(open_source(x), size).images
            z = model.model_.features(model.fitted_.preprocess(pixels)).double().numpy()
            return z / np.linalg.norm(z, axis=1, keepdims=True)

        bank, asked = embed(images), embed(queries)
    rows = [int(name) for name in model.fitted_.bank.names]
    for i, explanation in enumerate(model.explain(queries, neighbours=3)):
        away = np.linalg.norm(bank[rows] - asked[i], axis=1)
        best = np.argsort(away)[:3]
        assert [n.distance for n in explanation.neighbours] == pytest.approx(away[best].tolist(), abs=1e-4)
        assert [n.label for n in explanation.neighbours] == [shapes[rows[b]] for b in best]
        assert explanation.threshold == model.threshold_
        assert explanation.decision in str(explanation)


def test_an_explanation_says_rejected_and_why(model: WildClassifier, unknown: np.ndarray) -> None:
    rejected = [e for e in model.explain(unknown) if e.rejected]
    assert rejected
    assert str(rejected[0]).startswith("rejected (nearest class ")
    assert f"{rejected[0].ood_score:.4g} > threshold" in str(rejected[0])


def test_a_saved_model_answers_the_same(model: WildClassifier, known: Any, unknown: np.ndarray, tmp_path: Path) -> None:
    images = np.concatenate([known[0], unknown])
    model.save(tmp_path / "m")
    for again in (wildspec.load(tmp_path / "m", device="cpu"), WildClassifier.load(tmp_path / "m", device="cpu")):
        assert np.array_equal(again.predict(images), model.predict(images))
        assert np.array_equal(again.ood_score(images), model.ood_score(images))
        assert np.array_equal(again.p_value(images), model.p_value(images))
        assert again.explain(images[:3]) == model.explain(images[:3])
        assert again.record_ == model.record_
    again.save(tmp_path / "again")
    first = {p.name: p.read_bytes() for p in (tmp_path / "m").rglob("*") if p.is_file()}
    assert first == {p.name: p.read_bytes() for p in (tmp_path / "again").rglob("*") if p.is_file()}


def test_the_way_images_come_in_does_not_matter(model: WildClassifier, known: Any, tmp_path: Path) -> None:
    images = known[0][:6]
    expected = model.ood_score(images)
    from PIL import Image

    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    channels_first = torch.from_numpy(images).permute(0, 3, 1, 2)
    for thing in (tmp_path, channels_first, ArraySource(images), [tmp_path / f"{i}.png" for i in range(6)]):
        assert np.array_equal(model.ood_score(thing), expected)
    assert model.ood_score(images[0]) == pytest.approx(expected[:1], abs=1e-5)
    assert model.ood_score(tmp_path / "2.png") == pytest.approx(expected[2:3], abs=1e-5)


def test_blocks_do_not_matter(model: WildClassifier, known: Any) -> None:
    pixels = load_images(open_source(known[0])).images
    whole = model.decide(pixels, 2)
    assert np.concatenate([model.decide(part, 2).score for part in pixels.split(7)]) == pytest.approx(whole.score, abs=1e-5)
    assert len(model.decide(pixels[:0], 2)) == 0
    assert len(whole) == len(pixels)


def test_seeds_decide(known: Any) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    first, same, other = (_quick(seed=s).fit(labelled, wild).ood_score(known[0]) for s in (3, 3, 4))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_labels_of_wild_images_are_never_looked_at(known: Any) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    with_labels = _quick().fit(labelled, (wild, np.arange(len(wild)) % 3))
    assert np.array_equal(with_labels.ood_score(known[0]), _quick().fit(labelled, wild).ood_score(known[0]))


def test_no_wild_images_work_and_say_what_is_lost(known: Any) -> None:
    labelled, _ = tiny_model.labelled_and_wild()
    with pytest.warns(UserWarning, match="no wild images were given"):
        model = _quick().fit(labelled)
    assert model.record_["data"]["wild"] is None
    assert len(model.predict(known[0])) == len(known[0])


def test_the_joint_decision_is_the_default_and_a_name_switches_it_off(model: WildClassifier, known: Any) -> None:
    """The bank: labelled training images, then wild ones, by brute force; without a pool, or with "knn", the plain one."""
    labelled, wild = tiny_model.labelled_and_wild()
    detector = model.fitted_.decision.detector
    assert detector.name == "wild_knn"
    assert model.record_["training"]["method"] == "spectral+"
    bank = detector.bank_.double().numpy()
    first = len(model.fitted_.bank.names)
    assert first < len(bank) <= first + len(wild)
    verdicts = model.decide(load_images(open_source(known[0])).images)
    z = verdicts.features.astype(float)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    away = np.sort(np.linalg.norm(z[:, None] - bank[None], axis=2), axis=1)
    assert verdicts.score == pytest.approx(away[:, int(detector.neighbours_) - 1], abs=1e-4)
    plain = _quick(detector="knn").fit(labelled, wild)
    few = _quick().fit(labelled, wild[:5])  # too few to see two groups
    with pytest.warns(UserWarning, match="no wild images"):
        alone = _quick().fit(labelled)
    assert [m.record_["training"]["method"] for m in (plain, few, alone)] == ["spectral+", "spectral", "spectral"]
    for other in (plain, few, alone):
        assert other.fitted_.decision.detector.name == "knn"
        calibration = other.fitted_.decision.calibration
        assert other.threshold_ == np.sort(calibration.scores)[calibration.rank - 1]


def test_another_method_and_detector(known: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    model = _quick(method="erm", detector="energy").fit(labelled, wild)
    assert model.fitted_.decision.detector.name == "energy"
    model.save(tmp_path / "m")
    assert np.array_equal(wildspec.load(tmp_path / "m").ood_score(known[0]), model.ood_score(known[0]))
    assert (tmp_path / "m/detector/bank.safetensors").stat().st_size > 0, "neighbours are kept for any detector"
    gradient = _quick(method="erm", detector="odin").fit(labelled, wild)
    assert np.isfinite(gradient.ood_score(known[0])).all()


class _Foreign(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))  # maps: wrap_backbone averages them


def test_a_backbone_of_ones_own(known: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    model = _quick(backbone=_Foreign()).fit(labelled, wild)
    assert model.model_.feature_dim == 6
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match=r"_Foreign\), which a bundle cannot hold"):
        wildspec.load(tmp_path / "m")
    with pytest.raises(CheckpointError, match="do not fit together"):
        wildspec.load(tmp_path / "m", backbone=_Foreign(7))
    again = wildspec.load(tmp_path / "m", backbone=_Foreign(), device="cpu")
    assert np.array_equal(again.ood_score(known[0]), model.ood_score(known[0]))


def test_a_bundle_with_its_own_network_takes_no_other() -> None:
    with pytest.raises(InputError, match="brings its own network"):
        wildspec.load(tiny_model.bundle(), backbone=_Foreign())


def test_sklearn_manners(model: WildClassifier) -> None:
    fresh = clone(model)
    assert fresh.get_params()["alpha"] == model.alpha
    with pytest.raises(InputError, match="not fitted; call fit"):
        fresh.predict(np.zeros((1, 10, 10, 3), np.uint8))


def test_pictures_can_be_left_out(model: WildClassifier) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    without = _quick(pictures=False).fit(labelled, wild)
    assert [len(gallery) for gallery in without.fitted_.pictures.values()] == [0, 0]
    assert [len(gallery) for gallery in model.fitted_.pictures.values()] == [len(model.fitted_.bank.names), 84]


def test_folders_are_read_and_unreadable_files_recorded(tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    (wild / "broken.png").write_bytes(b"not an image")
    model = _quick().fit(labelled, wild)
    assert model.record_["data"]["wild"]["unreadable"] == 1
    assert model.record_["data"]["wild"]["unreadable_first"][0]["name"] == "broken.png"
    assert model.record_["data"]["labelled"]["per_class"] == {"bar": 40, "disc": 40, "ring": 40}
    assert model.fitted_.bank.names[0].startswith("bar/")
    with pytest.raises(DataError, match=r"1 of 85 images could not be read"):
        model.predict(wild)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 1, "minutes": 1}, "give epochs or minutes, not both"),
        ({"epochs": 0}, "epochs must be greater than 0"),
        ({"alpha": 0.0}, "alpha must lie strictly between"),
        ({"alpha": 0.005}, "needs 199 labelled images held out"),
        ({"method": "magic"}, "method must be one of"),
        ({"preset": "slow"}, "preset must be one of paper, fast"),
        ({"backbone": "alexnet"}, "backbone must be auto, one of small"),
        ({"backbone": 7}, "backbone must be a name or a torch module, got int"),
        ({"detector": "magic"}, "unknown detector 'magic'"),
        ({"detector": 5}, "detector must be a name or a Detector"),
        ({"size": 4}, "size must be at least 8"),
        ({"hparams": {"eta": 1}}, "has no hyper-parameter 'eta'"),
        ({"init": "none.safetensors"}, "initial weights none.safetensors do not exist"),
        ({"device": "cuda:9"}, "does not exist on this machine|available"),
    ],
)
def test_bad_settings_are_one_clear_line(changes: dict[str, Any], message: str) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    with pytest.raises((InputError, InputTypeError, DataError), match=message) as caught:
        _quick(**changes).fit(labelled, wild)
    assert "\n" not in str(caught.value)


def test_one_class_and_no_labels_are_errors() -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()
    with pytest.raises(InputError, match=r"at least 2|one class only"):
        _quick().fit((images[:40], shapes[:40]), wild)
    with pytest.raises(DataError, match="has no labels"):
        _quick().fit(images, wild)


def test_starting_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from wildspec.estimators.backbones import load_init
    from wildspec.models import build_model

    torch.manual_seed(0)
    donor, taker = build_model("small", 3, size=10), build_model("small", 5, size=10)
    weights = {f"backbone.{k}": v for k, v in donor.backbone.state_dict().items() if "tracked" not in k}
    save_file({**weights, "fc.weight": torch.zeros(2, 2)}, tmp_path / "w.safetensors")
    load_init(taker, tmp_path / "w.safetensors")
    for (name, mine), theirs in zip(taker.backbone.state_dict().items(), donor.backbone.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name
    for prefix in ("model.backbone.", ""):  # a run's checkpoint; the bare backbone
        another = build_model("small", 4, size=10)
        save_file({f"{prefix}{k}": v for k, v in donor.backbone.state_dict().items()}, tmp_path / "c.safetensors")
        load_init(another, tmp_path / "c.safetensors")
        assert torch.equal(another.backbone.convs[0].weight, donor.backbone.convs[0].weight), prefix
    with pytest.raises(InputError, match=r"do not fit the backbone: \d+ of \d+ tensors are missing"):
        load_init(build_model("wrn16_2", 3), tmp_path / "w.safetensors")
    (tmp_path / "p.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(DataError, match="pickles are not read"):
        load_init(taker, tmp_path / "p.safetensors")


def _fake(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = types.ModuleType(name)
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_timm_and_torchvision_by_name(monkeypatch: pytest.MonkeyPatch, known: Any, tmp_path: Path) -> None:
    asked = []

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        asked.append((name, pretrained, num_classes))
        return nn.Sequential(_Foreign(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(_Foreign(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.fc = nn.Linear(4, 1000)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.body(x))

    _fake(monkeypatch, "timm", create_model=create_model)
    _fake(monkeypatch, "torchvision", models=types.SimpleNamespace(get_model=lambda name, weights: Vision()))
    labelled, wild = tiny_model.labelled_and_wild()
    by_timm = _quick(backbone="timm:net:pretrained").fit(labelled, wild)
    assert asked == [("net", True, 0)]
    by_timm.save(tmp_path / "m")
    assert np.array_equal(wildspec.load(tmp_path / "m").ood_score(known[0]), by_timm.ood_score(known[0]))
    assert asked[-1] == ("net", False, 0), "loading a bundle downloads nothing"
    assert _quick(backbone="torchvision:net").fit(labelled, wild).model_.feature_dim == 4


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    labelled, wild = tiny_model.labelled_and_wild()
    expected = f"backbone {library}:resnet18 needs the package '{library}'; install it with: pip install {library}$"
    with pytest.raises(MissingDependencyError, match=expected) as caught:
        _quick(backbone=f"{library}:resnet18").fit(labelled, wild)
    assert "\n" not in str(caught.value)


def test_data_sets_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()

    class Rows:
        def __init__(self, pixels: np.ndarray, names: Any) -> None:
            self.pixels, self.names = pixels, names

        def __len__(self) -> int:
            return len(self.pixels)

        def __getitem__(self, i: int) -> dict[str, Any]:
            return {"image": self.pixels[i], "label": str(self.names[i])}

    def load_dataset(name: str, split: str) -> Rows:
        if name != "me/shapes":
            raise RuntimeError("no such\ndata set")
        return Rows(images, shapes) if split == "train" else Rows(wild, ["?"] * len(wild))

    _fake(monkeypatch, "datasets", load_dataset=load_dataset)
    model = _quick().fit("hf:me/shapes", "hf:me/shapes:test")
    assert model.classes_.tolist() == list(tiny_model.CLASSES)
    assert model.record_["data"]["wild"]["count"] == len(wild)
    with pytest.raises(DataError, match="cannot load data set 'me/none' from the hub: no such data set"):
        _quick().fit("hf:me/none", wild)


def test_what_is_shown_holds_the_extremes_and_the_borderline() -> None:
    scores = np.random.default_rng(0).normal(size=5000)
    shown = rows_to_show(scores, 0.5, seed=1)
    assert len(shown) == len(set(shown.tolist())) == 600
    assert set(np.argsort(scores)[-60:].tolist()) <= set(shown.tolist())
    assert set(np.argsort(np.abs(scores - 0.5))[:60].tolist()) <= set(shown.tolist())
    assert rows_to_show(scores[:10], 0.5, seed=1).tolist() == list(range(10))


@pytest.fixture(scope="module")
def by_energy() -> WildClassifier:
    labelled, wild = tiny_model.labelled_and_wild()
    return _quick(method="pu", epochs=60, flip=False).fit(labelled, wild)


def test_a_network_trained_to_tell_wild_images_apart_is_judged_by_that_score(
    by_energy: WildClassifier, known: Any, unknown: np.ndarray, tmp_path: Path
) -> None:
    decision = by_energy.fitted_.decision
    assert (decision.detector.name, by_energy.record_["training"]["method"]) == ("energy", "pu")
    assert by_energy.fitted_.network["name"] == "small_resnet"
    pixels = load_images(open_source(known[0]), tiny_model.SIDE).images
    with torch.no_grad():
        logits = by_energy.model_(by_energy.fitted_.preprocess(pixels)).double().numpy()
    assert by_energy.ood_score(known[0]) == pytest.approx(-np.log(np.exp(logits).sum(1)), abs=1e-4)
    assert by_energy.threshold_ == decision.calibration.id_threshold, "the conformal threshold: nothing raises it"
    kept, lost = (by_energy.predict(known[0]) >= 0).mean(), (by_energy.predict(unknown) == -1).mean()
    assert kept >= 0.7
    assert lost >= 0.5
    by_energy.save(tmp_path / "m")
    again = wildspec.load(tmp_path / "m", device="cpu")
    assert np.array_equal(again.ood_score(unknown), by_energy.ood_score(unknown))
    assert again.fitted_.decision.calibration.mixture == decision.calibration.mixture
    assert _quick(method="pu", detector="knn").fit(*tiny_model.labelled_and_wild()).fitted_.decision.detector.name == "knn"


def test_one_graph_of_such_a_model_gives_the_same_scores(
    by_energy: WildClassifier, tmp_path: Path
) -> None:
    from wildspec.bundle.onnx_export import export_onnx
    from wildspec.serving.engine import BundleEngine, open_engine

    export_onnx(by_energy.fitted_, tmp_path / "m.onnx", BundleEngine(by_energy, "shapes").describe())
    counts = {"bar": 250, "disc": 250, "ring": 250, "stripes": 250}
    pixels = load_images(open_source(tiny_model.pictures(counts, 310)[0]), tiny_model.SIDE).images
    mine, theirs = by_energy.decide(pixels, 3), open_engine(tmp_path / "m.onnx").decide(pixels.numpy(), 3)
    assert theirs.score == pytest.approx(mine.score, abs=1e-4)
    assert theirs.p_value == pytest.approx(mine.p_value, abs=2 / 13), "a score next to a calibration score may pass it"
    clear = np.abs(mine.score - by_energy.threshold_) > 1e-4
    assert np.array_equal(theirs.predicted[clear], mine.predicted[clear])
    assert 0 < mine.rejected.mean() < 1, "both decisions occur"
    assert theirs.distances == pytest.approx(mine.distances, abs=1e-4)
