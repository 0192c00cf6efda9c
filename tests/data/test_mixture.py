"""The wild mixture: composition, hidden labels, and what it refuses."""

import numpy as np
import pytest
import torch

from wildspec.data import ImageArrays, JoinedImages, MixtureSampler, WildMixture, WildPool
from wildspec.errors import InputError


def part(n: int, value: int) -> ImageArrays:
    """n images filled with ``value``, labelled with classes named after it."""
    images = torch.full((n, 3, 2, 2), value, dtype=torch.uint8)
    return ImageArrays(images, torch.arange(n) % 2, (f"{value}a", f"{value}b"), [f"{value}-{i}" for i in range(n)])


def test_pool_is_the_three_parts_with_labels_hidden() -> None:
    mixture = WildMixture(part(4, 0), part(3, 1), part(2, 2))
    assert mixture.sizes == (4, 3, 2)
    assert len(mixture) == len(mixture.pool) == 9
    assert mixture.component.dtype == np.int8
    shown = mixture.pool.gather(torch.arange(9))[:, 0, 0, 0]
    assert shown.tolist() == mixture.component.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert mixture.pool.labels.tolist() == [-1] * 9
    assert mixture.pool.classes == ()


@pytest.mark.parametrize(
    ("pi_c", "pi_s", "batch", "counts"),
    [(0.5, 0.1, 128, (51, 64, 13)), (0.5, 0.5, 64, (0, 32, 32)), (0, 0, 7, (7, 0, 0)), (0.7, 0.3, 10, (0, 7, 3))],
)
def test_counts(pi_c: float, pi_s: float, batch: int, counts: tuple[int, int, int]) -> None:
    mixture = WildMixture(part(9, 0), part(9, 1), part(9, 2), pi_c, pi_s)
    assert mixture.counts(batch) == counts


def test_a_component_of_share_zero_may_be_missing() -> None:
    mixture = WildMixture(None, part(3, 1), part(3, 2), pi_c=0.5, pi_s=0.5)
    assert mixture.sizes == (0, 3, 3)
    assert mixture.component.tolist() == [1, 1, 1, 2, 2, 2]
    left_out = WildMixture(part(3, 0), part(3, 1), part(3, 2), pi_c=0.5, pi_s=0.0)
    assert left_out.component.tolist() == [0, 0, 0, 1, 1, 1]
    assert MixtureSampler(mixture, 4, seed=0).counts == (0, 2, 2)


def test_parts_that_are_not_in_memory_are_joined_lazily() -> None:
    lazy = WildMixture(JoinedImages(part(4, 0)), part(3, 1), part(2, 2))
    assert isinstance(lazy.pool, JoinedImages)
    assert lazy.pool.gather([8, 0, 4])[:, 0, 0, 0].tolist() == [2, 0, 1]
    assert lazy.pool.labels.tolist() == [-1] * 9


def test_typical_rows_are_all_there_can_be() -> None:
    """1 - 0.5 - 0.2 is a little more than 0.3: ten images have these shares exactly, and none may be lost to rounding."""
    mixture = WildMixture(part(3, 0), part(5, 1), part(2, 2), pi_c=0.5, pi_s=0.2)
    assert mixture.typical().tolist() == list(range(10))


def test_weights_and_typical_rows_follow_the_shares_not_the_sizes() -> None:
    mixture = WildMixture(part(40, 0), part(30, 1), part(500, 2), pi_c=0.5, pi_s=0.1)
    weights, component = mixture.weights(), mixture.component
    assert np.allclose([weights[component == c].sum() for c in range(3)], [0.4, 0.5, 0.1])
    rows = mixture.typical(seed=1)  # 30 covariate images are half of it: 60 in all
    assert np.bincount(component[rows]).tolist() == [24, 30, 6]
    assert len(np.unique(rows)) == 60
    assert not np.array_equal(rows, mixture.typical(seed=2))
    without = WildMixture(None, part(3, 1), part(9, 2), pi_c=0.5, pi_s=0.5)
    assert np.allclose(without.weights(), [1 / 6] * 3 + [1 / 18] * 9)
    assert np.bincount(without.component[without.typical()]).tolist() == [0, 3, 3]
    plain = WildPool(part(5, 7))
    assert np.allclose(plain.weights(), 0.2)
    assert plain.typical().tolist() == [0, 1, 2, 3, 4]


def test_plain_pool() -> None:
    pool = WildPool(part(5, 7))
    assert pool.counts(3) == (3,)
    assert pool.component.tolist() == [-1] * 5
    assert pool.pool.labels.tolist() == [-1] * 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: WildMixture(part(2, 0), part(2, 1), part(2, 2), pi_c=1.2), r"pi_c must lie in \[0, 1\], got 1.2"),
        (lambda: WildMixture(part(2, 0), part(2, 1), part(2, 2), pi_s=-0.1), r"pi_s must lie in \[0, 1\]"),
        (lambda: WildMixture(part(2, 0), part(2, 1), part(2, 2), pi_c=0.7, pi_s=0.6), "0.7 [+] 0.6 = 1.3"),
        (lambda: WildMixture(part(2, 0), None, part(2, 2)), "covariate component .* share 0.5 but no images"),
        (lambda: WildMixture(part(0, 0), part(2, 1), part(2, 2)), "in-distribution component .* no images"),
        (lambda: WildPool(part(0, 0)), "wild pool is empty"),
        (lambda: WildMixture(part(2, 0), part(2, 1), part(2, 2)).counts(0), "batch must be at least 1"),
    ],
)
def test_bad_input_is_named(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]
