"""Where samples have thresholds of their own, every plot and every number of the page says what was decided."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frozen_bundle
import tiny_model
import wildspec
from shifted_world import World, make_world
from wildspec import SpectralClassifier
from wildspec.data import ArraySource
from wildspec.data.embeddings import EmbeddingTable
from wildspec.report import embedding_facts, image_facts, report_html
from wildspec.report.facts import Facts
from wildspec.report.plots import distributions, trade_off
from wildspec.report.svg import percent
from wildspec.report.words import metric_rows


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(2)


@pytest.fixture(scope="module")
def model(world: World) -> Any:
    """Shifted samples are kept up to a threshold of their own, half a deviation higher."""
    made = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, X_wild=world.wild)
    made.thresholds_ = dataclasses.replace(made.thresholds_, shifted=made.threshold_ + 0.5)
    return made


@pytest.fixture(scope="module")
def tables(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, EmbeddingTable]:
    folder = tmp_path_factory.mktemp("tables")
    known = np.concatenate([world.id_test, world.shifted]), np.concatenate([world.id_labels, world.shifted_labels])
    sets = {"test": known, "covariate": (world.shifted, world.shifted_labels), "semantic": (world.unknown, None)}
    found = {}
    for name, (rows, labels) in {**sets, "wild": (world.wild, None)}.items():
        more = {} if labels is None else {"label": labels.tolist()}
        pq.write_table(pa.table({"features": list(rows), **more}), folder / f"{name}.parquet")
        found[name] = EmbeddingTable(folder / f"{name}.parquet")
    return found


@pytest.fixture(scope="module")
def facts(model: Any, tables: dict[str, EmbeddingTable]) -> Facts:
    return embedding_facts.gather(model, "m", **tables)


def test_some_are_kept_above_the_threshold_of_the_model(facts: Facts) -> None:
    for group in facts.groups.values():
        if group.key in ("test", "wild", "covariate"):
            assert (group.scores[~group.rejected] > facts.threshold).any(), group.key


def test_right_of_the_line_lies_what_was_rejected_and_nothing_else(facts: Facts) -> None:
    drawing = ET.fromstring(distributions(facts))
    (line,) = [float(mark.attrib["x1"]) for mark in drawing.iter("line") if mark.attrib["class"] == "rule"]
    right = dict.fromkeys([group.title for group in facts.groups.values()], 0.0)
    strips = [mark for mark in drawing.iter("rect") if mark.attrib.get("class") == "strip"]
    for strip in strips:
        left = float(strip.attrib["x"])
        assert not left < line - 0.02 < line + 0.02 < left + float(strip.attrib["width"]), "no bar on both sides"
        if left > line - 0.02:
            for title in right:
                share = re.search(rf"{title} ([\d.]+)", strip.attrib["data-tip"].replace("\u00a0", " "))
                assert share is not None
                right[title] += float(share[1])
    for group in facts.groups.values():
        assert right[group.title] == pytest.approx(100 * group.rejected.mean(), abs=0.05 * len(strips)), group.title


def _line(drawing: ET.Element, kind: str) -> np.ndarray:
    """(n, 2) places of a polyline."""
    (points,) = [mark.attrib["points"] for mark in drawing.iter("polyline") if kind in mark.attrib["class"].split()]
    return np.array([[float(v) for v in pair.split(",")] for pair in points.split()])


def _shares(drawing: ET.Element, places: np.ndarray) -> np.ndarray:
    """Places on the drawing -> shares, by the line on which both are equal."""
    (low, high) = _line(drawing, "guide")
    return (places - low) / (high - low)


def _dot(drawing: ET.Element) -> np.ndarray:
    (mark,) = [mark for mark in drawing.iter("circle") if mark.attrib["class"] == "here"]
    return np.array([[float(mark.attrib["cx"]), float(mark.attrib["cy"])]])


def test_the_dot_is_what_was_decided_and_lies_on_the_curve_of_the_pool(
    model: Any, tables: dict[str, EmbeddingTable]
) -> None:
    facts = embedding_facts.gather(model, "m", test=tables["test"], wild=tables["wild"])
    drawing = ET.fromstring(trade_off(facts)[1])
    dot = _shares(drawing, _dot(drawing))[0]
    assert dot == pytest.approx([facts.known.rejected.mean(), facts.groups["wild"].rejected.mean()], abs=1e-3)
    curve = _shares(drawing, _line(drawing, "g-wild"))
    assert np.abs(curve - dot).sum(axis=1).min() < 0.01


def test_the_roc_curve_is_that_of_the_auroc_on_the_page(facts: Facts) -> None:
    drawing = ET.fromstring(trade_off(facts)[1])
    rows = {name: value for name, value, _ in metric_rows(facts)}
    curve = _shares(drawing, _line(drawing, "g-semantic"))
    area = float(np.sum(np.diff(curve[:, 0]) * (curve[1:, 1] + curve[:-1, 1]) / 2))
    assert 100 * area == pytest.approx(float(rows["AUROC"].split()[0]), abs=0.3)
    x, y = _shares(drawing, _dot(drawing))[0]
    assert percent(round(float(y), 3)) == rows["Unknown rejected"]
    assert 1 - x == pytest.approx(float(np.mean(~facts.known.rejected)), abs=1e-3)


def test_the_page_says_where_a_plot_does_not_count_decisions(model: Any, tables: dict[str, EmbeddingTable]) -> None:
    page = report_html(model, "m", with_map=False, **tables).replace("\u00a0", " ")
    facts = embedding_facts.gather(model, "m", **tables)
    alarms = page.split("False alarms: promised and found")[1].split("<svg")[0]
    assert f"Rejected are {percent(float(facts.known.rejected.mean()))}" in alarms.replace("\u00a0", " ")
    assert "beside the curve" in page.split("ROC: unknown against known")[1].split("<svg")[0]
    borderline = page.split("<h3>Borderline</h3>")[1].split("</ul>")[0]
    for i in facts.borderline:
        assert f"threshold {facts.samples[i].limit:.3g}" in borderline
    assert "--alpha" not in page.split("<script>")[-1], "no alpha of a fit moves all thresholds alike"


def test_held_out_images_have_the_thresholds_they_were_judged_by() -> None:
    made = wildspec.load(frozen_bundle.bundle())
    fitted = made.fitted_
    raised = dataclasses.replace(fitted.decision.thresholds, shifted=float(made.threshold_) + 2)
    fitted.decision = dataclasses.replace(fitted.decision, thresholds=raised)
    known = image_facts.gather(made, "m").groups["validation"]
    assert known.limits == pytest.approx(fitted.decision.judge(fitted.aside.validation).threshold)


def test_the_estimate_about_the_pool_that_fit_prints_is_on_the_page() -> None:
    made = wildspec.load(frozen_bundle.bundle())
    low, high = (round(84 * share) for share in made.metrics_["wild"]["unknown_interval"])
    said = f"{low} to {high} of the wild images belong to none"
    assert said in report_html(made, "m", with_map=False)
    _, wild = tiny_model.labelled_and_wild()
    other = report_html(made, "m", with_map=False, wild=ArraySource(wild))
    assert said not in other, "it is about the pool of the fit"
