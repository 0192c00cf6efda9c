"""A WildClassifier whose training tells wild images apart: judged by that score, in torch and as one graph."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny_model
import wildspec
from quick_wild import quick
from same_graph import check_graph, thousand_pixels
from wildspec import WildClassifier
from wildspec.data import load_images, open_source


@pytest.fixture(scope="module")
def by_energy() -> WildClassifier:
    labelled, wild = tiny_model.labelled_and_wild()
    return quick(method="pu", epochs=30, flip=False).fit(labelled, wild)


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
    kept, lost = (by_energy.predict(known[0]) != "rejected").mean(), (by_energy.predict(unknown) == "rejected").mean()
    assert kept >= 0.7
    assert lost >= 0.5
    by_energy.save(tmp_path / "m")
    again = wildspec.load(tmp_path / "m", device="cpu")
    assert np.array_equal(again.ood_score(unknown), by_energy.ood_score(unknown))
    assert again.fitted_.decision.calibration.mixture == decision.calibration.mixture
    assert quick(method="pu", detector="knn").fit(*tiny_model.labelled_and_wild()).fitted_.decision.detector.name == "knn"


def test_one_graph_of_such_a_model_gives_the_same_answers(by_energy: WildClassifier, tmp_path: Path) -> None:
    from wildspec.bundle.onnx_export import export_onnx
    from wildspec.serving.engine import BundleEngine

    export_onnx(by_energy.fitted_, tmp_path / "m.onnx", BundleEngine(by_energy, "shapes").describe())
    check_graph(by_energy, tmp_path / "m.onnx", thousand_pixels())
