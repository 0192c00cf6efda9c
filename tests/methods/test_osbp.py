"""OSBP and OVANet: which way each part is pulled, and by how much."""

import math
from types import SimpleNamespace

import pytest
import torch
from tiny_methods import batch_of
from torch import nn

from wildspec.losses.open_set import unknown_losses
from wildspec.methods import build_method
from wildspec.models import build_model


def network(method):
    torch.manual_seed(0)
    model = build_model("small", 3, size=8).double()
    method.adapt(model)
    return model


def batch(labels=(0, 1, 2, 2)):
    images = torch.randn(8, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return batch_of(torch.tensor(labels), wild=4, images=images)


def test_the_classifier_and_the_features_pull_against_each_other():
    """Gradients of L_s alone, of L_t alone without reversal, and of the method: C gets the sum, G the difference."""
    method = build_method("osbp", 3, units=16).double()
    model = network(method).eval()  # no dropout; batch norm by running statistics
    step, given = method.stages()[0], batch()

    def gradients(total):
        parameters = dict(model.named_parameters())
        found = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
        found = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters.values(), found, strict=True)]
        return dict(zip(parameters, found, strict=True))

    def logits(images):
        features = model.features(images)
        return torch.cat([model.head(features), model.unknown(features)], 1)

    source = gradients(torch.nn.functional.cross_entropy(logits(given.images[:4]), given.labels))
    target = gradients(unknown_losses(logits(given.images[4:])).mean())
    both = gradients(method.loss(model, given, step)[0])
    for name in both:
        sign = 1 if name.startswith(("head", "unknown")) else -1
        torch.testing.assert_close(both[name], source[name] + sign * target[name], msg=name)
    assert target["backbone.convs.0.weight"].abs().max() > 0


def test_the_authors_default_trains_the_new_layers_alone():
    assert build_method("osbp", 3).stages()[0].backbone_lr == 0
    assert build_method("osbp", 3, whole=True).stages()[0].backbone_lr == 1
    model = network(build_method("osbp", 3))
    widths = [layer.out_features for layer in model.neck if isinstance(layer, nn.Linear)]
    assert widths == [1000, 1000]
    assert model.unknown.out_features == 1


def test_ovanet_keeps_its_open_heads_at_length_one_and_is_its_formula():
    method = build_method("ovanet", 3).double()
    model = network(method)
    with torch.no_grad():
        model.open_heads.weight.mul_(5)
    given = batch()
    total, terms = method.loss(model, given, method.stages()[0])
    torch.testing.assert_close(model.open_heads.weight.norm(dim=1), torch.ones(6, dtype=torch.float64))
    known, mixed = model.features(given.images[:4]), model.features(given.images[4:])
    hard = entropy = 0.0
    for row, label in zip(known, given.labels.tolist(), strict=True):
        pairs = [torch.softmax(model.open_heads(row)[[k, 3 + k]], 0) for k in range(3)]  # yes, no
        hard -= pairs[label][0].log() + min(pairs[k][1].log() for k in range(3) if k != label)
    for row in mixed:
        for k in range(3):
            p = torch.softmax(model.open_heads(row)[[k, 3 + k]], 0)
            entropy -= (p * p.log()).sum() / 12
    ce = torch.nn.functional.cross_entropy(model.head(known), given.labels)
    torch.testing.assert_close(total, ce + 0.5 * hard / 4 + 0.1 * entropy)
    assert terms["entropy"].item() <= math.log(2) + 1e-9


def test_wild_and_labelled_images_pass_as_two_batches():
    """What the wild images are does not change what batch norm makes of the labelled ones."""
    for name in ("osbp", "ovanet"):
        method = build_method(name, 3, **({"units": 8} if name == "osbp" else {})).double()
        model = network(method).train()
        for layer in model.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
        one = batch()
        other = SimpleNamespace(**vars(one))
        other.images = torch.cat([one.images[:4], 10 * one.images[4:]])
        other.labelled_images = one.labelled_images
        first, second = (method.loss(model, each, method.stages()[0])[1]["ce"] for each in (one, other))
        assert first.item() == pytest.approx(second.item(), rel=1e-12)
