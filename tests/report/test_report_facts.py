"""What the report says is what the model did: every number recounted by hand, every name shown as text."""

import copy
import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom

import tiny_model
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.data import ArraySource, ImageArrays, load_images
from wildspec.data.embeddings import EmbeddingTable
from wildspec.decision.shares import excess_mixture
from wildspec.errors import DataError
from wildspec.evaluation import calibrate, estimate_mixture
from wildspec.report import embedding_facts, page_data, report_html
from wildspec.report.facts import moment
from wildspec.report.html import _breakable, _classes, _text
from wildspec.report.image_facts import _about, gather
from wildspec.report.plots import confusion, trade_off
from wildspec.report.svg import percent
from wildspec.report.words import advice, broken_promise, cautious, hardly_better, headline, metric_rows, pool_in_words


def _set(counts: dict[str, int], seed: int, shifted: bool = False) -> ImageArrays:
    images, shapes = tiny_model.pictures(counts, seed, shifted)
    labels = np.array([tiny_model.CLASSES.index(s) if s in tiny_model.CLASSES else -1 for s in shapes])
    return load_images(ArraySource(images, labels, tiny_model.CLASSES))


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model.fitted()


@pytest.fixture(scope="module")
def page(model: Any) -> str:
    return report_html(model, "shapes")


def test_the_headline_counts_the_wild_pool(model: Any) -> None:
    _, wild = tiny_model.labelled_and_wild()
    rejected = int((model.predict(wild) == "rejected").sum())
    assert headline(gather(model, "m")).startswith(f"Of 84 wild images {rejected} look like none of your 3 classes")
    few = gather(model, "m", wild=ArraySource(wild[-24:]))
    assert headline(few).startswith("Of 24 wild images")


def test_one_image_is_spoken_of_as_one(model: Any) -> None:
    _, wild = tiny_model.labelled_and_wild()
    for i, said in ((int(np.argmax(model.ood_score(wild))), "none"), (int(np.argmin(model.ood_score(wild))), "one")):
        facts = gather(model, "m", wild=ArraySource(wild[i : i + 1]))
        assert headline(facts) == f"The one wild image looks like {said} of your 3 classes."
        told = " ".join(advice(facts) + [meaning for _, _, meaning in metric_rows(facts)])
        assert "most of the pool" not in told, "one image is no pool"
        assert "of one wild image of unknown composition" in told
        assert not re.search(r"\b1 (wild )?images|\bthe 1 ", told)
        assert "looks like" in report_html(model, "m", wild=ArraySource(wild[i : i + 1]))


def test_the_share_of_unknown_images_is_an_estimate_about_the_pool_of_the_fit(model: Any) -> None:
    _, wild = tiny_model.labelled_and_wild()
    mixture = model.fitted_.decision.calibration.mixture
    facts = gather(model, "m")
    assert mixture.describe()[1:] in advice(facts)[0]
    rows = {name: value for name, value, _ in metric_rows(facts)}
    assert rows["Unknown share"] == percent(mixture.pi_s)
    assert mixture.pi_s_interval[0] < 24 / 84 < mixture.pi_s_interval[1], "24 of the 84 wild images are stripes"
    other = gather(model, "m", wild=ArraySource(wild[-24:]))
    assert not any("without the threshold" in line.lower() for line in advice(other))
    assert "Unknown share" not in {name for name, _, _ in metric_rows(other)}


def test_a_rough_share_is_told_as_a_range() -> None:
    """150 of 1,000 scores of the pool lie above all ID ones; the guess is named after the range, and called rough."""
    rng = np.random.default_rng(0)
    known, pool = rng.normal(0, 1, 200), np.r_[rng.normal(0, 1, 850), rng.normal(6, 0.5, 150)]
    rough = excess_mixture(pool, known)
    low, high = (round(1000 * share) for share in rough.pi_s_interval)
    assert low <= 150 <= high
    said, guess = pool_in_words(rough), round(1000 * rough.pi_s)
    assert said.startswith(f"between {low} and {high} of your 1,000 wild images are unlike the labelled ones, {guess} is")
    assert "rough" in said
    clear = estimate_mixture(pool, known)
    assert pool_in_words(clear) == "o" + clear.describe()[1:]
    assert "rough" not in clear.describe()
    none = excess_mixture(np.linspace(-3, -1, 500), known)
    assert pool_in_words(none).startswith("no group of unknown images")


