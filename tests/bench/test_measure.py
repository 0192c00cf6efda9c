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
from wildspec.models.outputs import ExtraOutputs, add_outputs


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
    found = measure(model, prepared, {"energy": build_detector("energy")}, preprocess).detectors
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


@pytest.mark.parametrize("name", ["unknown_logit", "one_against_rest", "energy"])
def test_open_set_numbers_at_a_systems_own_decision(prepared: Prepared, name: str) -> None:
    """Counted again, image by image; a score without a decision of its own is cut at its calibrated threshold."""
    torch.manual_seed(1)
    model, preprocess = build_model("small", 25, size=8), Preprocess(size=8)
    add_outputs(model, ExtraOutputs((8,), unknown=True, open_heads=True))
    model.eval()
    found = measure(model, prepared, {name: build_detector(name)}, preprocess).detectors
    told = found[name].open_set
    assert told is not None

    def answers(images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            features = model.features(preprocess(images))
            logits, best = model.head(features), model.head(features).argmax(1)
            if name == "unknown_logit":
                every = torch.cat([logits, model.unknown(features)], 1).argmax(1)  # type: ignore[misc]
                return torch.where(every == 25, -1, every)
            if name == "one_against_rest":
                yes, no = torch.nn.functional.normalize(model.open_heads.weight).chunk(2)  # type: ignore[union-attr]
                refused = ((no - yes)[best] * features).sum(1) > 0
            else:
                refused = -torch.logsumexp(logits, 1) > found[name].headline.threshold
            return torch.where(refused, -1, best)

    shifted = prepared.covariate_test[1]
    known, unknown = answers(shifted.images), answers(prepared.semantic_test.images)
    star = torch.stack([(known[shifted.labels == c] == c).double().mean() for c in shifted.labels.unique()]).mean().item()
    unk = (unknown == -1).double().mean().item()
    assert (told["os_star"], told["unk"]) == (pytest.approx(star), pytest.approx(unk))
    assert told["hos"] == pytest.approx(2 * star * unk / (star + unk) if star + unk else 0)


def test_a_detector_that_cannot_be_used_leaves_the_others_alone(prepared: Prepared) -> None:
    torch.manual_seed(0)
    model = build_model("small", 25, size=8).eval()
    detectors = {"energy": build_detector("energy"), "knn": build_detector("knn", k=10**6)}
    found = measure(model, prepared, detectors, Preprocess(size=8))
    assert list(found.detectors) == ["energy"]
    assert "1000000" in found.refused["knn"]
    assert "id.score.energy" in found.samples
    assert "id.score.knn" not in found.samples
