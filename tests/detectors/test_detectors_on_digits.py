"""Every score points the right way on a real problem: handwritten digits 0-5 known, 6-9 unknown."""

import numpy as np
import pytest
import torch
from detector_samples import Samples  # type: ignore[import-not-found]
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from wildspec.detectors import REGISTRY, build_detector

# made for thousands of sparse activations; of 48 dense ones they must keep more to work at all
MILD = {"ash": {"percent": 50.0, "variant": "p"}, "dice": {"percent": 30.0}, "scale": {"percent": 50.0}}


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU())
        self.head = nn.Linear(48, 6)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)


@pytest.fixture(scope="module")
def digits() -> tuple[Samples, Samples, Samples]:
    """Train, known test and unknown samples of a network trained for a second."""
    torch.manual_seed(0)
    pixels, target = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels.reshape(-1, 1, 8, 8).repeat(3, axis=1).astype(np.float32) / 8 - 1)
    labels = torch.from_numpy(target)
    known = torch.nonzero(labels < 6).squeeze(1)[torch.randperm(int((labels < 6).sum()))]
    train, test, unknown = known[:700], known[700:], torch.nonzero(labels >= 6).squeeze(1)
    model = Perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model.head(model.features(images[train])), labels[train]).backward()
        optimizer.step()
    model.eval()

    def samples(rows: Tensor) -> Samples:
        with torch.no_grad():
            features = model.features(images[rows])
        return Samples(features, model.head(features).detach(), labels[rows], images[rows], model)

    return samples(train), samples(test), samples(unknown)


OWN_OUTPUTS = {"unknown_logit", "one_against_rest"}  # need outputs that a plain classifier lacks


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - OWN_OUTPUTS))
def test_unknown_digits_score_higher(name: str, digits: tuple[Samples, Samples, Samples]) -> None:
    train, known, unknown = digits
    assert float((known.logits.argmax(1) == known.labels).double().mean()) > 0.95  # the network learned something
    detector = build_detector(name, **MILD.get(name, {})).fit(**train.for_fit())
    scores = [detector.score(**part.for_score()).numpy() for part in (known, unknown)]
    truth = [0] * len(scores[0]) + [1] * len(scores[1])
    assert roc_auc_score(truth, np.concatenate(scores)) > 0.75
