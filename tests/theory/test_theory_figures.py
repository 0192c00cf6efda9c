"""What the figures draw as exact is exact: sides are asked of the five-node problem itself, on both sides of a line."""

import numpy as np
import pytest
from matplotlib.contour import QuadContourSet

from wildspec.theory import critical_beta, five_node, paper_axis
from wildspec.theory.figures import eigenvalue_figure, surface_figure

CELLS = 40
STEP = float(np.diff(paper_axis(CELLS))[0])


def boundary(figure):
    """(n, 2) points of the line called exact, and what the legend calls it."""
    flat = figure.axes[1]
    name = [text.get_text() for text in flat.get_legend().get_texts() if "exact" in text.get_text()]
    lines = [line.get_xydata() for line in flat.lines if "exact" in str(line.get_label()) and len(line.get_xdata())]
    for drawn in flat.collections:
        if isinstance(drawn, QuadContourSet) and list(drawn.levels) == [0.5]:
            lines += [path.vertices for path in drawn.get_paths()]
    points = np.concatenate(lines) if lines else np.empty((0, 2))
    return points[np.isfinite(points).all(axis=1)], name


@pytest.mark.parametrize(("gamma", "eta_l"), [(0.0, 1.0), (0.0, 0.0), (0.01, 1.0), (0.03, 1.0)])
def test_classes_win_below_the_exact_boundary_and_domains_above(gamma, eta_l):
    points, name = boundary(surface_figure(gamma=gamma, eta_l=eta_l, cells=CELLS))
    assert len(name) == 1
    inside = points[(points > STEP * 2).all(axis=1) & (points < 0.1 - 2 * STEP).all(axis=1)]
    assert len(inside) > 10
    for alpha, beta in inside[:: max(1, len(inside) // 25)]:
        # with gamma the boundary also runs straight up, near alpha = gamma: across it means right and down
        sides = (five_node("separate", 1.0, alpha + by, beta - by, gamma, 5.0, eta_l) for by in (1.5 * STEP, -1.5 * STEP))
        assert [side.probe.count == 0 for side in sides] == [True, False]


def test_where_one_side_has_it_all_no_boundary_is_drawn():
    """eta_l = 1000: labels hold classes together at any beta of the figure."""
    points, name = boundary(surface_figure(eta_l=1000.0, cells=CELLS))
    assert len(points) == len(name) == 0


def vertical(figure):
    return [[line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"] for axes in figure.axes]


def test_the_line_between_the_sides_is_drawn_where_it_is_known():
    alpha = 0.04
    assert vertical(eigenvalue_figure(alpha=alpha)) == [[critical_beta(alpha)], [], [critical_beta(alpha, 5.0, 0.0)]]
    assert vertical(eigenvalue_figure(alpha=alpha, gamma=0.02)) == [[], [], []]
    assert vertical(eigenvalue_figure(alpha=0.6, eta_l=10.0)) == [[], [], []]
