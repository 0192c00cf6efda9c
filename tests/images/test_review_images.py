"""Questions and answers of an image model on a frozen network: names of files, no second look at pixels, one bundle."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import frozen_bundle
import tiny_model
import wildspec
from tiny_backbone import Grid
from wildspec import Files, WildClassifier
from wildspec.decision.thresholds import learn_thresholds
from wildspec.errors import CheckpointError, InputError
from wildspec.evaluation.metrics import auroc
from wildspec.report import write_report
from wildspec.report.image_facts import gather
from wildspec.serving.engine import BundleEngine

FROZEN: dict[str, Any] = {"training": None, "size": 24, "device": "cpu", "alpha": 0.1}
pytestmark = pytest.mark.filterwarnings("ignore:the labelled images are tiny")


@pytest.fixture
def model() -> WildClassifier:
    return wildspec.load(frozen_bundle.bundle(), device="cpu")


@pytest.fixture(scope="module")
def shifted() -> np.ndarray:
    return tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 15), 80, shifted=True)[0]


def answers(names: list[str]) -> dict[str, str]:
    return {name: frozen_bundle.truth(name) for name in names}


def test_images_are_named_and_answers_tell_unknown_from_shifted(
    model: WildClassifier, shifted: np.ndarray, unknown: np.ndarray
) -> None:
    before = auroc(model.ood_score(shifted), model.ood_score(unknown))
    for _ in range(3):
        asked = model.questions(10)
        assert len(set(asked)) == 10
        model.answer(answers(asked))
    assert set(model.questions(84, "boundary")).isdisjoint(model.review().answers)
    assert len(model.review().answers) == 30
    assert auroc(model.ood_score(shifted), model.ood_score(unknown)) > max(before, 0.9)


def test_nothing_goes_through_the_network_again() -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    grid = Grid()
    made = WildClassifier(grid, files=Files(cache=False), **FROZEN).fit(labelled, wild)
    passes = grid.passes
    made.answer(dict.fromkeys(made.questions(6), "unknown"))
    assert grid.passes == passes


def test_threshold_temperature_metrics_and_evidence_are_those_of_the_new_decision(model: WildClassifier) -> None:
    calibration, validation = model.fitted_.aside.calibration, model.fitted_.aside.validation  # type: ignore[union-attr]
    model.answer(answers(model.questions(12)))
    decision, evidence, metrics = model.fitted_.decision, model.fitted_.evidence, model.metrics_
    labelled = decision.rule.scores_in_turns()
    scores = np.sort(np.r_[decision.rule.decide(calibration).score, labelled])
    assert model.threshold_ == scores[int(np.ceil((len(scores) + 1) * 0.9)) - 1]
    decided = decision.rule.decide(validation)
    np.testing.assert_allclose(evidence["validation.score"].numpy(), decided.score)
    kept = decided.score <= decision.thresholds.at(decided)
    assert metrics["validation"]["kept"] == kept.mean()
    right = decided.probabilities.argmax(axis=1) == evidence["validation.label"].numpy()
    assert metrics["validation"]["accuracy"] == right.mean()
    facts = model.review().facts()
    assert metrics["wild"]["rejected"] == facts["rejected"] == int(evidence["wild.rejected"].sum())
    assert metrics["wild"]["answers"] == facts["answers"] == 12
    np.testing.assert_array_equal(evidence["wild.score"].numpy(), decision.rule.wild_score)


def test_the_pool_is_judged_as_such_images_are(model: WildClassifier) -> None:
    wild = frozen_bundle.folder() / "wild"
    model.answer(answers(model.questions(12)))
    evidence = model.fitted_.evidence
    likely = model.predict_proba(str(wild)).argmax(axis=1)
    assert (evidence["wild.likely"].numpy() == likely).mean() > 0.9  # the pool's own images stand in its graph
    assert (evidence["wild.rejected"].numpy() == (model.predict(str(wild)) == "rejected")).mean() > 0.9


def test_images_beyond_those_that_the_rule_looks_at_are_judged_the_same(model: WildClassifier) -> None:
    model.answer(answers(model.questions(12)))
    decision = model.fitted_.decision
    r = model.fitted_.evidence["wild.shifted"].numpy()
    whole = decision.judge_pool(r)  # type: ignore[union-attr]
    answered = decision.rule
    some = np.arange(0, 84, 2)
    fewer = replace(answered.rule, reference=some, wild_score=answered.rule.wild_score[some], wild_shifted=r[some])
    part = replace(answered, rule=fewer, wild_score=answered.wild_score[some])
    again = replace(decision, rule=part).judge_pool(r)  # type: ignore[type-var]
    np.testing.assert_allclose(again.score, whole.score, atol=1e-6)


def test_a_bundle_keeps_answers_and_every_command_reads_it(
    model: WildClassifier, shifted: np.ndarray, tmp_path: Path
) -> None:
    strange = [f"w{number:03d}.png" for number in range(60, 75)]
    model.answer(dict.fromkeys(strange, "stripes") | answers(model.questions(5)))
    assert model.classes_.tolist() == [*tiny_model.CLASSES, "stripes"]
    model.save(tmp_path / "M")
    again = wildspec.load(tmp_path / "M", device="cpu")
    np.testing.assert_array_equal(again.ood_score(shifted), model.ood_score(shifted))
    assert again.predict_proba(shifted).shape[1] == 4
    assert again.review().answers == model.review().answers
    assert again.questions(5) == model.questions(5)
    assert again.metrics_ == model.metrics_
    write_report(again, tmp_path / "report.html", "example")
    assert "stripes" in (tmp_path / "report.html").read_text()
    assert BundleEngine(again, "m").describe()["classes"] == again.classes_.tolist()
    assert len(again.explain(shifted[:1])) == 1
    more = answers(again.questions(4))
    np.testing.assert_array_equal(again.answer(more).ood_score(shifted), model.answer(more).ood_score(shifted))
    taken_back = again.answer(dict.fromkeys(strange, "unknown"))  # the class goes, and can be kept so
    assert taken_back.classes_.tolist() == list(tiny_model.CLASSES)
    taken_back.save(tmp_path / "M")
    assert wildspec.load(tmp_path / "M", device="cpu").predict_proba(shifted).shape[1] == 3


def test_what_cannot_be_asked_says_so_in_a_line(model: WildClassifier, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="frozen"):
        tiny_model.fitted().questions(3)
    model.fitted_.aside = None  # type: ignore[union-attr]
    model.save(tmp_path / "old")
    old = wildspec.load(tmp_path / "old", device="cpu")
    with pytest.raises(InputError, match="fit it again"):
        old.questions(3)
    labelled, wild = tiny_model.labelled_and_wild()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = WildClassifier(Grid(), **FROZEN).fit(labelled)
        few = WildClassifier(Grid(), **FROZEN).fit(labelled, wild[:9])
    for one in (alone, few):
        with pytest.raises(InputError, match="20 wild"):
            one.answer({"0": "bar"})


def test_mistakes_change_nothing_and_copies_are_one_thing(model: WildClassifier, shifted: np.ndarray) -> None:
    before = model.ood_score(shifted)
    for given, word in [({"w999.png": "bar"}, "w999"), ({"w000.png": "Bar"}, "case"), ({3: "bar"}, "3"),
                        ({"w000.png": "rejected"}, "rejected")]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            model.answer(given)
    np.testing.assert_array_equal(model.answer({}).ood_score(shifted), before)
    labelled, wild = tiny_model.labelled_and_wild()
    twice = np.concatenate([wild, wild[:1]])
    made = WildClassifier(Grid(), **FROZEN).fit(labelled, twice)
    first, last = made.review().names[[0, 84]]
    with pytest.raises(InputError, match="copies"):
        made.answer({first: "bar", last: "unknown"})


def test_two_files_of_one_name_are_told_apart(model: WildClassifier) -> None:
    fitted = model.fitted_
    fitted.aside = replace(fitted.aside, pool=["x.png"] * 84)  # type: ignore[union-attr, type-var]
    names = model.questions(84, "random")
    assert len(set(names)) == 84
    model.answer({names[0]: "bar"})
    assert list(model.review().answers) == [names[0]]


@pytest.mark.parametrize("part", ["held", "validation", "pool", "shifted", "answers", "network"])
def test_parts_that_do_not_fit_are_refused(model: WildClassifier, tmp_path: Path, part: str) -> None:
    from wildspec.bundle.store import write_bundle
    from wildspec.images.state import EVIDENCE, NAMES, RULE, pack

    model.answer(answers(model.questions(5)))
    record, files, more = pack(model.fitted_)
    if part in ("held", "validation"):
        files[RULE][part] = files[RULE][part][1:]
    elif part == "pool":
        more[NAMES]["pool"] = more[NAMES]["pool"][1:]
    elif part == "shifted":
        files[EVIDENCE]["wild.shifted"] = torch.full((84,), 2.0, dtype=torch.float64)
    elif part == "answers":
        record["frozen"]["answers"]["given"] = record["frozen"]["answers"]["given"][1:]
    else:
        record["frozen"]["answers"]["known"] = 2
    write_bundle(tmp_path / "M", "images", record, files, more)
    with pytest.raises(CheckpointError):
        wildspec.load(tmp_path / "M", device="cpu")


def test_calibration_never_rests_on_answers(model: WildClassifier) -> None:
    """However many answers, and whatever they say: as many calibration scores as before, of labelled images alone."""
    held = model.fitted_.aside.calibration.copy()  # type: ignore[union-attr]
    before = len(model.fitted_.decision.calibration.scores)
    model.answer(dict.fromkeys(model.questions(60, "most_unlike"), "bar"))
    decision = model.fitted_.decision
    own = np.r_[decision.rule.decide(held).score, decision.rule.scores_in_turns()]
    np.testing.assert_array_equal(decision.calibration.scores, np.sort(own))
    assert len(decision.calibration.scores) == before
    assert model.threshold_ == learn_thresholds(decision.rule, held, 0.1).value


def test_a_promise_for_shifted_images_is_kept_in_the_bundle(model: WildClassifier, tmp_path: Path) -> None:
    drawn = model.questions(40, "random")
    model.answer(answers(drawn), promise=0.2)
    facts = model.review().facts()
    assert facts["promise"]["made"]
    assert facts["shares"]["drawn"] == 40
    unknown = sum(frozen_bundle.truth(name) == "unknown" for name in drawn) / 40
    assert model.metrics_["wild"]["unknown"] == pytest.approx(unknown)
    assert model.metrics_["wild"]["answers"] == 40
    assert "drawn at random" in model.fitted_.decision.describe()
    facts_of_report = gather(model, "example")
    assert facts_of_report.listed is not None
    assert sum(bool(said) for said in facts_of_report.listed.answers) == 40
    model.save(tmp_path / "M")
    again = wildspec.load(tmp_path / "M", device="cpu")
    assert again.review().answers == model.review().answers
    assert again.review().facts() == facts
    again.answer(answers(again.questions(5)))  # what was promised is promised again
    assert again.review().facts()["promise"]["made"]
    assert again.fitted_.decision.thresholds.promise.alpha == 0.2  # type: ignore[union-attr]
