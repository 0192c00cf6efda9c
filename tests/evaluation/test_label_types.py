"""Class numbers of any whole-number type, as other libraries store them, are the same class numbers."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.data.preprocess import Preprocess
from wildspec.detectors import WildKNN
from wildspec.evaluation import Outputs, auroc, collect, evaluate
from wildspec.evaluation.deciding import fit

KINDS = ["int8", "uint8", "int16", "uint16", "int64"]


def drawn(rng: np.random.Generator, n: int, low: int, high: int) -> Tensor:
    return torch.from_numpy(rng.integers(low, high, size=(n, 3, 6, 6), dtype=np.uint8))


@pytest.mark.parametrize("kind", KINDS)
def test_the_pool_is_no_class_whatever_the_labels_are_stored_in(
    kind: str, model: nn.Module, preprocess: Preprocess, rng: np.random.Generator
) -> None:
    """-1 marks the pool; in uint8 it would be class 255."""
    train, wild, known, unknown = (drawn(rng, *of) for of in ((60, 0, 160), (40, 0, 220), (30, 0, 160), (25, 60, 255)))
    classes = np.arange(60) % 3
    labels = classes.astype(kind)
    rows = {name: collect(model, images, preprocess).features
            for name, images in (("train", train), ("wild", wild), ("id", known), ("semantic", unknown))}  # fmt: skip
    by_hand = WildKNN().fit(
        features=torch.cat([rows["train"], rows["wild"]]), labels=torch.from_numpy(np.r_[classes, np.full(40, -1)])
    )
    expected = auroc(*(by_hand.score(features=rows[name]) for name in ("id", "semantic")))
    found = evaluate(
        model, id=(known, np.zeros(30, kind)), train=(train, labels), semantic=unknown, wild=wild, detector="wild_knn",
        preprocess=preprocess,
    )  # fmt: skip
    assert found.auroc == pytest.approx(expected, abs=1e-6)

    made = Outputs(rows["train"], torch.zeros(60, 3), torch.from_numpy(labels)), Outputs(rows["wild"], torch.zeros(40, 3))
    detector = WildKNN()
    fit(detector, *made)
    torch.testing.assert_close(detector.bank_, by_hand.bank_)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_a_pass_are_int64(
    kind: str, model: nn.Module, preprocess: Preprocess, rng: np.random.Generator
) -> None:
    images, labels = drawn(rng, 9, 0, 255), (np.arange(9) % 3).astype(kind)
    ready = preprocess(images)
    loader = [(ready[:5], torch.from_numpy(labels[:5])), (ready[5:], labels[5:].tolist())]
    for found in (collect(model, (images, labels), preprocess), collect(model, loader)):
        assert found.labels is not None
        assert found.labels.dtype == torch.int64
        assert found.labels.tolist() == [0, 1, 2] * 3
