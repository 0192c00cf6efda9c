"""Measuring where the shift is another domain: accuracy is the mean over classes, and the joint number is made of it."""

import numpy as np
import pytest
import torch
from tests.bench.tiny import write_office_home

from wildspec.bench.measure import mean_class_accuracy, measure
from wildspec.bench.prepare import Prepared, prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.store import Store
from wildspec.data import Preprocess
from wildspec.detectors import build_detector
from wildspec.models import build_model


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("office")
    write_office_home(folder, per_class=10)
    return prepare(protocol("office-home").resized(8), "Ar->Cl", Store(folder, folder / "cache"))


def test_mean_class_accuracy_weighs_classes_not_images() -> None:
    labels = torch.tensor([0] * 8 + [3] * 2)  # classes 1 and 2 do not occur
    assert mean_class_accuracy(torch.tensor([0] * 8 + [3, 1]), labels) == pytest.approx((1 + 0.5) / 2)
    assert mean_class_accuracy(torch.zeros(10, dtype=torch.int64), labels) == 0.5


def test_numbers_of_another_domain(prepared: Prepared) -> None:
    """Some images of the first class are dropped, so that classes and images weigh differently."""
    shifted = prepared.covariate_test[1]
    keep = np.r_[np.flatnonzero(shifted.labels.numpy() == 0)[:2], np.flatnonzero(shifted.labels.numpy() != 0)]
    prepared.covariate_test[1] = shifted = shifted.subset(keep)
    torch.manual_seed(0)
    model, preprocess = build_model("small", 25, size=8).eval(), Preprocess(size=8)
    found, _ = measure(model, prepared, {"energy": build_detector("energy")}, preprocess)
    headline = found["energy"].headline
    with torch.no_grad():
        said = model(preprocess(shifted.images)).argmax(1).tolist()
    truth = shifted.labels.tolist()
    by_class = [[s == t for s, t in zip(said, truth, strict=True) if t == c] for c in range(25)]
    expected = float(np.mean([np.mean(right) for right in by_class]))
    assert headline.ood_acc == pytest.approx(expected)
    assert headline.ood_acc != pytest.approx(np.mean([s == t for s, t in zip(said, truth, strict=True)]), abs=1e-4)
    parts = (headline.ood_acc, headline.covariate_kept, headline.detection_rate)
    assert min(parts) > 0
    assert headline.joint == pytest.approx(3 / sum(1 / part for part in parts))
    assert found["energy"].severities == {1: headline}