def test_a_promise_that_was_not_kept_is_told() -> None:
    """120 calibration samples, 5 % asked for: how many of 120 new ones are rejected in 39 of 40 draws, found by drawing."""
    calibration = calibrate(np.arange(120.0), 0.05)
    rng = np.random.default_rng(0)
    thresholds = np.sort(rng.random((20_000, 120)), axis=1)[:, 114]  # the 115th of 120
    usual = int(np.quantile((rng.random((20_000, 120)) > thresholds[:, None]).sum(1), 0.975))
    assert broken_promise(calibration, usual / 120, 120) is None
    said = broken_promise(calibration, (usual + 2) / 120, 120)
    assert said is not None
    assert "the 120 images the threshold rests on" in said


@pytest.mark.parametrize(("count", "alpha"), [(19, 0.1), (38, 0.1), (39, None), (400, None)])
def test_a_threshold_that_is_the_largest_score_is_told_with_an_alpha_at_which_it_is_not(count, alpha) -> None:
    scores = np.arange(float(count))
    said = cautious(calibrate(scores, 0.05))
    assert (said is not None) == (calibrate(scores, 0.05).threshold == scores.max()) == (alpha is not None)
    if alpha is not None:
        assert f"{count} labelled" in said
        assert f"--alpha {alpha}" in said
        assert calibrate(scores, alpha).threshold < scores.max()


@pytest.mark.parametrize(("right", "said"), [(37, True), (41, False)])
def test_an_accuracy_that_guessing_may_reach_is_said(right: int, said: bool) -> None:
    labels = np.repeat([0, 1, 2], [30, 25, 25])  # always saying 0 is right in 37.5 %
    # Independent: how often would a model that is right in 37.5 % be right at least so often in 80?
    by_luck = binom.sf(right - 1, 80, 0.375)
    assert (by_luck > 0.025) == said, "the numbers of this test"
    likely = np.where(np.arange(80) < right, labels, (labels + 1) % 3)
    found = hardly_better(labels, likely)
    assert (found is not None) == said
    if found is not None:
        assert "hardly better than guessing: naming the largest class every time is right in 37.5 %." in found
        assert "--minutes" in found
        assert "--minutes" not in str(hardly_better(labels, likely, "samples"))


def test_an_accuracy_that_guessing_may_reach_comes_first(model: Any) -> None:
    facts = gather(model, "m")
    assert not any("guessing" in line for line in advice(facts))
    wrong = dataclasses.replace(facts.known, likely=(facts.known.labels + 1) % 3)
    told = advice(dataclasses.replace(facts, groups={**facts.groups, "validation": wrong}))
    assert told[0].startswith("Of the images held out 0 % were given the right class. That is hardly better than guessing")


def test_where_nothing_was_kept_no_share_of_it_is_told(model: Any) -> None:
    facts = gather(model, "m")
    none = dataclasses.replace(facts.known, rejected=np.ones(len(facts.known), bool))
    told = " ".join(advice(dataclasses.replace(facts, groups={**facts.groups, "validation": none})))
    assert ", 0 % were kept" in told
    assert "Among those kept" not in told
    assert "nan" not in told


def test_a_pool_that_is_mostly_rejected_is_said_to_be_perhaps_another_style(model: Any) -> None:
    facts = gather(model, "m")
    wild = facts.groups["wild"]
    for share, said in ((0.5, False), (0.51, True)):
        rejected = np.arange(100) < 100 * share
        some = dataclasses.replace(wild, rejected=rejected, scores=np.zeros(100), likely=np.zeros(100, int))
        told = advice(dataclasses.replace(facts, groups={**facts.groups, "wild": some}))
        assert any("in a style no labelled image shows" in line for line in told) == said


