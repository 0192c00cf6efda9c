"""Strengths measured on samples: planted kernels give their constants back, slow loops agree, cell size does not count."""

import itertools

import numpy as np
import pytest

from wildspec.errors import InputError
from wildspec.graph.neighbors import neighbor_graph
from wildspec.theory import cell_strengths, domain_class_graph, measure_strengths


def planted(sizes, alpha, beta, gamma):
    """A kernel that is constant between cells: classes x domains as in ``sizes``."""
    cells = [(c, d) for c, row in enumerate(sizes) for d, count in enumerate(row) for _ in range(count)]
    kind, place = np.array(cells).T
    same_class, same_domain = kind[:, None] == kind, place[:, None] == place
    kernel = np.where(same_class, np.where(same_domain, 1.0, alpha), np.where(same_domain, beta, gamma))
    np.fill_diagonal(kernel, 5.0)  # a sample's tie to itself must not count
    return kernel, kind, place


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_a_planted_kernel_gives_its_constants_back(scale):
    kernel, kind, place = planted([[3, 7], [5, 4], [0, 6]], 0.3, 0.2, 0.05)
    found = cell_strengths(scale * kernel, kind, place)
    assert (found.alpha, found.beta, found.gamma) == pytest.approx((0.3, 0.2, 0.05))
    np.testing.assert_allclose(found.across, [[0, 0.3], [0.3, 0]])
    np.testing.assert_allclose(found.within, 0.2 * (1 - np.eye(3)))
    assert found.counts.tolist() == [[3, 7], [5, 4], [0, 6]]


def test_neither_size_nor_density_counts():
    kernel, kind, place = planted([[3, 7], [5, 4]], 0.3, 0.2, 0.05)
    density = np.where(place == 0, 1.0, 4.0)
    found = cell_strengths(kernel * density[:, None] * density, kind, place)
    assert (found.alpha, found.beta, found.gamma) == pytest.approx((0.3, 0.2, 0.05))


def test_real_points_by_slow_loops(rng):
    kind, place = np.repeat([0, 1, 0, 1], 15), np.repeat([0, 0, 1, 1], 15)
    rows = np.eye(4)[kind] * 2 + np.eye(4)[2 + place] * 1.5 + 0.6 * rng.normal(size=(60, 4))
    found = measure_strengths(rows, np.array(["cat", "dog"])[kind], place, n_neighbors=12, metric="euclidean")
    kernel = neighbor_graph(rows, 12, metric="euclidean").kernel.toarray()
    cells = list(itertools.product(range(2), range(2)))

    def mean(a, b):
        return np.mean([
            kernel[i, j] for i in range(60) for j in range(60)
            if i != j and (kind[i], place[i]) == a and (kind[j], place[j]) == b
        ])  # fmt: skip

    ties = {(a, b): mean(a, b) / np.sqrt(mean(a, a) * mean(b, b)) for a in cells for b in cells if a != b}

    def average(same_class, same_domain):
        return np.mean([t for (a, b), t in ties.items() if ((a[0] == b[0]), (a[1] == b[1])) == (same_class, same_domain)])

    assert found.alpha == pytest.approx(average(True, False))
    assert found.beta == pytest.approx(average(False, True))
    assert found.gamma == pytest.approx(average(False, False))
    assert found.alpha > found.gamma
    assert found.classes == ["cat", "dog"]


def test_the_measured_world_is_the_theorys():
    kernel, kind, place = planted([[4, 4], [4, 4], [0, 4]], 0.06, 0.03, 0.001)
    found = cell_strengths(kernel, kind, place).world("0", unknown=["2"])
    weights = [[4, 4], [4, 4], [0, 4]]
    same = domain_class_graph(
        ["0", "1", "2"], ["0", "1"], "0", unknown=["2"], weights=weights, alpha=0.06, beta=0.03, gamma=0.001
    )
    np.testing.assert_allclose(found.eigenvalues, same.eigenvalues)
    assert (found.winner, found.ood_accuracy) == (same.winner, same.ood_accuracy) == ("class", 1.0)


@pytest.mark.parametrize("alpha", [1.0, 1.05])
def test_domains_that_do_not_differ_have_a_world_too(alpha):
    """By noise their tie can be as strong as a domain's tie to itself, or stronger; then nothing is shifted."""
    kernel, kind, place = planted([[4, 4], [4, 4], [0, 4]], alpha, 0.03, 0.03)
    found = cell_strengths(kernel, kind, place)
    assert found.alpha == pytest.approx(alpha)  # told as measured
    world = found.world("0", unknown=["2"])
    assert (world.winner, world.ood_accuracy) == ("class", 1.0)
    same = domain_class_graph(
        ["0", "1", "2"], ["0", "1"], "0", unknown=["2"], weights=found.counts, alpha=1 - 1e-7, beta=0.03, gamma=0.03
    )
    np.testing.assert_allclose(world.eigenvalues, same.eigenvalues, atol=1e-6)


def test_classes_that_do_not_differ_have_a_world_too(rng):
    rows = rng.normal(size=(120, 3))
    kind, place = rng.integers(0, 2, 120), rng.integers(0, 2, 120)
    found = measure_strengths(rows, kind, place, n_neighbors=20, metric="euclidean")
    planted_ones = (cell_strengths(*planted([[5, 5], [5, 5]], 0.5, *ties)) for ties in ((1.02, 0.5), (0.5, 1.02)))
    for strong in (found, *planted_ones):
        world = strong.world("0")
        assert np.isfinite(world.eigenvalues).all()


def test_wrong_input_is_one_clear_line():
    kernel, kind, place = planted([[3, 3]], 0.1, 0.1, 0.1)
    with pytest.raises(InputError, match="classes and domains, got 5 and 6"):
        cell_strengths(kernel, kind[:5], place)
    with pytest.raises(InputError, match=r"a kernel of shape \(6,\) needs"):
        cell_strengths(np.ones(6), kind, place)
    with pytest.raises(InputError, match="no two samples tied"):
        cell_strengths(np.eye(6), kind, place)
