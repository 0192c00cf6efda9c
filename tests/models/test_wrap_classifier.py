"""A classifier made elsewhere keeps its weights, its logits and its last layer; what does not fit is told."""

import pytest
import torch
from torch import Tensor, nn

from wildspec.data import Preprocess
from wildspec.detectors import REGISTRY, build_detector
from wildspec.errors import InputError
from wildspec.evaluation import collect
from wildspec.models import wrap_classifier


class Elsewhere(nn.Module):
    """As in the zoos: maps, mean, a last layer of any name, and linear layers before it."""

    def __init__(self, after: nn.Module | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.gate = nn.Linear(6, 6)
        self.fc = nn.Linear(6, 4)
        self.after = after or nn.Identity()

    def before(self, x: Tensor) -> Tensor:
        pooled = torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3))
        return pooled * torch.sigmoid(self.gate(pooled))

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.fc(self.before(x)))


@pytest.fixture
def network() -> Elsewhere:
    torch.manual_seed(0)
    return Elsewhere().eval()


def test_features_are_the_input_of_the_last_layer(network: Elsewhere) -> None:
    x = torch.randn(5, 3, 8, 8)
    wrapped = wrap_classifier(network)
    assert torch.equal(wrapped.features(x), network.before(x))
    assert torch.equal(wrapped(x), network(x))
    assert wrapped.head is network.fc
    assert (wrapped.feature_dim, wrapped.num_classes) == (6, 4)
    assert not network.fc._forward_hooks  # nothing is left behind
    assert sum(p.numel() for p in wrapped.parameters()) == sum(p.numel() for p in network.parameters())


def test_every_detector_scores_it(network: Elsewhere) -> None:
    wrapped, preprocess = wrap_classifier(network, "fc"), Preprocess(size=8)
    images = torch.randint(0, 256, (60, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    found, labels = collect(wrapped, images, preprocess), torch.arange(60) % 4
    assert torch.allclose(found.logits, network(preprocess(images)), atol=1e-6)
    for name in set(REGISTRY) - {"unknown_logit", "one_against_rest"}:  # which need outputs that a plain classifier lacks
        detector = build_detector(name, **({"k": 5} if name == "knn" else {}))
        detector.fit(features=found.features, logits=found.logits, labels=labels, model=wrapped)
        scores = detector.score(features=found.features, logits=found.logits, inputs=preprocess(images), model=wrapped)
        assert scores.shape == (60,), name
        assert torch.isfinite(scores).all(), name


def test_a_layer_that_is_not_the_last_is_told(network: Elsewhere) -> None:
    with pytest.raises(InputError, match="layer 'gate' gives"):
        wrap_classifier(network, "gate").features(torch.randn(2, 3, 8, 8))
    with pytest.raises(InputError, match="layer 'fc' gives"):
        wrap_classifier(Elsewhere(nn.Softmax(dim=1))).features(torch.randn(2, 3, 8, 8))
    with pytest.raises(InputError, match=r"no linear layer 'classifier'.*gate, fc"):
        wrap_classifier(network, "classifier")
    with pytest.raises(InputError, match="no linear layer"):
        wrap_classifier(nn.Conv2d(3, 4, 1))
    tokens = nn.Sequential(nn.Flatten(2), nn.Linear(64, 4))  # (n, 3, 64) -> (n, 3, 4)
    with pytest.raises(InputError, match=r"run once a pass .*\(n, d\)"):
        wrap_classifier(tokens).features(torch.randn(2, 3, 8, 8))


def test_a_bare_network_is_sent_to_the_right_wrapper(network: Elsewhere) -> None:
    with pytest.raises(InputError, match=r"finished classifier .*wrap_classifier"):
        collect(network, torch.zeros(2, 3, 8, 8, dtype=torch.uint8), Preprocess(size=8))