@pytest.mark.parametrize(("plain", "shown"), [
    ("97.5 % were kept", "97.5\u00a0% were kept"), ("at most 5.0% of", "at most 5.0\u00a0% of"),
    ("or --held-out, make", 'or <span class="nb">--held-out</span>, make'), ("a < b", "a &lt; b"),
    ("between 0 % and 24.2 %", "between 0\u00a0% and 24.2\u00a0%"), ("a--b", "a--b"),
])  # fmt: skip
def test_numbers_and_options_are_not_torn(plain: str, shown: str) -> None:
    assert _text(plain) == shown


@pytest.mark.parametrize(("created", "said"), [
    ("2026-11-15T12:52:11+00:00", "2026-11-15 12:52 UTC"), ("2026-11-15T12:52:11+02:00", "2026-11-15 12:52+0200"),
    ("some time", "some time"), ("", ""),
])  # fmt: skip
def test_moments(created: str, said: str) -> None:
    assert moment(created) == said


@pytest.mark.parametrize(("name", "shown"), [
    ("IMG_00817.png", "IMG_<wbr>00817<wbr>.png"), ("a b/c-d.x.jpeg", "a <wbr>b/<wbr>c-<wbr>d.x<wbr>.jpeg"),
    ("<b>.png", "&lt;b&gt;<wbr>.png"), ("12", "12"),
])  # fmt: skip
def test_names_break_between_their_parts(name: str, shown: str) -> None:
    assert _breakable(name) == shown


def test_a_run_cut_by_the_clock_says_so(model: Any) -> None:
    def training(**taken: int) -> str:
        record = copy.deepcopy(model.record_)
        record["training"]["stages"] = [{"name": "pretrain", "epochs": 8.0, "steps": 40, **taken}]
        told = SimpleNamespace(fitted_=model.fitted_, record_=record)
        return dict(_about(told, "m").rows)["Training"]

    assert training().startswith("pretrain 8 epochs;")  # a bundle of before
    assert training(taken=40) == training()
    assert training(taken=30).startswith("pretrain 6 epochs, fewer than planned: the time was over;")


def test_metrics_are_recounted_from_predictions(model: Any) -> None:
    sets = {
        "test": _set(dict.fromkeys(tiny_model.CLASSES, 12), 90),
        "covariate": _set(dict.fromkeys(tiny_model.CLASSES, 12), 91, shifted=True),
        "semantic": _set({"stripes": 30}, 92),
    }
    facts = gather(model, "m", **sets)
    rows = {name: value for name, value, _ in metric_rows(facts)}
    predicted = {name: model.predict(images) for name, images in sets.items()}
    truth = sets["test"].labels.numpy()
    likely = model.predict_proba(sets["test"]).argmax(1)
    kept = predicted["test"] != "rejected"
    assert rows["Accuracy"] == percent((likely == truth).mean())
    assert rows["Accuracy among kept"] == percent((likely[kept] == truth[kept]).mean())
    assert rows["Kept"] == percent(kept.mean())
    assert rows["Shifted kept"] == percent((predicted["covariate"] != "rejected").mean())
    assert rows["Unknown rejected"] == percent((predicted["semantic"] == "rejected").mean())
    table = confusion(facts)
    for c in range(3):
        for d in range(3):
            assert table[c][d] == int(((truth == c) & (predicted["test"] == model.classes_[d])).sum())
        assert table[c][3] == int(((truth == c) & (predicted["test"] == "rejected")).sum())
    assert trade_off(facts)[0].startswith("ROC")
    assert trade_off(gather(model, "m"))[0] == "What each threshold would reject"


