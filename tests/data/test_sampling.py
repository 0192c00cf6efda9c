"""Samplers: every image its turn, nothing twice, any step at once, many processes as one."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wildspec.data import EpochSampler, ImageArrays, MixtureSampler, WildMixture, WildPool
from wildspec.errors import InputError, InputTypeError


def images(n: int) -> ImageArrays:
    return ImageArrays(torch.zeros(n, 3, 1, 1, dtype=torch.uint8))


MIXTURE = WildMixture(images(41), images(37), images(11))


@pytest.mark.parametrize(("n", "batch", "world"), [(60, 10, 1), (60, 10, 2), (61, 10, 1), (10, 10, 1), (7, 1, 7)])
def test_an_epoch_shows_every_image_once(n: int, batch: int, world: int) -> None:
    samplers = [EpochSampler(n, batch, seed=3, rank=rank, world=world) for rank in range(world)]
    steps = samplers[0].steps_per_epoch
    assert steps == n // (batch * world)
    for epoch in range(3):
        seen = Counter(
            i for step in range(epoch * steps, (epoch + 1) * steps) for s in samplers for i in s.indices(step).tolist()
        )
        assert set(seen.values()) == {1}
        assert len(seen) == steps * batch * world
        assert set(seen) <= set(range(n))


def test_labelled_images_and_the_parts_of_the_pool_have_orders_of_their_own() -> None:
    """With one order for all, image i of the labelled set and image i of each part would meet in every epoch."""
    third = 1 / 3
    wild = MixtureSampler(WildMixture(images(40), images(40), images(40), pi_c=third, pi_s=third), 120, seed=3)
    orders = [part % 40 for part in wild.indices(0).reshape(3, 40)] + [EpochSampler(40, 40, seed=3).indices(0)]
    assert len({tuple(order.tolist()) for order in orders}) == 4
    assert all(sorted(order.tolist()) == list(range(40)) for order in orders)


def all_samplers(batch: int, rank: int, world: int) -> list[object]:
    place = {"seed": 5, "rank": rank, "world": world}
    return [
        EpochSampler(50, batch, **place),
        MixtureSampler(MIXTURE, batch, **place),
        MixtureSampler(WildPool(images(50)), batch, **place),
    ]


@pytest.mark.parametrize("world", [2, 4])
def test_processes_together_draw_what_one_process_draws(world: int) -> None:
    alone = all_samplers(8 * world, 0, 1)
    ranks = [all_samplers(8, rank, world) for rank in range(world)]
    for k, single in enumerate(alone):
        assert single.steps_per_epoch == ranks[0][k].steps_per_epoch  # type: ignore[attr-defined]
        for step in (0, 1, 7, 100, 31):
            slices = [rank[k].indices(step) for rank in ranks]  # type: ignore[attr-defined]
            assert {piece.shape for piece in slices} == {(8,)}
            joint = np.concatenate(slices)
            assert sorted(joint.tolist()) == sorted(single.indices(step).tolist())  # type: ignore[attr-defined]
            assert len(set(joint.tolist())) == 8 * world or k == 1  # only the filled-up batch repeats images


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=6))
def test_a_step_does_not_depend_on_the_steps_before(steps: list[int]) -> None:
    used = all_samplers(8, 0, 2)
    for k, sampler in enumerate(used):
        for step in steps:
            got = sampler.indices(step)  # type: ignore[attr-defined]
            fresh = all_samplers(8, 0, 2)[k].indices(step)  # type: ignore[attr-defined]
            assert got.dtype == np.int64
            assert np.array_equal(got, fresh)


def test_seed_and_epoch_matter() -> None:
    base = EpochSampler(1000, 1000, seed=0)
    orders = [base.indices(0), base.indices(1), EpochSampler(1000, 1000, seed=1).indices(0)]
    for i, one in enumerate(orders):
        for other in orders[:i]:
            assert (one == other).mean() < 0.02  # two random orders agree in one place on average


def test_every_place_is_equally_likely() -> None:
    """Chi-square over 6,000 epochs of 6 images: each image in each place 1,000 times, 25 degrees of freedom."""
    sampler = EpochSampler(6, 6, seed=11)
    table = np.zeros((6, 6))
    for epoch in range(6000):
        table[np.arange(6), sampler.indices(epoch)] += 1
    assert ((table - 1000) ** 2 / 1000).sum() < 52.6  # 99.9 % quantile


def test_mixture_batches_have_fixed_counts_and_cycle_each_component() -> None:
    sampler = MixtureSampler(MIXTURE, 20, seed=2)
    assert sampler.counts == (8, 10, 2)
    assert sampler.steps_per_epoch == 5
    seen: Counter[int] = Counter()
    for step in range(5):
        indices = sampler.indices(step)
        assert np.bincount(MIXTURE.component[indices], minlength=3).tolist() == [8, 10, 2]
        seen.update(indices.tolist())
    semantic = [count for index, count in seen.items() if MIXTURE.component[index] == 2]
    assert sorted(semantic) == [1] * 10  # five steps of 2 out of 11: one waits
    in_dist = [index for index in seen if MIXTURE.component[index] == 0]
    assert len(in_dist) == 40
    ranks = [MixtureSampler(MIXTURE, 10, seed=2, rank=rank, world=2) for rank in range(2)]
    kinds = [np.bincount(MIXTURE.component[s.indices(0)], minlength=3).tolist() for s in ranks]
    assert kinds == [[4, 5, 1], [4, 5, 1]]  # the slices are alike in composition


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EpochSampler(0, 4, seed=0), "labelled set is empty"),
        (lambda: EpochSampler(7, 4, seed=0, world=2), "has 7 images, fewer than one batch of 4 x 2 processes"),
        (lambda: EpochSampler(7, 4, seed=-1), "seed must be at least 0"),
        (lambda: EpochSampler(7, 4, seed=0, rank=2, world=2), "rank must be at most 1"),
        (lambda: EpochSampler(7, 4, seed=0).indices(-1), "step must be at least 0"),
        (lambda: MixtureSampler(WildPool(images(50)), 128, seed=0), "pool has 50 images, fewer than one batch of 128"),
        (lambda: MixtureSampler(MIXTURE, 128, seed=0), "has 41 images but its share .* is 51"),
        (lambda: MixtureSampler(MIXTURE, 4, seed=0), "semantic component .* gets no image in a batch of 4"),
    ],
)
def test_bad_input_is_named(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]


def test_wrong_types_are_named() -> None:
    with pytest.raises(InputTypeError, match=r"batch .*whole number"):
        EpochSampler(10, 2.5, seed=0)  # type: ignore[arg-type]
