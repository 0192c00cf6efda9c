"""OVANet on rows: its loss in the form it is published in, its heads, its decision."""

import math

import numpy as np
import pytest
import torch

from shifted_world import make_world
from wildspec.embeddings import OVANet
from wildspec.errors import InputError
from wildspec.losses.one_against_rest import one_against_rest_loss, pair_entropy


def published(pairs, labels):
    """Softmax over pairs (B, K, 2), "no" first; hard negatives by a loop."""
    logs = torch.log_softmax(pairs, 2)
    total = 0.0
    for row, label in zip(logs, labels.tolist(), strict=True):
        negatives = [-row[k, 0] for k in range(len(row)) if k != label]
        total = total + (-row[label, 1] + max(negatives)) / 2
    probabilities = logs.exp()
    return total / len(labels), -(probabilities * logs).sum(2).mean()


def test_the_loss_is_the_published_one_and_so_is_its_slope():
    pairs = torch.randn(6, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3, 3, 0])
    odds = pairs[:, :, 1] - pairs[:, :, 0]
    loss, entropy = published(pairs, labels)
    torch.testing.assert_close(one_against_rest_loss(odds, labels), loss)
    torch.testing.assert_close(pair_entropy(odds), entropy)
    one, other = (
        torch.autograd.grad(value, pairs, retain_graph=True)[0]
        for value in (one_against_rest_loss(odds, labels) + pair_entropy(odds), loss + entropy)
    )
    torch.testing.assert_close(one, other)


def test_by_hand():
    odds = torch.tensor([[math.log(3.0), -math.log(4.0), 0.0]])  # p(yes) 3/4, 1/5, 1/2
    assert one_against_rest_loss(odds, torch.tensor([0])).item() == pytest.approx(0.5 * (math.log(4 / 3) + math.log(2)))
    assert pair_entropy(torch.zeros(2, 3)).item() == pytest.approx(math.log(2))
    assert one_against_rest_loss(torch.tensor([[0.0]]), torch.tensor([0])).item() == pytest.approx(0.5 * math.log(2))
    assert torch.isfinite(one_against_rest_loss(torch.tensor([[1e4, -1e4]]), torch.tensor([1])))


def test_it_learns_classes_and_refuses_what_every_head_refuses():
    world = make_world(2, shift=0.0)
    model = OVANet(random_state=0).fit(world.labelled, world.labels, world.wild)
    assert np.mean(model.predict_known(world.id_test) == world.id_labels) > 0.9
    score = model.ood_score(world.unknown)
    np.testing.assert_array_equal(model.predict(world.unknown) == -1, score > 0)
    assert score.mean() > model.ood_score(world.id_test).mean() + 0.5
    proba = model.predict_proba(world.id_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict_known(world.id_test))


def test_no_certainty_beyond_unit_weights():
    """|u - v| <= 2, so |score| <= 2 |x| with rows whose mean square entry is 1."""
    world = make_world(2, shift=0.0)
    model = OVANet(random_state=0, steps=300).fit(world.labelled, world.labels, world.wild)
    rows = world.unknown / np.sqrt(np.mean(np.concatenate([world.labelled, world.wild]) ** 2))
    assert (np.abs(model.ood_score(world.unknown)) <= 2 * np.linalg.norm(rows, axis=1) + 1e-6).all()
    scaled = OVANet(random_state=0, steps=300).fit(1000 * world.labelled, world.labels, 1000 * world.wild)
    np.testing.assert_allclose(scaled.ood_score(1000 * world.unknown), model.ood_score(world.unknown), rtol=1e-3, atol=1e-3)


def test_the_pool_is_used_and_the_seed_decides():
    world = make_world(2)
    first, again, alone, other = (
        OVANet(weight, steps=200, random_state=seed).fit(world.labelled, world.labels, world.wild).ood_score(world.wild)
        for weight, seed in ((2.0, 0), (2.0, 0), (0.0, 0), (2.0, 1))
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - alone).max() > 0.1
    assert np.abs(first - other).max() > 0.01
    assert np.abs(first).mean() > np.abs(alone).mean(), "entropy pushes wild samples to one side or the other"


def test_wrong_parameters_are_named():
    world = make_world(2, per_class=5)
    for name, value in (("steps", 0), ("batch_size", 0), ("learning_rate", 0.0), ("entropy_weight", -1.0)):
        with pytest.raises(InputError, match=name):
            OVANet(**{name: value}).fit(world.labelled, world.labels, world.wild)