def test_what_to_review_is_what_lies_furthest_out_and_what_lies_closest(model: Any) -> None:
    facts = gather(model, "m")
    scores = [s.score for s in facts.samples if s.score is not None]
    shown = [facts.samples[i].score for i in facts.review]
    assert shown == sorted((s for s in scores if s > facts.threshold), reverse=True)[:24]
    away = [abs(float(facts.samples[i].score or 0) - facts.threshold) for i in facts.borderline]
    assert away == sorted(away)
    assert not set(facts.review) & set(facts.borderline)
    assert all(facts.samples[i].picture for i in facts.review)


def test_a_sample_is_compared_with_its_own_threshold(tmp_path: Path) -> None:
    """Shifted samples are kept up to a threshold of their own; what the page says of each is that one."""
    world = make_world(2)
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, X_wild=world.wild)
    model.thresholds_ = dataclasses.replace(model.thresholds_, shifted=model.threshold_ + 0.5)
    np.save(tmp_path / "wild.npy", world.wild)
    table = EmbeddingTable(tmp_path / "wild.npy")
    facts = embedding_facts.gather(model, "m", wild=table)
    own, decided = model.thresholds_.at(model._decide_rows(model._prepare(world.wild))), facts.groups["wild"]
    assert facts.own_limits
    assert (decided.scores[~decided.rejected] > facts.threshold).any(), "kept above the model's threshold"
    wild = [sample for sample in facts.samples if sample.score is not None]
    assert all((sample.score > sample.limit) == (sample.kind == "rejected") for sample in wild)
    for sample in wild:
        row = int(np.argmin(np.abs(decided.scores - sample.score)))
        assert sample.limit == pytest.approx(own[row])
    away = [abs(facts.samples[i].score - facts.samples[i].limit) for i in facts.borderline]
    rest = [abs(s.score - s.limit) for i, s in enumerate(facts.samples)
            if s.score is not None and i not in facts.borderline + facts.review]  # fmt: skip
    assert away == sorted(away)
    assert max(away) <= min(rest) + 1e-9
    data = json.loads(page_data.page_data(facts)[0])
    assert data["ownLimits"]
    assert [s["limit"] for s in data["samples"] if s["kind"] != "labelled"] == [sample.limit for sample in wild]
    assert "sample.limit" in report_html(model, "m", wild=table)


