"""Attribution: who belongs to which class in a world made by hand."""

import warnings
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import Tensor

from wildspec.decision.attribution import Attribution, attribute, neighbours, own_groups
from wildspec.decision.cut import explained, otsu_cut
from wildspec.errors import InputError


def world(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three classes on three axes, labelled 40 each; wild: the same classes leaning to a fourth axis, and unknown ones on a
    fifth. Returns labelled, labels, wild, truth (class or -1)."""
    rng = np.random.default_rng(seed)
    axes = np.eye(8)

    def around(centre: np.ndarray, n: int) -> np.ndarray:
        return rng.uniform(1, 4, (n, 1)) * (centre + 0.05 * rng.normal(size=(n, 8)))  # lengths vary: they must not matter

    labelled = np.concatenate([around(axes[c], 40) for c in range(3)])
    shifted = np.concatenate([around(axes[c] + 0.4 * axes[3], 20) for c in range(3)])
    wild = np.concatenate([shifted, around(axes[4], 15)])
    truth = np.r_[np.repeat(np.arange(3), 20), np.full(15, -1)]
    order = rng.permutation(len(wild))
    labels = torch.arange(3).repeat_interleave(40)
    return (
        torch.from_numpy(labelled).float(), labels, torch.from_numpy(wild[order]).float(), torch.from_numpy(truth[order])
    )


def test_shifted_samples_go_to_their_class_and_unknown_ones_to_none() -> None:
    labelled, labels, wild, truth = world()
    found = attribute(labelled, labels, wild)
    assert torch.equal(found.label, truth)
    assert torch.equal(found.known, truth >= 0)


def test_distances_and_votes_are_those_of_a_slow_loop() -> None:
    labelled, labels, wild, _ = world(1)
    found = attribute(labelled, labels, wild, k=7, rounds=1)
    bank = labelled.double() / labelled.double().norm(dim=1, keepdim=True)
    for i in range(len(wild)):
        away = (bank - wild[i].double() / wild[i].double().norm()).norm(dim=1)
        order = away.argsort()[:7]
        assert found.distance[i].item() == pytest.approx(away[order[-1]].item(), abs=1e-6)
        assert found.nearest[i] == labels[order].mode().values
        assert (found.label[i] >= 0) == (found.distance[i] <= found.cut)
        assert found.share[i].item() == pytest.approx((labels[order] == found.nearest[i]).double().mean().item())
    assert found.cut == pytest.approx(otsu_cut(found.distance))


def chains(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two classes whose wild samples lean away from the labelled ones by up to 60 degrees, ever fewer the farther, each to
    its own side, and an unknown group. Half of them lean by more than 15 degrees."""
    rng = np.random.default_rng(seed)
    axes = np.eye(6)
    degrees = 60 * np.linspace(0, 1, 60) ** 2

    def lean(start: int, end: int, angles: np.ndarray) -> np.ndarray:
        turned = np.radians(angles)[:, None]
        return np.cos(turned) * axes[start] + np.sin(turned) * axes[end] + 0.03 * rng.normal(size=(len(angles), 6))

    labelled = np.concatenate([lean(0, 1, np.zeros(25)), lean(2, 3, np.zeros(25))])
    wild = np.concatenate([lean(0, 1, degrees), lean(2, 3, degrees), lean(4, 5, np.zeros(40))])
    truth = np.r_[np.repeat([0, 1], 60), np.full(40, -1)]
    order = rng.permutation(len(wild))
    return (torch.from_numpy(labelled), torch.arange(2).repeat_interleave(25), torch.from_numpy(wild[order]),
            torch.from_numpy(truth[order]))  # fmt: skip


def test_the_far_end_of_a_shift_is_reached_through_the_near_one() -> None:
    labelled, labels, wild, truth = chains()
    once, all_rounds = (attribute(labelled, labels, wild, **how) for how in ({"rounds": 1}, {}))
    assert once.rounds == 1
    assert all_rounds.rounds > 2
    assert int((once.known & (truth >= 0)).sum()) < 110, "of 120"
    assert torch.equal(all_rounds.label, truth)


def test_growing_is_that_of_a_slow_loop() -> None:
    """Sets of samples, all distances taken anew in every round, in double precision."""
    for seed, k, agreement in ((0, 5, 0.0), (1, 3, 0.9), (2, 7, 0.6)):
        labelled, labels, wild, _ = chains(seed)
        rows = torch.cat([labelled, wild])
        rows = rows / rows.norm(dim=1, keepdim=True)
        known = dict(enumerate(labels.tolist()))  # row -> class
        while True:
            distance, vote = [], []
            for i in range(len(labelled), len(rows)):
                others = sorted((float((rows[j] - rows[i]).norm()), known[j]) for j in known if j != i)[:k]
                distance.append(others[-1][0])
                counts = [sum(c == name for _, c in others) for name in (0, 1)]
                vote.append((counts[1] > counts[0], max(counts) / k))
            cut = otsu_cut(distance)
            new = {
                i + len(labelled): int(vote[i][0])
                for i in range(len(wild))
                if i + len(labelled) not in known and distance[i] <= cut and vote[i][1] >= agreement
            }
            low, high = ([d for d in distance if (d > cut) == side] for side in (False, True))
            deviation = sum((d - sum(side) / len(side)) ** 2 for side in (low, high) for d in side)
            two = 1 - deviation / sum((d - sum(distance) / len(distance)) ** 2 for d in distance) > 0.75
            if not new or not two:
                break
            known |= new
        found = attribute(labelled, labels, wild, k=k, agreement=agreement)
        expected = [known.get(i, -1) for i in range(len(labelled), len(rows))]
        assert found.label.tolist() == expected
        assert found.cut == pytest.approx(cut, abs=1e-6)
        np.testing.assert_allclose(found.distance, distance, atol=1e-6)


def test_unknown_samples_are_a_group_of_their_own_and_stray_known_ones_are_not() -> None:
    labelled, labels, wild, truth = chains()
    strays = -torch.eye(6, dtype=torch.float64)[[0, 2, 5]]  # far from everybody, and from each other
    pool = torch.cat([wild, strays])
    k = 5
    found = attribute(labelled, labels, pool, k=k)
    assert not bool(found.known[-3:].any())
    apart = own_groups(pool, found, k)
    assert torch.equal(apart, torch.cat([truth < 0, torch.zeros(3, dtype=torch.bool)]))
    rows = pool / pool.norm(dim=1, keepdim=True)
    alone = [i for i in range(len(pool)) if found.label[i] < 0]
    for i in alone:  # by a slow loop
        away = sorted(float((rows[i] - rows[j]).norm()) for j in alone if j != i)[k - 1]
        assert bool(apart[i]) == (2 * away < float(found.distance[i]))
    assert not bool(own_groups(pool, found, len(alone)).any()), "fewer than k others are no group"


@pytest.mark.parametrize(("spacing", "apart"), [(0.04, True), (0.049, True), (0.051, False), (0.09, False)])
def test_company_must_be_twice_as_near_as_the_known(spacing: float, apart: bool) -> None:
    """Three samples on an arc, so far from each other; the known are 0.1 away from each. A fourth has a class."""
    angle = 2 * np.arcsin(spacing / 2) * np.arange(4)
    wild = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    label, far = torch.tensor([-1, -1, -1, 0]), torch.full((4,), 0.1, dtype=torch.float64)
    found = Attribution(label, torch.zeros(4, dtype=torch.int64), far, 0.05, torch.ones(4), 1)
    assert own_groups(wild, found, 1).tolist() == [apart, apart, apart, False]


def test_without_two_groups_the_first_round_is_the_last() -> None:
    """Wild samples on an arc, normally distributed around a distance of 0.6 to the labelled ones: no gap would stop the
    growth. Otsu's cut of a normal distribution explains 2 / pi of its variance."""
    rng = np.random.default_rng(0)
    angle = 2 * np.arcsin((0.6 + 0.15 * rng.normal(size=2000)) / 2)
    wild = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    labelled = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(10, 1)
    found = attribute(labelled, torch.zeros(10, dtype=torch.int64), wild, k=3)
    assert found.rounds == 1
    assert explained(found.distance, found.cut) == pytest.approx(2 / np.pi, abs=0.03)
    assert torch.equal(found.known, found.distance <= found.cut)


def spread(count: int, lean: float, scatter: float, seed: int) -> Tensor:
    """Samples around a direction that is turned by ``lean`` from that of the labelled ones, ten numbers each."""
    rng = np.random.default_rng(seed)
    centre = np.cos(lean) * np.eye(10)[0] + np.sin(lean) * np.eye(10)[1]
    return torch.from_numpy(centre + scatter * rng.normal(size=(count, 10)))


def test_a_pool_that_is_unknown_from_end_to_end_is_attributed_to_nobody() -> None:
    """One group far from everything labelled: Otsu's cut would call its nearer half known."""
    labelled, labels = spread(60, 0.0, 0.1, 0), torch.zeros(60, dtype=torch.int64)
    unknown = spread(200, 1.2, 0.1, 1)
    with pytest.warns(UserWarning, match="0% of its 200 samples"):
        found = attribute(labelled, labels, unknown, k=3)
    assert found.rounds == 1
    assert not found.known.any()
    assert 0.2 < float((found.distance <= found.cut).double().mean()) < 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_known = attribute(labelled, labels, torch.cat([unknown, spread(40, 0.0, 0.1, 2)]), k=3)
    assert with_known.known.tolist() == [False] * 200 + [True] * 40


@pytest.mark.parametrize("lean", [0.0, 0.4, 0.45])
def test_in_one_group_known_are_those_as_near_as_labelled_samples_are_to_each_other(lean: float) -> None:
    """By a slow loop. Drawn like the labelled ones, all of the near side is; the farther the pool leans, the fewer are."""
    labelled, wild = spread(80, 0.0, 0.1, 0), spread(300, lean, 0.1, 1)
    found = attribute(labelled, torch.zeros(80, dtype=torch.int64), wild, k=4)
    unit = labelled / labelled.norm(dim=1, keepdim=True)
    own = [sorted(float((unit[i] - unit[j]).norm()) for j in range(80) if j != i)[3] for i in range(80)]
    limit = np.quantile(own, 0.99)
    assert found.known.tolist() == [d <= min(limit, found.cut) for d in found.distance.tolist()]
    assert (limit < found.cut) == (lean > 0.2)
    assert 0.05 < float(found.known.double().mean()) < 0.8


def test_how_many_are_near_is_weighed() -> None:
    """A tenth of the pool lies near; where each of the others is met three times it is less than a twentieth."""
    labelled, labels = spread(60, 0.0, 0.1, 0), torch.zeros(60, dtype=torch.int64)
    lean = np.linspace(0.0, 1.2, 100) ** 0.3
    rows = torch.cat([spread(1, angle, 0.1, seed) for seed, angle in enumerate(lean)])
    found = attribute(labelled, labels, rows, k=3)
    near = found.known
    assert found.rounds == 1
    assert 5 <= int(near.sum()) <= 12
    weights = torch.where(near, 1, 3)
    with pytest.warns(UserWarning, match=r"the wild pool"):
        assert not attribute(labelled, labels, rows, k=3, weights=weights).known.any()


@pytest.mark.parametrize("labelled", [spread(3, 0.0, 0.1, 0), spread(1, 0.0, 0.1, 0).repeat(30, 1)])
def test_labelled_samples_that_do_not_say_how_far_apart_they_are_set_no_limit(labelled: Tensor) -> None:
    """k or fewer of them, or copies of one."""
    wild = spread(200, 1.2, 0.1, 1)
    found = attribute(labelled, torch.zeros(len(labelled), dtype=torch.int64), wild, k=3)
    assert torch.equal(found.known, found.distance <= found.cut)


def on_an_arc(angle: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """One labelled sample, its class, and wild ones turned away from it by angles."""
    wild = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.zeros(1, dtype=torch.int64), wild


def chord(angle: np.ndarray) -> np.ndarray:
    return 2 * np.sin(np.abs(angle) / 2)


def test_a_pool_of_one_group_seldom_goes_on() -> None:
    """Distances to the labelled sample are uniform: one group. Of 200 such pools at most 5 % may pass for two, 22 with
    99.9 % (binomial); the share of the variance that half of them exceed, 3/4, would let 100 pass."""
    rng = np.random.default_rng(0)
    more = 0
    for _ in range(200):
        angle = 2 * np.arcsin(rng.uniform(0.2, 1.2, 100) / 2)
        more += attribute(*on_an_arc(angle), k=1).rounds > 1
    assert more <= 22


def test_a_cut_that_explains_a_little_less_than_that_of_a_uniform_pool_is_none() -> None:
    angle = 0.6 + 0.2 * np.array([NormalDist().inv_cdf(q) for q in np.linspace(0.1, 0.9, 60)])
    distance = chord(angle)
    assert 0.68 < explained(distance, otsu_cut(distance)) < 0.745
    found = attribute(*on_an_arc(angle), k=1)
    assert found.rounds == 1
    assert torch.equal(found.known, torch.from_numpy(distance <= otsu_cut(distance)))


@pytest.mark.parametrize("seed", [13, 22, 28, 82])
def test_a_later_round_without_two_groups_adds_nobody(seed: int) -> None:
    """By a slow loop, on pools where the round that finds one group only would have had somebody to add."""
    rng = np.random.default_rng(seed)
    near, far = rng.integers(3, 12), rng.integers(3, 12)
    angle = np.r_[rng.uniform(0, 0.3, near), rng.uniform(0.8, 3, far)]
    limit = 0.75 + NormalDist().inv_cdf(0.95) * np.sqrt(3 / (40 * len(angle)))
    known: list[int] = []
    rounds = 0
    while True:
        rounds += 1
        distance = [min(chord(angle[i] - np.array([0.0, *(angle[j] for j in known if j != i)]))) for i in range(len(angle))]
        cut = otsu_cut(distance)
        new = [i for i in range(len(angle)) if i not in known and distance[i] <= cut]
        if explained(distance, cut) <= limit:
            break
        known += new
    assert new, "or the test would tell nothing"
    assert rounds > 1
    found = attribute(*on_an_arc(angle), k=1)
    assert found.rounds == rounds
    assert found.known.nonzero().ravel().tolist() == sorted(known)


def test_weights_move_the_cut_and_say_whether_there_are_two_groups() -> None:
    """Two heaps of distances with a few between them. The labelled distances do not depend on copies, so the first round is
    that of a pool with so many copies."""
    angle = np.r_[np.linspace(0.1, 0.5, 12), 0.6, 0.7, 0.8, np.linspace(0.9, 1.3, 12)]
    plain = otsu_cut(chord(angle))
    assert attribute(*on_an_arc(angle), k=1).rounds > 1
    middle = np.where((angle > 0.55) & (angle < 0.85), 9, 1)  # fills the gap: no longer two groups
    copies = np.repeat(chord(angle), middle)
    assert explained(copies, otsu_cut(copies)) < 0.75
    found = attribute(*on_an_arc(angle), k=1, weights=middle)
    assert found.rounds == 1
    assert found.known.tolist() == (chord(angle) <= otsu_cut(copies)).tolist()
    near = np.where(angle < 0.3, 40, 1)  # moves the cut
    cut = otsu_cut(np.repeat(chord(angle), near))
    assert ((chord(angle) > min(cut, plain)) & (chord(angle) <= max(cut, plain))).any()
    assert attribute(*on_an_arc(angle), k=1, weights=near, rounds=1).cut == pytest.approx(cut)


def test_a_share_that_is_just_the_agreement_is_enough() -> None:
    """7 of 10 is less than 0.7 in single precision."""
    noise = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
    labelled = torch.tensor([[1.0, 0.0, 0.0]]).repeat(10, 1) + 0.01 * noise
    wild = torch.tensor([[1.0, 0.02, 0.0], [1.0, 0.0, 0.02], [0.0, 1.0, 0.0], [0.0, 1.0, 0.1]])
    labels = torch.tensor([0] * 7 + [1] * 3)
    assert attribute(labelled, labels, wild, k=10, agreement=0.7).label.tolist() == [0, 0, -1, -1]
    assert attribute(labelled, labels, wild, k=10, agreement=0.71).label.tolist() == [-1] * 4


def test_rounds_are_at_least_one() -> None:
    labelled, labels, wild, _ = world()
    with pytest.raises(InputError, match="rounds must be"):
        attribute(labelled, labels, wild, rounds=0)


def test_neighbours_must_agree_where_asked_to() -> None:
    labelled, labels, wild, _ = world(1)
    mixed = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]  # neighbours disagree
    loose, strict = (attribute(labelled, mixed, wild, k=7, agreement=share, rounds=1) for share in (0.0, 5 / 7))
    assert torch.equal(strict.label, torch.where(loose.share >= 5 / 7 - 1e-6, loose.label, -1))
    assert 0 < int(strict.known.sum()) < int(loose.known.sum())
    with pytest.raises(InputError, match="agreement must lie in"):
        attribute(labelled, labels, wild, agreement=2.0)


def test_weights_move_the_cut_as_copies_would() -> None:
    labelled, labels, wild, truth = world()
    weights = torch.where(truth < 0, 1, 3)
    copied = attribute(labelled, labels, wild.repeat_interleave(weights, dim=0), rounds=1)  # copies would be neighbours
    assert attribute(labelled, labels, wild, weights=weights, rounds=1).cut == pytest.approx(copied.cut)


def test_order_of_wild_samples_does_not_matter() -> None:
    labelled, labels, wild, _ = world()
    turned = attribute(labelled, labels, wild.flip(0))
    assert torch.equal(turned.label.flip(0), attribute(labelled, labels, wild).label)


@pytest.mark.parametrize(("bank", "k"), [(3, 3), (231, 5), (2500, 5), (25_000, 50), (50_000, 100), (2_900, 6)])
def test_neighbours_follow_the_rule(bank: int, k: int) -> None:
    assert neighbours(bank) == k


def test_bad_input() -> None:
    labelled, labels, wild, _ = world()
    with pytest.raises(InputError, match="one class per labelled sample"):
        attribute(labelled, labels[:-1], wild)
    with pytest.raises(InputError, match="one class per labelled sample"):
        attribute(labelled, labels - 1, wild)
    with pytest.raises(InputError, match="at least 2"):
        attribute(labelled, labels, wild[:1])
    with pytest.raises(InputError, match="k must be at most 120"):
        attribute(labelled, labels, wild, k=121)
