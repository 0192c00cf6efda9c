"""WildClassifier: learns, decides by its own threshold, explains with true neighbours, survives a round trip."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tiny_model
import wildspec
from quick_wild import quick
from wildspec import WildClassifier
from wildspec.data import ArraySource, load_images, open_source
from wildspec.decision.calibration import samples_needed
from wildspec.decision.turns import turns
from wildspec.errors import InputError
from wildspec.images.parts import split_for_turns, split_labelled
from wildspec.images.pictures import rows_to_show


@pytest.fixture(scope="module")
def model() -> WildClassifier:
    return tiny_model.fitted()


def test_it_learns_to_tell_classes_and_to_refuse(model: WildClassifier, known: Any, unknown: np.ndarray) -> None:
    images, labels = known
    predicted = model.predict(images)
    kept = predicted != "rejected"
    assert kept.mean() >= 0.8
    assert (predicted[kept] == model.classes_[labels[kept]]).mean() >= 0.9
    assert (model.predict(unknown) == "rejected").mean() >= 0.8
    assert model.classes_.tolist() == list(tiny_model.CLASSES)


def test_rejection_is_the_threshold_and_p_values_are_counts(model: WildClassifier, known: Any, unknown: np.ndarray) -> None:
    images = np.concatenate([known[0], unknown])
    scores, p = model.ood_score(images), model.p_value(images)
    assert np.array_equal(model.predict(images) == "rejected", scores > model.threshold_)
    calibration = model.fitted_.decision.calibration.scores.tolist()
    expected = [(1 + sum(c >= s for c in calibration)) / (1 + len(calibration)) for s in scores]
    assert p.tolist() == pytest.approx(expected)
    assert np.array_equal(p <= model.alpha, scores > model.fitted_.decision.calibration.id_threshold)


def test_probabilities_are_over_the_known_classes(model: WildClassifier, known: Any) -> None:
    p = model.predict_proba(known[0])
    assert p.shape == (len(known[0]), 3)
    assert p.sum(1) == pytest.approx(1)
    predicted = model.predict(known[0])
    kept = predicted != "rejected"
    assert np.array_equal(model.classes_[p.argmax(1)][kept], predicted[kept])


def test_the_threshold_rests_on_images_it_never_learned_from(model: WildClassifier) -> None:
    """The conformal quantile of the calibration part; the wild pool can only raise it."""
    (images, shapes), _ = tiny_model.labelled_and_wild()
    loaded = load_images(ArraySource(images, shapes))
    split = split_labelled(loaded, model.held_out, model.alpha, model.random_state)
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


def test_a_pool_asks_for_enough_held_out_images_whatever_alpha_needs() -> None:
    """alpha = 0.1 is content with 9 images; what the pool is compared with takes 10."""
    images = load_images(ArraySource(np.zeros((90, 16, 16, 3), np.uint8), np.arange(90) % 3))
    for least, expected in ((1, 9), (10, 10)):
        split = split_labelled(images, 0.2, 0.1, 0, least=least)
        assert expected <= len(split["calibration"]) <= expected + 3
        assert len(split["validation"]) == 9
    model = quick(backbone="small", size=16, method="erm", epochs=1, pictures=False)
    rng = np.random.default_rng(0)
    labelled = rng.integers(0, 256, (90, 16, 16, 3), dtype=np.uint8)
    model.fit((labelled, np.arange(90) % 3), rng.integers(0, 256, (30, 16, 16, 3), dtype=np.uint8))
    assert model.record_["data"]["labelled"]["split"]["parts"]["calibration"]["count"] >= 10


def test_too_few_labelled_images_are_told_how_many_it_takes() -> None:
    def images(n: int) -> Any:
        return load_images(ArraySource(np.zeros((n, 8, 8, 3), np.uint8), np.arange(n) % 3))

    with pytest.raises(InputError, match=r"24.*about 40 in all"):
        split_labelled(images(24), 0.2, 0.05, 0)
    assert len(split_labelled(images(42), 0.2, 0.05, 0)["calibration"]) >= 19


@pytest.mark.parametrize(("per_class", "classes", "alpha"), [(6, 4, 0.05), (8, 3, 0.05), (4, 3, 0.1), (40, 5, 0.05)])
def test_images_that_calibrate_in_turns_need_not_be_held_out(per_class: int, classes: int, alpha: float) -> None:
    n = per_class * classes
    images = load_images(ArraySource(np.zeros((n, 8, 8, 3), np.uint8), np.arange(n) % classes))
    split = split_for_turns(images, 0.2, alpha, 0)
    train = images.labels.numpy()[split["train"]]
    assert set(train.tolist()) == set(range(classes))
    assert len(split["validation"]) >= 1
    assert len(split["train"]) >= n / 2
    scored = sum(len(scored) for _, scored in turns(np.arange(len(train))[:, None], train))
    assert scored + len(split["calibration"]) >= samples_needed(alpha)


@pytest.mark.parametrize("counts", [[2] * 50, [30, 2, 30], [300, 1, 300, 300], [3] * 20, [1] * 10 + [60]])
@pytest.mark.parametrize("held_out", [0.2, 0.7])
def test_every_class_is_learned_from_however_small(counts: list[int], held_out: float) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    images = load_images(ArraySource(np.zeros((len(labels), 8, 8, 3), np.uint8), labels))
    splits = [split_for_turns(images, held_out, 0.1, 0)]
    if max(counts) > 3:  # else too few for both parts where none calibrates in turns
        splits.append(split_labelled(images, held_out, 0.1, 0))
    for split in splits:
        assert set(labels[split["train"]].tolist()) == set(range(len(counts)))
        assert len(split["validation"])
        assert len(split["calibration"])


def test_too_few_to_calibrate_even_in_turns_are_told_how_many_it_takes() -> None:
    images = load_images(ArraySource(np.zeros((15, 8, 8, 3), np.uint8), np.arange(15) % 3))
    with pytest.raises(InputError, match=r"15.*needs 19.*about 23"):
        split_for_turns(images, 0.2, 0.05, 0)


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
    again = wildspec.load(tmp_path / "m", device="cpu")
    assert np.array_equal(again.predict(images), model.predict(images))
    assert np.array_equal(again.ood_score(images), model.ood_score(images))
    assert np.array_equal(again.p_value(images), model.p_value(images))
    assert again.explain(images[:3]) == model.explain(images[:3])
    assert again.record_ == model.record_
    again.save(tmp_path / "again")
    first = {p.name: p.read_bytes() for p in (tmp_path / "m").rglob("*") if p.is_file()}
    assert first == {p.name: p.read_bytes() for p in (tmp_path / "again").rglob("*") if p.is_file()}


def test_blocks_do_not_matter(model: WildClassifier, known: Any) -> None:
    pixels = load_images(open_source(known[0])).images
    whole = model.decide(pixels, 2)
    assert np.concatenate([model.decide(part, 2).score for part in pixels.split(7)]) == pytest.approx(whole.score, abs=1e-5)
    assert len(model.decide(pixels[:0], 2)) == 0
    assert len(whole) == len(pixels)


def test_seeds_decide(known: Any) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    first, same, other = (quick(random_state=s).fit(labelled, wild).ood_score(known[0]) for s in (3, 3, 4))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


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
    plain = quick(detector="knn").fit(labelled, wild)
    few = quick().fit(labelled, wild[:5])  # too few to see two groups
    with pytest.warns(UserWarning, match="no wild images"):
        alone = quick().fit(labelled)
    assert [m.record_["training"]["method"] for m in (plain, few, alone)] == ["spectral+", "spectral", "spectral"]
    for other in (plain, few, alone):
        assert other.fitted_.decision.detector.name == "knn"
        calibration = other.fitted_.decision.calibration
        assert other.threshold_ == np.sort(calibration.scores)[calibration.rank - 1]


def test_another_method_and_detector(known: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    model = quick(method="erm", detector="energy").fit(labelled, wild)
    assert model.fitted_.decision.detector.name == "energy"
    model.save(tmp_path / "m")
    assert np.array_equal(wildspec.load(tmp_path / "m").ood_score(known[0]), model.ood_score(known[0]))
    assert (tmp_path / "m/detector/bank.safetensors").stat().st_size > 0, "neighbours are kept for any detector"
    gradient = quick(method="erm", detector="odin").fit(labelled, wild)
    assert np.isfinite(gradient.ood_score(known[0])).all()


def test_sklearn_manners(model: WildClassifier, tmp_path: Path) -> None:
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert fresh.set_params(alpha=0.2, random_state=7) is fresh
    assert (fresh.alpha, fresh.random_state) == (0.2, 7)
    assert repr(fresh).startswith("WildClassifier(")
    images = np.zeros((1, 10, 10, 3), np.uint8)
    for ask in (fresh.predict, fresh.predict_proba, fresh.ood_score, fresh.p_value, fresh.explain):
        for kind in (InputError, NotFittedError):
            with pytest.raises(kind, match="not fitted; call fit"):
                ask(images)
    with pytest.raises(NotFittedError):
        fresh.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    with pytest.raises(ValueError, match="Invalid parameter"):
        fresh.set_params(colour=1)


def test_constructors_store_and_fit_changes_no_parameter() -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    hparams = {"eta_l": 0.3}
    model = quick(method="spectral", hparams=hparams)
    before = dict(model.get_params())
    assert model.get_params()["training"].hparams is hparams
    assert model.fit(labelled, wild) is model
    assert model.get_params() == before
    assert hparams == {"eta_l": 0.3}


def test_pictures_can_be_left_out(model: WildClassifier) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    without = quick(pictures=False).fit(labelled, wild)
    assert [len(gallery) for gallery in without.fitted_.pictures.values()] == [0, 0]
    assert [len(gallery) for gallery in model.fitted_.pictures.values()] == [len(model.fitted_.bank.names), 84]


def test_what_is_shown_holds_the_extremes_and_the_borderline() -> None:
    scores = np.random.default_rng(0).normal(size=5000)
    shown = rows_to_show(scores, 0.5, seed=1)
    assert len(shown) == len(set(shown.tolist())) == 600
    assert set(np.argsort(scores)[-60:].tolist()) <= set(shown.tolist())
    assert set(np.argsort(np.abs(scores - 0.5))[:60].tolist()) <= set(shown.tolist())
    assert rows_to_show(scores[:10], 0.5, seed=1).tolist() == list(range(10))


def test_hyper_parameters_may_be_numpys_numbers(tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    model = quick(method="spectral", epochs=np.float32(2), hparams={"eta_l": np.float32(0.25)}).fit(labelled, wild)
    model.save(tmp_path / "m")
    assert wildspec.load(tmp_path / "m").record_["training"]["hparams"] == {"eta_l": 0.25}
