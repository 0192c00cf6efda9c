"""Detectors that read a network's own outputs for unknown samples, against the network itself."""

import pytest
import torch
from torch import nn

from wildspec.detectors import build_detector
from wildspec.errors import InputError
from wildspec.models import build_model
from wildspec.models.outputs import ExtraOutputs, add_outputs


@pytest.fixture
def network():
    torch.manual_seed(0)
    model = build_model("small", 3, size=8)
    add_outputs(model, ExtraOutputs((6,), "leaky", 0.5, unknown=True, open_heads=True))
    return model.eval()


def seen(network):
    with torch.no_grad():
        images = torch.randn(20, 3, 8, 8)
        features = network.features(images)
        return features, network(images), network.unknown(features)[:, 0], network.open_heads(features)


def test_the_unknown_logit_against_the_known_ones(network):
    features, logits, unknown, _ = seen(network)
    every = torch.cat([logits, unknown[:, None]], 1)
    p = torch.softmax(every.double(), 1)[:, 3]
    for against, expected in (
        ("lse", torch.log(p / (1 - p)).float()), ("max", unknown - logits.amax(1)), ("nothing", unknown)
    ):  # fmt: skip
        score = build_detector("unknown_logit", against=against).fit(model=network).score(features=features, logits=logits)
        torch.testing.assert_close(score, expected, rtol=1e-4, atol=1e-5)
    rejected = build_detector("unknown_logit", against="max").fit(model=network).score(features=features, logits=logits) > 0
    assert torch.equal(rejected, every.argmax(1) == 3)
    head = build_detector("unknown_head").fit(model=network).score(features=features, logits=logits)
    torch.testing.assert_close(head, unknown)


def test_the_open_head_of_the_most_likely_class(network):
    features, logits, _, _ = seen(network)
    score = build_detector("one_against_rest").fit(model=network).score(features=features, logits=logits)
    weight = network.open_heads.weight.detach()
    for i, row in enumerate(features):
        k = int(logits[i].argmax())
        yes, no = (w / w.norm() for w in (weight[k], weight[3 + k]))
        p_no = torch.softmax(torch.stack([yes @ row, no @ row]), 0)[1]
        assert torch.sigmoid(score[i]).item() == pytest.approx(p_no.item(), rel=1e-4)


def test_a_network_without_them_is_told_so():
    model = build_model("small", 3, size=8)
    for name, word in (("unknown_logit", "osbp"), ("one_against_rest", "ovanet")):
        with pytest.raises(InputError, match=word):
            build_detector(name).fit(model=model)


def test_detectors_that_read_logits_get_the_known_ones(network):
    features, logits, _, _ = seen(network)
    assert logits.shape == (20, 3)
    torch.testing.assert_close(logits, network.head(features))
    assert isinstance(network.head, nn.Linear)
    torch.testing.assert_close(build_detector("energy").score(logits=logits), -torch.logsumexp(logits, 1))
