"""What the report draws: maps of samples, ticks, marks where the axes say."""

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest

from wildspec.evaluation import calibrate
from wildspec.report.facts import Group
from wildspec.report.html import _map
from wildspec.report.maps import Maps, draw_maps
from wildspec.report.plots import _curve, calibration_plot, distributions
from wildspec.report.svg import Plot, nice_ticks, tag


def test_spectrum_and_maps_show_groups(rng: np.random.Generator) -> None:
    """Three far groups: three eigenvalues at 1, a gap, and groups that lie apart on both maps."""
    centres = np.eye(3, 8) * 10
    features = np.concatenate([c + rng.normal(size=(30, 8)) for c in centres])
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


def test_the_curve_is_what_each_threshold_rejects(rng: np.random.Generator) -> None:
    """Scores with ties; a sample is rejected above a threshold."""
    known, other = rng.integers(0, 9, 40) / 4, rng.integers(3, 14, 30) / 4
    xs, ys = _curve(known, other)
    cuts = sorted({*known, *other})
    below = [cuts[0] - 1, *cuts]  # a threshold just below each score, and above all of them
    expected = {(round(np.mean(known > t).item(), 9), round(np.mean(other > t).item(), 9)) for t in below}
    assert {(round(x, 9), round(y, 9)) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)} == expected
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (0, 0, 1, 1)
    assert (np.diff(xs) >= 0).all()
    assert (np.diff(ys) >= 0).all()


def test_false_alarms_found_are_those_above_the_threshold() -> None:
    """99 calibration scores 1 to 99: at 5 % the threshold is the 95th; a known sample at it is kept."""
    known = Group("validation", "known", np.array([95.0, 95.0, 95.0, 96.0]), np.zeros(4, bool), np.zeros(4, int))
    calibration = calibrate(np.arange(1.0, 100.0), 0.05)
    about = SimpleNamespace(calibration=calibration)
    drawn = calibration_plot(SimpleNamespace(about=about, known=known, fresh=True))  # type: ignore[arg-type]
    assert "nominal 5 %: realized 25 %" in drawn
    assert calibration_plot(SimpleNamespace(about=about, known=known, fresh=False)) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("title", ["known, held out", "known, each left out", "wild"])
def test_the_names_of_groups_fit_before_the_axes(title: str) -> None:
    """Their bold letters are 13 units high, and no wider on average than 0.6 of that."""
    group = Group("validation", title, np.arange(50.0), np.zeros(50, bool), np.zeros(50, int))
    facts = SimpleNamespace(groups={"validation": group}, threshold=45.0, own_limits=False)
    drawing = ET.fromstring(distributions(facts))  # type: ignore[arg-type]
    (name,) = [mark for mark in drawing.iter("text") if mark.text == title]
    assert (name.attrib["text-anchor"], float(name.attrib["x"]) >= 0.6 * 13 * len(title)) == ("end", True)
    axis = max(float(mark.attrib["points"].split()[0].split(",")[0]) for mark in drawing.iter("polyline"))
    assert axis > float(name.attrib["x"])


@pytest.mark.parametrize(("samples", "classes", "drawn"), [(90, 3, 24), (90, 40, 48), (30, 40, 29), (200, 500, 120)])
def test_the_spectrum_reaches_beyond_the_classes(rng: np.random.Generator, samples: int, classes: int, drawn: int) -> None:
    assert len(draw_maps(rng.normal(size=(samples, 8)), classes=classes).spectrum) == drawn


def test_a_map_of_many_classes_says_which_it_does_not_name() -> None:
    def page(classes: int) -> str:
        about = SimpleNamespace(classes=tuple(f"class {i}" for i in range(classes)))
        maps = Maps(np.linspace(1, 0, 24), np.zeros((0, 2)), np.zeros((0, 2)))
        return _map(SimpleNamespace(about=about, samples=[]), maps)  # type: ignore[arg-type]

    assert "more classes" not in page(20)
    assert "the first 20, as many as classes, are marked" in page(20)
    assert "and 13 more classes; each colour stands for several" in page(33)
    assert "each colour stands for several" in page(11)
    assert "each colour stands for several" not in page(10)
    assert page(33).count('<i class="disc"></i>') == 20 + 1, "and one for what was rejected"
    assert "drawn are the first 24, no more than there are classes" in page(33)
