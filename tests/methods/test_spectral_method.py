"""The learner's stages: the spectral loss alone, cross-entropy alone, or both with the weight that was asked for."""

import warnings

import numpy as np
import pytest
import torch
from tiny_methods import Linear

from wildspec.methods import Batch, build_method

CLASSES, N, M = 3, 6, 5


@pytest.fixture
def network(rng: np.random.Generator) -> Linear:
    return Linear(torch.tensor(rng.normal(size=(CLASSES, 12))))


def batch_of_views(rng: np.random.Generator, wild: bool) -> Batch:
    images = torch.tensor(rng.normal(size=(2 * N + (2 * M if wild else 0), 3, 2, 2)))
    labels = torch.tensor(rng.permutation(np.arange(N) % CLASSES))
    return Batch(images, labels, 2, 2 if wild else 0, wild_rows=torch.arange(M) if wild else None)


def cross_entropy(network: Linear, batch: Batch, views: int) -> float:
    """By hand, over the first views of the labelled samples."""
    weight = network.head.weight.detach().numpy()
    logits = batch.images[: views * N].flatten(1).numpy() @ weight.T
    labels = np.tile(batch.labels.numpy(), views)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]))


def test_beside_cross_entropy_the_spectral_loss_has_its_weight(rng: np.random.Generator, network: Linear) -> None:
    batch = batch_of_views(rng, wild=True)
    plain = build_method("spectral", CLASSES)
    pretrain, finetune = plain.stages("fast")
    together = finetune.scaled(batch_wild=M, wild_views=2, labelled_views=2)
    spectral = plain.loss(network, batch, pretrain)[0].item()
    supervised = cross_entropy(network, batch, views=2)
    assert abs(spectral) > 1e-3
    for weight in (0.3, 2.0):
        total, terms = build_method("spectral", CLASSES, joint=weight).loss(network, batch, together)
        assert total.item() == pytest.approx(supervised + weight * spectral, rel=1e-5)
        assert terms["ce"].item() == pytest.approx(supervised, rel=1e-5)


def test_without_a_weight_or_without_wild_views_fine_tuning_is_cross_entropy(
    rng: np.random.Generator, network: Linear
) -> None:
    for joint, wild in ((0.0, True), (0.0, False), (0.7, False)):
        batch = batch_of_views(rng, wild)
        method = build_method("spectral", CLASSES, joint=joint)
        stage = method.stages("fast")[1].scaled(batch_wild=M if wild else 0, wild_views=2 if wild else 0)
        total, terms = method.loss(network, batch, stage)
        assert total.item() == pytest.approx(cross_entropy(network, batch, views=1), rel=1e-5)
        assert terms == {}


def test_fast_nscl_keeps_the_published_rate_and_batch() -> None:
    """At the rate of fast `spectral`, 0.12, its embeddings shrink to nothing; as many views are made at 0.03."""
    (published, _), (mine, tune) = (build_method("nscl", 3).stages(preset) for preset in ("paper", "fast"))
    other, same = build_method("spectral", 3).stages("fast")
    assert (mine.lr, mine.batch_labelled, mine.batch_wild) == (0.03, 128, 128)
    assert (published.lr, published.batch_labelled, published.batch_wild) == (0.03, 128, 128)
    assert mine == other.scaled(lr=0.03, batch_labelled=128, batch_wild=128, warmup=5)
    assert published.warmup == 0
    steps = 25_600  # labelled images: both batches divide them
    views = [stage.epochs * steps / stage.batch_labelled * stage.views_per_step for stage in (mine, other)]
    assert views[0] == views[1]
    assert tune == same


def test_embeddings_that_shrink_to_nothing_are_warned_of_once_a_stage() -> None:
    method = build_method("spectral", 3, mu=2.0)
    pretrain, finetune = method.stages("fast")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step, l2 in ((199, 0.001), (200, 0.11), (5000, 1.9)):  # a start, and two that are not small: mu is 2
            method.look_at(pretrain, step, {"loss": -0.1, "l2": l2})
        method.look_at(finetune, 500, {"loss": 0.2})
    with pytest.warns(UserWarning, match=r"^pretrain: at step 1,200 .*l2 = 0\.09.*15 epochs.*0\.12"):
        method.look_at(pretrain, 1200, {"loss": -0.1, "l2": 0.09})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.look_at(pretrain, 1250, {"loss": -0.1, "l2": 0.01})
    with pytest.warns(UserWarning, match="^pseudo_label: at step 300 "):
        method.look_at(pretrain.scaled(name="pseudo_label"), 300, {"l2": 0.01})


def test_long_embeddings_are_fine_tuned_without_a_word() -> None:
    """Fine-tuning logs no l2, whatever mu is."""
    method = build_method("spectral", 3, mu=30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.look_at(method.stages("fast")[1], 500, {"loss": 0.2})
