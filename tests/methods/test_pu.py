"""Positive-unlabelled energy: the loss against a slow formula, its start, and what its optimum ranks by."""

import numpy as np
import pytest
import torch
from tiny_methods import Given, batch_of, context_of, last_stage

from wildspec.data.augment import Augmentation
from wildspec.methods import Context, build_method


def test_loss_is_the_formula_and_starts_late(rng: np.random.Generator) -> None:
    z, y = rng.normal(size=(11, 3)), rng.integers(0, 3, size=6)
    method = build_method("pu", 3, weight=0.7, start=0.25).double()
    stage, network = last_stage(method), Given(torch.tensor(z))
    batch = batch_of(torch.tensor(y), wild=5)
    context = context_of(network, stage, [])
    method.start_stage(Context(context.model, stage, context.labelled, 8))
    lse = np.log(np.exp(z).sum(1))
    ce = np.mean(lse[:6] - z[np.arange(6), y])
    h = -1.0 * lse + 2.0
    bracket = np.mean(np.log1p(np.exp(h[:6]))) + np.mean(np.log1p(np.exp(-h[6:])))
    for step, expected in ((0, ce), (1, ce), (2, ce + 0.7 * bracket), (7, ce + 0.7 * bracket)):
        method.before_step(stage, step)
        total, terms = method.loss(network, batch, stage)
        assert total.item() == pytest.approx(expected), step
        assert terms["pu"].item() == pytest.approx(bracket)
    total.backward()
    assert (network.logits.grad[6:] > 0).all(), "a step downhill lowers the logits of wild samples: their energy rises"


def test_the_bracket_is_least_at_the_log_ratio_and_ranks_by_the_share_of_unknown(rng: np.random.Generator) -> None:
    """Two kinds of places: p_labelled = (0.8, 0.2), the pool holds 30 % unknown samples, all at the second place."""
    labelled = np.array([0.8, 0.2])
    wild = 0.7 * labelled + 0.3 * np.array([0.0, 1.0])

    def bracket(h: np.ndarray) -> float:
        return float(labelled @ np.log1p(np.exp(h)) + wild @ np.log1p(np.exp(-h)))

    best = np.log(wild / labelled)
    assert best[1] > best[0], "where unknown samples are"
    for _ in range(50):
        assert bracket(best + rng.normal(size=2) * 0.3) >= bracket(best)


def test_its_views_hide_conditions_and_hold_wild_images() -> None:
    for preset in ("fast", "paper"):
        (stage,) = build_method("pu", 3).stages(preset)
        assert (stage.batch_wild, stage.wild_views) == (stage.batch_labelled, 1)
        assert stage.augmentation == Augmentation.field()
        assert stage.augmentation.noise > 0
