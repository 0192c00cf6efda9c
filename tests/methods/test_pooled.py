"""Group means and environments, against loops."""

import pytest
import torch

from wildspec.methods import Batch
from wildspec.methods.environments import deal, environments_of, rank_within
from wildspec.methods.pooled import group_means, masked_mean, pooled_means


def test_group_means_are_those_of_a_loop(rng) -> None:
    values = torch.tensor(rng.normal(size=23), requires_grad=True)
    groups = torch.tensor(rng.integers(0, 5, size=23))
    groups[groups == 3] = 4  # an empty group
    means, counts = group_means(values, groups, 6)
    for g in range(6):
        members = [values[i].item() for i in range(23) if groups[i] == g]
        assert counts[g].item() == len(members)
        assert means[g].item() == pytest.approx(sum(members) / len(members) if members else 0.0)
    (gradient,) = torch.autograd.grad(means[1], values)
    assert torch.equal(gradient != 0, groups == 1)


def test_masked_mean_and_pooled_means(rng) -> None:
    values = torch.tensor([1.0, 2.0, 6.0])
    assert masked_mean(values, torch.tensor([True, False, True])).item() == 3.5
    assert masked_mean(values, torch.tensor([False, False, False])).item() == 0.0
    a, b = pooled_means(values, values[:1])
    assert (a.item(), b.item()) == (3.0, 1.0)


@pytest.mark.parametrize(("n", "classes", "groups"), [(24, 3, 4), (29, 10, 4), (7, 5, 2), (3, 3, 4), (50, 100, 3)])
def test_dealt_groups_are_balanced_in_size_and_class(rng, n: int, classes: int, groups: int) -> None:
    labels = torch.tensor(rng.integers(0, classes, size=n))
    dealt = deal(labels, groups)
    sizes = torch.bincount(dealt, minlength=groups)
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1
    for c in range(classes):
        of_class = torch.bincount(dealt[labels == c], minlength=groups)
        assert of_class.max() - of_class.min() <= 1


def test_rank_within_counts_in_batch_order() -> None:
    assert rank_within(torch.tensor([2, 0, 2, 2, 1, 0]), 3).tolist() == [0, 0, 1, 2, 0, 1]


def test_environments_of_the_data_win_and_must_fit() -> None:
    batch = Batch(torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, 0, 1]), 1, 0, torch.tensor([0, 0, 2, 1]))
    assert environments_of(batch, 3).tolist() == [0, 0, 2, 1]
    with pytest.raises(ValueError, match="set num_environments to 3"):
        environments_of(batch, 2)
