"""The part of the report to act from: groups, the list, probabilities, and how much a page may hold."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_model
from wildspec import SpectralClassifier
from wildspec.data import ArraySource
from wildspec.data.embeddings import EmbeddingTable
from wildspec.report import embedding_facts, page_data, report_html
from wildspec.report.groups import cut_distance, group_rows, most_typical
from wildspec.report.image_facts import gather
from wildspec.report.plots import reliability
from wildspec.report.pool import Listed
from wildspec.report.review_section import groups_and_classes
from wildspec.report.words import headline, mostly_rejected


@pytest.fixture(scope="module")
def facts() -> Any:
    return gather(tiny_model.fitted(), "shapes")


def _blobs(rng: np.random.Generator, sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return 5 * np.eye(12)[labels] + 0.5 * rng.normal(size=(len(labels), 12)), labels


def test_groups_are_the_blobs_the_largest_first(rng: np.random.Generator) -> None:
    labelled, labels = _blobs(rng, [30, 30, 30])
    others, truth = _blobs(rng, [7, 40, 19])
    cut = cut_distance(labelled, labels, others)
    near = np.linalg.norm(labelled[:30, None] - labelled[None, :30], axis=2).sum() / (30 * 29)
    far = np.linalg.norm(others[:7, None] - others[None, 7:], axis=2).mean()
    assert near < cut < far
    found = group_rows(others, cut)
    assert np.bincount(found).tolist() == [40, 19, 7]
    assert all(len(set(found[truth == kind])) == 1 for kind in range(3))
    centre = others[found == 0].mean(0)
    first = most_typical(others, found, 0)[0]
    assert np.linalg.norm(others[first] - centre) == np.linalg.norm(others[found == 0] - centre, axis=1).min()


def test_groups_of_many_samples_are_those_of_a_sample(rng: np.random.Generator) -> None:
    others, truth = _blobs(rng, [2500, 1200])
    found = group_rows(others, 4.0)
    assert np.bincount(found).tolist() == [2500, 1200]
    assert (found == truth).all()
    assert group_rows(others[:1], 4.0).tolist() == [0]
    assert group_rows(others[:0], 4.0).tolist() == []


def test_every_rejected_sample_is_in_one_group_and_no_kept_one(facts: Any) -> None:
    listed = facts.listed
    assert ((listed.group >= 0) == listed.rejected).all()
    assert sum(listed.sizes) == int(listed.rejected.sum())
    assert listed.sizes == sorted(listed.sizes, reverse=True)
    assert (listed.rejected == (listed.margin > 0)).all()
    assert (np.diff(listed.score) <= 0).all()
    for number, rows in enumerate(listed.typical):
        assert {int(listed.group[row]) for row in rows} == {number}
    for row, place in enumerate(listed.sample.tolist()):
        if place >= 0:
            assert facts.samples[place].name == listed.names[row]


def test_the_list_holds_every_image_that_was_given() -> None:
    _, wild = tiny_model.labelled_and_wild()
    model = tiny_model.fitted()
    listed = gather(model, "m", wild=ArraySource(wild)).listed
    assert len(listed) == listed.of == 84
    assert int(listed.rejected.sum()) == int((model.predict(wild) == "rejected").sum())
    assert sorted(listed.score) == pytest.approx(sorted(model.ood_score(wild)), abs=1e-5)


@pytest.mark.parametrize(("groups", "said"), [
    ([1], ("1 rejected image in 1 group,", "1 image was taken")),
    ([2], ("2 rejected images in 1 group,", "1 image was taken")),
    ([1] * 13, ("13 rejected images in 13 groups,", "1 smaller group holds 1 more.")),
    ([1] * 14, ("14 rejected images in 14 groups,", "2 smaller groups hold 2 more.")),
])  # fmt: skip
def test_one_is_spoken_of_as_one(facts: Any, groups: list[int], said: tuple[str, str]) -> None:
    numbers = np.r_[np.repeat(np.arange(len(groups)), groups), -1]
    count = len(numbers)
    typical = [[int(np.flatnonzero(numbers == number)[0])] for number in range(len(groups))]
    few = Listed(
        [f"{i}.png" for i in range(count)], np.zeros(count), np.zeros(count), np.ones(count), np.zeros(count, np.int64),
        numbers >= 0, np.full(count, -1), numbers, [""] * count, np.zeros(count, bool), typical, count,
    )  # fmt: skip
    shown = groups_and_classes(replace(facts, listed=few))
    assert all(words in shown for words in said), shown


def test_reliability_is_counted_by_hand(facts: Any) -> None:
    few = facts.known
    times = 1 + 100 // len(few)
    arrays = {name: np.tile(getattr(few, name), times) for name in ("scores", "rejected", "likely", "labels", "confidence")}
    known = replace(few, **arrays)
    drawing, error = reliability(replace(facts, groups=facts.groups | {"validation": known}))
    assert len(few) < 100 <= len(known)
    assert reliability(facts)[0] == "", "a bin of a few samples says nothing"
    assert "svg" in drawing
    slow = 0.0
    for low in np.arange(10) / 10:
        inside = [i for i, sure in enumerate(known.confidence) if low <= sure < low + 0.1 or (low > 0.85 and sure >= 1)]
        if inside:
            right = np.mean([known.labels[i] == known.likely[i] for i in inside])
            slow += len(inside) / len(known) * abs(right - np.mean(known.confidence[inside]))
    assert error == pytest.approx(slow, abs=1e-9)


def test_pictures_stop_at_the_limit(facts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, none = page_data.page_data(facts)
    assert none == 0
    monkeypatch.setattr(page_data, "MOST_BYTES", 8000)
    text, left_out = page_data.page_data(facts)
    value = json.loads(text)
    shown = [one["picture"] for one in [*value["samples"], *value["labelled"].values()] if one["picture"]]
    assert 0 < sum(map(len, shown)) <= 8000
    assert left_out > 0
    assert len(text) < len(whole)
    first = [int(facts.listed.sample[row]) for rows in facts.listed.typical[:1] for row in rows]
    assert any(value["samples"][i]["picture"] for i in first if i >= 0), "groups come first"
    assert "left out" in report_html(tiny_model.fitted(), "m", with_map=False)


def test_no_advice_to_take_a_method_that_is_not_the_default() -> None:
    said = mostly_rejected(80, 100)
    assert said is not None
    assert "erm" not in said
    assert "wildspec review" in said


def test_the_first_sentence_says_when_shifted_images_are_lost(facts: Any) -> None:
    import dataclasses

    def judged(key: str, share: float) -> Any:
        rejected = np.arange(100) < 100 * share
        return dataclasses.replace(facts.known, key=key, scores=np.zeros(100), rejected=rejected, likely=np.zeros(100, int))

    def said(lost: float, caught: float) -> str:
        groups = {**facts.groups, "covariate": judged("covariate", lost), "semantic": judged("semantic", caught)}
        return headline(dataclasses.replace(facts, groups=groups))

    assert re.search(r"Shifted known .* 46 % against 24 %", said(0.46, 0.24))
    assert re.search(r"96 % of unknown .* 3 % of known", said(0.03, 0.96))


def test_answers_and_what_they_changed_are_marked(tmp_path: Path) -> None:
    """Against the model itself, fitted with the answers and without them."""
    rng = np.random.default_rng(4)
    rows, labels = _blobs(rng, [60, 60, 60])
    known, unknown = _blobs(rng, [20, 20, 20])[0] + 4 * np.eye(12)[7], 4 * np.eye(12)[9] + rng.normal(size=(40, 12))
    wild = np.concatenate([known, unknown])
    np.savez(tmp_path / "wild.npz", X=wild.astype(np.float32))
    before = SpectralClassifier(random_state=0, alpha=0.1).fit(rows, labels, X_wild=wild.astype(np.float32))
    after = SpectralClassifier(random_state=0, alpha=0.1).fit(rows, labels, X_wild=wild.astype(np.float32))
    said: dict[int, Any] = dict.fromkeys(range(16), "unknown") | {25: 1, 60: "unknown"}  # a person wants class 0 out
    after.answer(said)
    listed = embedding_facts.gather(after, "m", wild=EmbeddingTable(tmp_path / "wild.npz")).listed
    marked = {int(name.split("#")[1]): one for name, one in zip(listed.names, listed.answers, strict=True) if one}
    assert marked == {row: str(one) for row, one in said.items()}
    assert int(listed.turned.sum()) == len(after.review().turned())
    decided = [one.thresholds_.at_shifted(one.model_.wild_shifted) < one.model_.wild_score for one in (before, after)]
    assert listed.turned.sum() == (decided[0] != decided[1]).sum() > 0
    plain = embedding_facts.gather(before, "m", wild=EmbeddingTable(tmp_path / "wild.npz")).listed
    assert not any(plain.answers)
    assert not plain.turned.any()
    np.savez(tmp_path / "other.npz", X=wild[::-1].astype(np.float32))
    other = embedding_facts.gather(after, "m", wild=EmbeddingTable(tmp_path / "other.npz")).listed
    assert not any(other.answers), "rows of another table are others"
