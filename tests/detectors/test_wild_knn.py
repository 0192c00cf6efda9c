"""WildKNN: the bank, the scores and the left-out scores against brute force; it keeps what KNN rejects."""

import pytest
import torch
from tests.decision.test_attribution import world
from torch import Tensor

from wildspec.detectors import KNN, WildKNN, attribute, build_detector
from wildspec.errors import InputError
from wildspec.evaluation import auroc


def both(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features and labels for fit (wild rows -1, shuffled among the others), wild features in that order, their truth."""
    labelled, labels, wild, truth = world(seed)
    features, given = torch.cat([labelled, wild]), torch.cat([labels, torch.full((len(wild),), -1)])
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
    wild_order = order[order >= len(labelled)] - len(labelled)
    return features[order], given[order], wild[wild_order], truth[wild_order]


def unit(x: Tensor) -> Tensor:
    return x.double() / x.double().norm(dim=1, keepdim=True)


def kth(queries: Tensor, bank: Tensor, k: int) -> Tensor:
    return torch.cdist(unit(queries), unit(bank)).sort(dim=1).values[:, k - 1]


def test_bank_is_labelled_then_attributed_and_scores_are_distances_to_it() -> None:
    features, labels, wild, truth = both()
    found = WildKNN(k=4).fit(features=features, labels=labels)
    bank = torch.cat([features[labels >= 0], wild[truth >= 0]])
    torch.testing.assert_close(found.bank_.double(), unit(bank), atol=1e-6, rtol=0)
    queries = torch.randn(30, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(found.score(features=queries).double(), kth(queries, bank, 4), atol=1e-5, rtol=0)


def test_left_out_scores_are_those_of_a_bank_without_the_sample() -> None:
    features, labels, wild, truth = both(2)
    found = WildKNN(k=3).fit(features=features, labels=labels)
    assert found.wild_scores_ is not None
    known = features[labels >= 0]
    for i in range(len(wild)):
        others = torch.cat([known, wild[(truth >= 0) & (torch.arange(len(wild)) != i)]])
        assert found.wild_scores_[i].item() == pytest.approx(kth(wild[i : i + 1], others, 3).item(), abs=1e-5)


def test_equal_samples_do_not_hide_each_other() -> None:
    """A wild sample that occurs three times is left out once, not three times."""
    labelled, labels, wild, _ = world(3)
    wild = torch.cat([wild, wild[:1], wild[:1]])
    given = torch.cat([labels, torch.full((len(wild),), -1)])
    found = WildKNN(k=2).fit(features=torch.cat([labelled, wild]), labels=given)
    assert found.wild_scores_ is not None
    if found.attribution_ is not None and bool(found.attribution_.known[0]):
        assert found.wild_scores_[0].item() == pytest.approx(0.0, abs=1e-6)


def test_shifted_known_samples_come_nearer_and_unknown_ones_do_not() -> None:
    features, labels, _, _ = both()
    _, _, fresh, truth = world(9)
    plain, joint = KNN(k=5).fit(features=features[labels >= 0]), WildKNN(k=5).fit(features=features, labels=labels)
    before, after = plain.score(features=fresh), joint.score(features=fresh)
    assert (after[truth >= 0] < 0.7 * before[truth >= 0]).float().mean() > 0.95
    torch.testing.assert_close(after[truth < 0], before[truth < 0], rtol=0.1, atol=0.05)
    assert auroc(after[truth >= 0], after[truth < 0]) == 1.0


def test_without_wild_samples_it_is_knn() -> None:
    features, labels, _, _ = both()
    known = features[labels >= 0]
    found = WildKNN(k=5).fit(features=known, labels=labels[labels >= 0])
    assert found.wild_scores_ is None
    assert found.attribution_ is None
    torch.testing.assert_close(found.score(features=features), KNN(k=5).fit(features=known).score(features=features))


def test_k_follows_the_rule_and_travels_with_the_state() -> None:
    features, labels, _, _ = both()
    found = WildKNN().fit(features=features, labels=labels)
    assert int(found.neighbours_) == 5
    again = build_detector("wild_knn", **found.config()).load_state(found.state())
    assert torch.equal(again.score(features=features), found.score(features=features))


def test_fitting_anew_forgets() -> None:
    features, labels, _, _ = both()
    found = WildKNN(k=3).fit(features=features, labels=labels)
    found.fit(features=features[labels >= 0], labels=labels[labels >= 0])
    assert found.wild_scores_ is None
    assert len(found.bank_) == int((labels >= 0).sum())


def test_the_attribution_is_that_of_the_function() -> None:
    features, labels, wild, _ = both(4)
    found = WildKNN(k=6).fit(features=features, labels=labels)
    expected = attribute(features[labels >= 0], labels[labels >= 0], wild, k=6)
    assert found.attribution_ is not None
    assert torch.equal(found.attribution_.label, expected.label)


def test_bad_input() -> None:
    features, labels, _, _ = both()
    with pytest.raises(InputError, match="needs labelled samples"):
        WildKNN().fit(features=features, labels=torch.full_like(labels, -1))
    with pytest.raises(InputError, match="at least 200 labelled samples, got 120"):
        WildKNN(k=200).fit(features=features, labels=labels)
    with pytest.raises(InputError, match="width 8, got width 3"):
        WildKNN().fit(features=features, labels=labels).score(features=torch.zeros(2, 3))


def test_two_wild_samples_are_enough_to_compare() -> None:
    labelled, labels, _, _ = world(0)
    wild = torch.stack([labelled[0] + 0.01, -labelled.mean(dim=0)])
    found = WildKNN(k=3).fit(features=torch.cat([labelled, wild]), labels=torch.cat([labels, torch.tensor([-1, -1])]))
    assert found.attribution_ is not None
    assert found.attribution_.label.tolist() == [int(labels[0]), -1]
    assert len(found.bank_) == len(labelled) + 1
    alone = WildKNN(k=3).fit(features=torch.cat([labelled, wild[:1]]), labels=torch.cat([labels, torch.tensor([-1])]))
    assert alone.attribution_ is None
    assert len(alone.bank_) == len(labelled)