def test_any_number_of_images_is_judged_block_by_block(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wild = tiny_model.labelled_and_wild()

    class Some(ArraySource):
        def load(self, i: int) -> np.ndarray:
            if i in (0, 5, 40):
                raise DataError("torn")
            return super().load(i)

    whole = gather(model, "m", wild=Some(wild))
    monkeypatch.setattr("wildspec.report.image_facts.BLOCK", 7)
    blocks = gather(model, "m", wild=Some(wild))
    read = np.delete(wild, [0, 5, 40], axis=0)
    assert np.allclose(blocks.groups["wild"].scores, model.ood_score(read), atol=1e-4)
    assert [sample.name for sample in blocks.samples] == [sample.name for sample in whole.samples]
    assert np.allclose(blocks.features, whole.features, atol=1e-4)
    assert dict(blocks.about.rows)["Reported about"] == f"81 images; 3 could not be read, first {Some(wild).name(0)}: torn"
    assert "Reported about" not in dict(gather(model, "m").about.rows)
    monkeypatch.setattr(Some, "load", ArraySource.load)
    assert dict(gather(model, "m", wild=Some(wild)).about.rows)["Reported about"] == "84 images"


def test_of_copies_one_is_shown_for_review(model: Any) -> None:
    _, wild = tiny_model.labelled_and_wild()
    once, thrice = (gather(model, "m", wild=ArraySource(np.repeat(wild, n, axis=0))) for n in (1, 3))

    def scores(facts: Any, rows: list[int]) -> list[float]:
        return [facts.samples[i].score for i in rows]

    few = len(thrice.review)
    assert few >= 15, "of the 60 that are kept a third"
    assert scores(thrice, thrice.review) == pytest.approx(scores(once, once.review)[:few], abs=1e-4)
    shown = scores(thrice, thrice.review + thrice.borderline)
    assert np.diff(np.sort(shown)).min() > 1e-5, "no two alike"


def test_a_model_without_wild_images_has_a_report_too() -> None:
    labelled, _ = tiny_model.labelled_and_wild()
    from wildspec import Training, WildClassifier

    with pytest.warns(UserWarning, match="no wild images"):
        model = WildClassifier(training=Training(epochs=2), size=10, alpha=0.1, device="cpu").fit(labelled)
    page = report_html(model, "m", with_map=False)
    assert "no wild images to report about" in page
    assert 'id="sec-review"' not in page


class _Outside(HTMLParser):
    """Collects every address an element would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if key in ("src", "href", "srcset", "action", "data", "poster") and value:
                self.found.append(value)


def test_the_page_asks_for_nothing(page: str) -> None:
    parser = _Outside()
    parser.feed(page)
    assert parser.found
    assert all(value.startswith(("#", "data:")) for value in parser.found), "only parts of the page itself"
    assert not re.search(r"@import|url\((?!['\"]?data:)|fetch\(|XMLHttpRequest|import\(", page)
    assert "Content-Security-Policy" in page


def test_every_part_is_there(page: str) -> None:
    for part in ("numbers", "review", "scores", "map", "classes", "model"):
        assert f'id="sec-{part}"' in page
        assert f'href="#sec-{part}"' in page
    assert page.count('class="plot"') == 4  # distributions, trade-off, calibration, spectrum; too few for reliability
    assert page.count('class="map"') == 1
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        ET.fromstring(drawing)  # well formed
        assert "aria-label=" in drawing
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL).group(1))  # type: ignore[union-attr]
    assert len(data["samples"]) == page.count('class="pt ')


def test_of_many_classes_the_most_frequent_mistakes_are_shown(model: Any) -> None:
    rng = np.random.default_rng(0)
    facts, classes = gather(model, "m"), tuple(f"class <{i}>" for i in range(300))
    labels, likely = rng.integers(0, 300, 4000), rng.integers(0, 300, 4000)
    labels[:50], likely[:50] = 7, 8
    kept = np.zeros(4000, bool)
    known = dataclasses.replace(facts.known, scores=np.zeros(4000), rejected=kept, labels=labels, likely=likely)
    many = dataclasses.replace(
        facts, about=dataclasses.replace(facts.about, classes=classes), groups={**facts.groups, "validation": known}
    )
    shown = _classes(many)
    first = shown.split("<tbody>")[1].split("</tr>")[0]
    times = int(np.sum((labels == 7) & (likely == 8)))
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", first.replace("\u00a0", " "))
    assert cells == ["class &lt;7&gt;", "class &lt;8&gt;", str(times), percent(times / np.sum(labels == 7))]
    assert shown.split("</tbody>")[0].count("<tr>") == 1 + 40
    assert len(shown) < 20_000
    right = dataclasses.replace(many, groups={**facts.groups, "validation": dataclasses.replace(known, likely=labels)})
    assert "none was rejected or given another class" in _classes(right)
    assert "<tbody>" in _classes(facts)
    assert "true class of" in _classes(facts), "few classes: the whole table"


def test_names_are_text_never_markup(model: Any) -> None:
    evil = "</script><img src=x onerror=alert(1)>.png"
    _, wild = tiny_model.labelled_and_wild()
    page = report_html(model, f"<b>{evil}", wild=ArraySource(wild, names=[evil] * len(wild)), with_map=False)
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL).group(1))  # type: ignore[union-attr]
    assert evil in {sample["name"] for sample in data["samples"]}


def test_the_same_model_gives_the_same_page(model: Any) -> None:
    assert report_html(model, "m", with_map=False) == report_html(model, "m", with_map=False)


def test_an_empty_set_is_an_error(model: Any) -> None:
    from wildspec.errors import InputError

    with pytest.raises(InputError, match="unknown set is empty"):
        gather(model, "m", semantic=ImageArrays(torch.zeros(0, 3, 10, 10, dtype=torch.uint8)))
