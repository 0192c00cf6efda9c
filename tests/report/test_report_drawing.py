"""What the report draws: maps of samples, ticks, marks where the axes say."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from wildspec.report.maps import draw_maps, neighbour_transition
from wildspec.report.svg import Plot, nice_ticks, tag


def test_neighbour_graph_and_spectrum(rng: np.random.Generator) -> None:
    """Three far groups: three eigenvalues at 1, a gap, and groups that lie apart on both maps."""
    centres = np.eye(3, 8) * 10
    features = np.concatenate([c + rng.normal(size=(30, 8)) for c in centres])
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    T = neighbour_transition(unit, 5).toarray()
    for j in range(0, 90, 17):
        nearest = set(np.argsort(-(unit @ unit[j]))[:6].tolist())
        assert set(np.flatnonzero(T[:, j]).tolist()) == nearest
    assert T.sum(0) == pytest.approx(1)
    maps = draw_maps(features)
    assert maps.spectrum[:3] == pytest.approx(1)
    assert maps.spectrum[3] < 0.97
    for plane in (maps.tsne, maps.spectral):
        assert plane.min() >= 0
        assert plane.max() <= 1
        groups = plane.reshape(3, 30, 2)
        spread = np.linalg.norm(groups - groups.mean(1, keepdims=True), axis=2).mean()
        apart = min(np.linalg.norm(groups[a].mean(0) - groups[b].mean(0)) for a, b in ((0, 1), (0, 2), (1, 2)))
        assert apart > spread


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 12.5), (0.61, 1.13), (1e-7, 4e-7), (5, 5), (0, 25000)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert 3 <= len(ticks) <= 7
    assert all(low - 1e-12 <= t <= max(high, low + 1) + 1e-12 for t in ticks)
    steps = np.diff(ticks)
    assert steps == pytest.approx(steps[0])
    mantissa = steps[0] / 10 ** np.floor(np.log10(steps[0]) + 1e-9)
    assert min(abs(mantissa - m) for m in (1, 2, 2.5, 5)) < 1e-6


def test_marks_lie_where_the_axes_say() -> None:
    plot = Plot((0, 10), (0, 2), width=400, height=270)
    assert (float(plot.x(0)), float(plot.x(10))) == (64, 376)
    assert float(plot.y(0)) > float(plot.y(2))
    assert float(plot.x(5)) == pytest.approx(220)
    plot.dot(5, 1, "here", 'a "tip" & <more>')
    mark = ET.fromstring(plot.render()).find("circle")
    assert mark is not None
    assert float(mark.attrib["cx"]) == pytest.approx(220)
    assert mark.attrib["data-tip"] == 'a "tip" & <more>'
    assert tag("g", data_x=None) == "<g/>"
