"""Figures: what is drawn is what was measured, and the files are pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from tests.bench.making import record

from wildspec.bench.figures import draw_all, draw_time, embedding_map, quality_against_time, score_histogram
from wildspec.bench.records import write_record
from wildspec.errors import DataError


def test_histogram_marks_the_threshold_that_keeps_95_percent_of_id(rng: np.random.Generator) -> None:
    scores = {"id": np.arange(100) / 100, "covariate": rng.normal(1, 0.2, 50), "semantic": rng.normal(3, 0.2, 50)}
    figure = score_histogram(scores, "knn", "title", threshold=1.25)
    (axes,) = figure.axes
    kept, decision = axes.get_lines()
    assert decision.get_xdata()[0] == 1.25
    assert len(score_histogram(scores, "knn", "title").axes[0].get_lines()) == 1, "no decision, no line"
    cut = kept.get_xdata()[0]
    assert np.mean(scores["id"] <= cut) == pytest.approx(0.96), "the smallest score that keeps at least 95 %"
    areas = [np.sum(p.get_data().values * np.diff(p.get_data().edges)) for p in axes.patches]
    assert areas == pytest.approx([1] * 6), "three densities, each as area and as outline"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "ID", "covariate OOD", "semantic OOD", "keeps 95 % of ID", "decision: rejected above"
    ]  # fmt: skip


def test_histogram_of_equal_scores() -> None:
    same = np.ones(10)
    (axes,) = score_histogram({"id": same, "covariate": same, "semantic": same}, "msp", "title").axes
    assert axes.get_xlim()[0] < 1 < axes.get_xlim()[1]


def test_embedding_map_shows_every_point_twice(rng: np.random.Generator) -> None:
    features = {kind: rng.normal(size=(40, 8)) for kind in ("id", "covariate", "semantic")}
    labels = {kind: np.arange(40) % 4 for kind in features}
    left, right = embedding_map(features, labels, per_kind=30).axes
    for axes in (left, right):
        assert sum(len(points.get_offsets()) for points in axes.collections) == 90
    colours = {tuple(c) for points in left.collections[1:] for c in points.get_facecolors()}
    assert len(colours) == 4, "one colour per class"


def test_quality_against_time_draws_the_papers_lines() -> None:
    runs = [record(seconds=60 * minutes, ood_acc=0.8 + minutes / 100) for minutes in (1, 2, 5)]
    panels = quality_against_time([*runs, record(method="erm", detector="energy")]).axes
    assert len(panels) == 4
    ood = panels[1]
    others, points, paper = ood.get_lines()
    assert [line.get_label() for line in (others, points)] == ["OOD detection", "spectral + knn"]
    assert list(points.get_xdata()) == [1, 2, 5]
    assert list(points.get_ydata()) == pytest.approx([0.81, 0.82, 0.85])
    assert list(paper.get_ydata()) == pytest.approx([0.8662, 0.8662])
    assert any("86.62" in text.get_text() for text in ood.texts)


def test_quality_on_the_way_is_a_line_through_its_looks() -> None:
    way = [{"seconds": 30.0 * n, **dict.fromkeys(("id_acc", "ood_acc", "fpr95_id", "auroc"), 0.1 * n)} for n in (1, 2, 3)]
    lines = quality_against_time([record(seconds=120, curve=way)]).axes[0].get_lines()
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in lines]
    assert ([0.5, 1.0, 1.5], pytest.approx([0.1, 0.2, 0.3])) in drawn


def test_small_errors_are_far_apart_both_ways() -> None:
    """Log-odds: 99 and 99.9 per cent are as far apart as 1 and 0.1, and nothing falls off the scale."""
    panels = quality_against_time([record(fpr95_id=value, auroc=1 - value) for value in (0.0, 0.001, 0.01)]).axes
    for axes, values in ((panels[2], [0.001, 0.01]), (panels[3], [0.999, 0.99])):
        heights = axes.transData.transform([(0, value) for value in values])[:, 1]
        height = axes.transAxes.transform((0, 1))[1] - axes.transAxes.transform((0, 0))[1]
        assert abs(heights[1] - heights[0]) > 0.2 * height
        low, high = axes.get_ylim()
        assert all(low < y < high for line in axes.get_lines() for y in line.get_ydata())


def test_time_figures_are_one_per_protocol_and_set(tmp_path: Path) -> None:
    records = [record(), record(protocol="impact"), record(protocol="office-home", semantic="Ar->Cl", covariate="domain")]
    names = [path.name for path in draw_time(records, tmp_path)]
    assert names == ["cifar10-svhn-time.png", "impact-svhn-time.png", "office-home-Ar-to-Cl-time.png"]


def test_no_records_is_an_error() -> None:
    with pytest.raises(DataError, match="no records to draw"):
        quality_against_time([])


def test_draw_all_writes_pictures(tmp_path: Path, rng: np.random.Generator) -> None:
    run = tmp_path / "run" / "spectral-fast" / "seed-0"
    write_record(run / "records" / "svhn-knn.json", record())
    tensors = {}
    for kind in ("id", "covariate", "semantic"):
        tensors[f"{kind}.score.knn"] = torch.rand(50)
        tensors[f"{kind}.features"] = torch.from_numpy(rng.normal(size=(30, 4)).astype(np.float32))
        tensors[f"{kind}.labels"] = torch.arange(30) % 3
    save_file(tensors, run / "svhn.samples.safetensors")
    made = draw_all([tmp_path / "run"], tmp_path / "figures")
    assert sorted(path.name for path in made) == [
        "cifar10-svhn-spectral-fast-seed-0-knn-scores.png", "cifar10-svhn-spectral-fast-seed-0-tsne.png",
        "cifar10-svhn-time.png",
    ]  # fmt: skip
    for path in made:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert len(np.unique(np.asarray(picture.convert("L")))) > 10, "not blank"
    samples = run / "svhn.samples.safetensors"
    whole = samples.read_bytes()
    for content in (whole[:90], b""):
        samples.write_bytes(content)
        with pytest.raises(DataError, match=r"svhn\.samples\.safetensors is damaged"):
            draw_all([tmp_path / "run"], tmp_path / "figures")
    save_file({name: value for name, value in tensors.items() if name != "id.labels"}, samples)
    with pytest.raises(DataError, match=r"lacks id\.labels"):
        draw_all([tmp_path / "run"], tmp_path / "figures")
