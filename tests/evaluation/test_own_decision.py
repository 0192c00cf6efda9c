"""A fitted model is judged by its own decision: against counts taken by hand from what it says."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from wildspec import SpectralClassifier
from wildspec.data.images import ImageArrays
from wildspec.errors import InputError
from wildspec.evaluation import auroc, evaluate, evaluate_scores

NAMES = np.array(["cat", "dog"])


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    centres = np.eye(3, 8) * 6

    def draw(group: int, n: int, shift: float = 0.0) -> np.ndarray:
        return centres[group] + shift + rng.normal(size=(n, 8))

    def known(n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate([draw(0, n, shift), draw(1, n, shift)]), np.repeat(NAMES, n)

    return {"train": known(80), "wild": np.concatenate([known(60)[0], draw(2, 60)]), "id": known(50),
            "covariate": known(40, 0.3), "semantic": draw(2, 70)}  # fmt: skip


@pytest.fixture(scope="module")
def model(rows: dict[str, Any]) -> SpectralClassifier:
    return SpectralClassifier().fit(*rows["train"], rows["wild"])


def test_numbers_are_those_of_predict_and_ood_score(model: SpectralClassifier, rows: dict[str, Any]) -> None:
    found = evaluate(model, id=rows["id"], covariate=rows["covariate"], semantic=rows["semantic"])
    kept = {}
    for name in ("id", "covariate"):
        said = model.predict(rows[name][0])
        kept[name] = np.isin(said, NAMES)
        likely = NAMES[model.predict_proba(rows[name][0]).argmax(1)]
        accuracy = {"id": found.id_acc, "covariate": found.ood_acc}[name]
        assert accuracy == pytest.approx(np.mean(likely == rows[name][1]))
    assert found.id_kept == pytest.approx(kept["id"].mean())
    assert found.covariate_kept == pytest.approx(kept["covariate"].mean())
    assert found.detection_rate == pytest.approx(1 - np.isin(model.predict(rows["semantic"]), NAMES).mean())
    expected = auroc(model.ood_score(rows["id"][0]), model.ood_score(rows["semantic"]))
    assert found.auroc == pytest.approx(expected)


def test_labels_may_be_names_or_places(model: SpectralClassifier, rows: dict[str, Any]) -> None:
    samples, names = rows["id"]
    by_place = evaluate(model, id=(samples, (names == "dog").astype(np.int64)))
    assert by_place == evaluate(model, id=(samples, names))
    with pytest.raises(InputError, match=r"'cow'.*does not know"):
        evaluate(model, id=(samples, np.array(["cow"] * len(samples))))
    with pytest.raises(InputError, match="id needs labels"):
        evaluate(model, id=samples)
    with pytest.raises(InputError, match="100 samples and 3 labels"):
        evaluate(model, id=(samples, names[:3]))
    with pytest.raises(InputError, match=r"labels of id .*shape \(100, 1\)"):
        evaluate(model, id=(samples, names[:, None]))


def test_nothing_is_fitted(model: SpectralClassifier, rows: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="leave out wild, detector"):
        evaluate(model, id=rows["id"], wild=rows["wild"], detector="knn")
    with pytest.raises(InputError, match="SpectralClassifier is not fitted"):
        evaluate(SpectralClassifier(), id=rows["id"])


def test_no_argument_is_passed_over(model: SpectralClassifier, rows: dict[str, Any]) -> None:
    """A test set under the name it had in version 0.1 would not be measured."""
    with pytest.raises(InputError, match="leave out covariate_test"):
        evaluate(model, id=rows["id"], covariate_test=rows["covariate"])


def test_a_decision_that_is_no_single_threshold() -> None:
    scores, labels = np.array([0.1, 0.4, 0.6]), np.array([0, 1, 1])
    out = np.array([True, False, False])  # the lowest score, and yet rejected
    found = evaluate_scores(
        id_scores=scores, id_pred=np.array([0, 1, 0]), id_labels=labels, id_rejected=out, semantic_scores=scores,
        semantic_rejected=~out, threshold=0.5,
    )  # fmt: skip
    assert found.id_kept == pytest.approx(2 / 3)
    assert found.detection_rate == pytest.approx(2 / 3)
    assert found.accuracy_kept == pytest.approx(1 / 2)
    assert found.fpr95_id == pytest.approx(1.0)  # of the scores alone
    with pytest.raises(InputError, match="id_rejected must be 3 values"):
        evaluate_scores(id_scores=scores, id_pred=labels, id_labels=labels, id_rejected=out[:2])


class Decides:
    """Says of an image the class that its first pixel names."""

    classes_, threshold_ = NAMES, 0.5
    ood_score = predict_proba = None

    def decide(self, images: torch.Tensor) -> SimpleNamespace:
        likely = images[:, 0, 0, 0].numpy().astype(np.int64)
        return SimpleNamespace(score=np.linspace(0, 1, len(likely)), rejected=np.zeros(len(likely), bool), likely=likely)


def image_set(labels: list[int]) -> ImageArrays:
    pixels = torch.zeros(len(labels), 3, 2, 2, dtype=torch.uint8)
    pixels[:, 0, 0, 0] = torch.tensor([0, 1, 1, 0])
    return ImageArrays(pixels, labels=torch.tensor(labels), classes=("dog", "cat"))


def test_an_image_set_is_numbered_by_its_own_classes_and_unlabelled_samples_are_none_of_them() -> None:
    assert evaluate(Decides(), id=image_set([1, 0, 0, 0])).id_acc == 0.75  # cat, dog, dog, dog; said: cat, dog, dog, cat
    for source in (image_set([1, -1, 0, -1]), (image_set([0] * 4).images, np.array([1, -1, 0, -1]))):
        with pytest.raises(InputError, match=r"id.* 2 unlabelled samples \(-1\)"):
            evaluate(Decides(), id=source)
    strange = image_set([1, 0, 0, 0])
    strange.labels = torch.tensor([1, 0, 2, 0])  # another library's set may be so
    for source in (strange, (strange.images, np.array([1, 0, 2, 0]))):
        with pytest.raises(InputError, match=r"covariate.* class number 2.* 2 classes"):
            evaluate(Decides(), id=image_set([1, 0, 0, 1]), covariate=source)
