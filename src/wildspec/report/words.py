"""The report in plain words: what the model found, what it promises, what to do next."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wildspec.decision.calibration import samples_needed
from wildspec.decision.class_rates import ClassRate, rates_in_words
from wildspec.decision.shares import wilson
from wildspec.evaluation import Calibration, JointCalibration, Mixture
from wildspec.evaluation.report import joint_score
from wildspec.report.facts import FIRM, Facts
from wildspec.report.svg import percent

MANY = 0.5  # of the wild pool rejected: something else than unknown classes may be the reason
FEWEST = 10  # images that are a pool
NAMED = 5  # classes in a sentence


def headline(facts: Facts) -> str:
    """The news, in one sentence: what goes wrong, else what the wild pool holds, else what the model is."""
    classes, what = len(facts.about.classes), facts.about.what
    shifted, unknown, wild = (facts.groups.get(key) for key in ("covariate", "semantic", "wild"))
    if shifted is not None and unknown is not None:
        lost, caught = float(np.mean(shifted.rejected)), float(np.mean(unknown.rejected))
        if lost >= caught:
            return (
                f"Shifted known {what} are rejected as often as unknown ones, or more: {percent(lost)} against "
                f"{percent(caught)}."
            )
        return f"{percent(caught)} of unknown {what} are rejected, and {percent(lost)} of known ones under shift."
    if wild is None:
        return f"A model of {classes} classes; no wild {what} to report about (give some: --data)."
    rejected = int(wild.rejected.sum())
    if len(wild) == 1:
        return f"The one wild {what.removesuffix('s')} looks like {'none' if rejected else 'one'} of your {classes} classes."
    if rejected == 0:
        return f"All {len(wild):,} wild {what} look like one of your {classes} classes."
    look = "looks" if rejected == 1 else "look"
    said = f"Of {len(wild):,} wild {what} {rejected:,} {look} like none of your {classes} classes"
    sizes = [] if facts.listed is None else facts.listed.sizes
    if sizes and sizes[0] >= FEWEST and 2 * sizes[0] >= rejected:
        all_of = "all alike" if sizes[0] == rejected else f"{sizes[0]:,} of them alike"
        return f"{said}, {all_of}."
    return f"{said}."


def advice(facts: Facts) -> list[str]:
    """A few sentences that follow from the numbers."""
    said = []
    warning = hardly_better(facts.known.labels, facts.known.likely, facts.about.what)
    if facts.known.labels is not None and warning:
        right = float(np.mean(facts.known.labels == facts.known.likely))
        said.append(f"Of the {facts.about.what} held out {percent(right)} were given the right class. {warning}")
    if facts.fresh:
        said += hidden_classes(facts.known.labels, facts.known.likely, facts.about.classes, facts.about.what)
    wild = facts.groups.get("wild")
    if wild is not None and (why := mostly_rejected(int(wild.rejected.sum()), len(wild), facts.about.what)):
        said.append(f"{why[:1].upper()}{why[1:]}.")
    mixture = pool_mixture(facts)
    if mixture is not None:
        said.append(f"Whatever the threshold: {pool_in_words(mixture)}")
    if facts.unknown is not None and wild is not None:
        low, high = (round(len(wild) * share) for share in facts.unknown)
        said.append(f"Estimated: {low:,} to {high:,} of the wild {facts.about.what} belong to none of your classes.")
    if facts.listed is not None and facts.listed.typical:
        count, sizes = len(facts.listed.typical), facts.listed.sizes
        kinds = "one group" if count == 1 else f"{count:,} groups, the largest of {sizes[0]:,}"
        said.append(f"Review the rejected ones first: they fall into {kinds}.")
    if facts.listed is not None and any(facts.listed.answers):
        answered = sum(bool(one) for one in facts.listed.answers)
        have = "has an answer" if answered == 1 else "have answers"
        said.append(
            f"{answered:,} of the wild {facts.about.what} {have} of a person; "
            f"they changed the decision about {int(facts.listed.turned.sum()):,}. The list marks both."
        )
    if facts.borderline:
        some = f"the {len(facts.borderline)} borderline ones" if len(facts.borderline) > 1 else "the borderline one"
        said.append(
            f"{'Then' if facts.review else 'Review'} {some}: a small change of the threshold decides "
            f"{'them' if len(facts.borderline) > 1 else 'it'}."
        )
    known = facts.known
    kept = float(np.mean(~known.rejected))
    what, alpha = facts.about.what, facts.about.alpha
    source = "that nothing was learned from" if facts.fresh else "the threshold was calibrated on"
    if facts.taught:
        source = "held out"
        said.append(
            f"{facts.taught:,} of the {what} held out taught the network that this fit started from (--init): what is "
            "measured on them says little. Give others (--test)."
        )
    said.append(
        f"Of {len(known):,} labelled {what} {source}, {percent(kept)} were kept "
        f"(promised on average: at least {percent(1 - alpha)})."
    )
    calibration = facts.about.calibration
    if facts.fresh and calibration and (warning := broken_promise(calibration, 1 - kept, len(known), what)):
        said.append(warning)
    if calibration and (warning := cautious(calibration, what)):
        said.append(f"{warning[:1].upper()}{warning[1:]}.")
    if known.labels is not None and kept:
        right = known.likely == known.labels
        said.append(f"Among those kept, {percent(float(right[~known.rejected].mean()))} were given the right class.")
    if len(known) < FIRM:
        firmer = f"More test {what} make" if known.key == "test" else f"More labelled {what}, or --held-out, make"
        said.append(f"{len(known)} {what} are few: such shares are uncertain by some points. {firmer} them firmer.")
    if any(one.count for one in facts.rates):
        worst = class_words(facts.rates, calibration, alpha, what)
        said.append(f"{worst[:1].upper()}{worst[1:]}.")
    return said


def class_words(rates: Sequence[ClassRate], calibration: Calibration | None, alpha: float, what: str) -> str:
    """The class that is rejected most, and those of which too little is known."""
    own = calibration is not None and calibration.labels is not None
    return rates_in_words(rates, alpha, samples_needed(alpha), what, own=own)


def hardly_better(labels: np.ndarray | None, likely: np.ndarray, what: str = "images") -> str | None:
    """Where the largest class, named every time, would be right about as often (its share is not below the 95 % interval of
    the accuracy): a line that says so. Nothing else that such a model says is worth much."""
    if labels is None or len(labels) == 0:
        return None
    guess = float(np.bincount(labels).max()) / len(labels)
    if wilson(float(np.mean(labels == likely)), len(labels))[0] > guess:
        return None
    more = "more --minutes, more labelled images, or weights to start from (--init)"
    help_it = more if what == "images" else f"more labelled {what}, or those of another network"
    return (
        f"That is hardly better than guessing: naming the largest class every time is right in {percent(guess)}. "
        f"What may help: {help_it}."
    )


def hidden_classes(labels: np.ndarray | None, likely: np.ndarray, classes: Sequence[str], what: str = "images") -> list[str]:
    """What one accuracy over all hides where classes are unequal: those of which two or more samples were held out and none
    recognised, and those of which none was held out."""
    if labels is None or len(labels) == 0:
        return []
    held = np.bincount(labels, minlength=len(classes))
    right = np.bincount(labels[labels == likely], minlength=len(classes))
    said = []
    if missed := [f"{classes[c]} ({held[c]:,})" for c in np.flatnonzero((held > 1) & (right == 0)).tolist()]:
        said.append(f"None of the {what} held out of these classes was recognised: {_some(missed)}.")
    if unseen := [classes[c] for c in np.flatnonzero(held == 0).tolist()]:
        one = what.removesuffix("s")
        said.append(f"The accuracy does not speak of these classes, of which no {one} was held out: {_some(unseen)}.")
    return said


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


def mostly_rejected(rejected: int, count: int, what: str = "images") -> str | None:
    """Where most of the pool is rejected: what else than unknown classes may be the reason."""
    if rejected <= MANY * count or count < FEWEST:
        return None
    one = what.removesuffix("s")
    style = f"in a style no labelled {one} shows"
    return f"that is most of the pool: where these are your classes {style}, say so of some of them (wildspec review)"


def shift_in_words(shifted: int, what: str = "images") -> str | None:
    """Where a part of the pool has a higher threshold. It may be unknown things alone; nobody but a person can tell."""
    if not shifted:
        return None
    return (
        f"shift: {shifted:,} of them seem to come from other conditions than the labelled {what}, and more of these are "
        "kept for it; where you know that conditions are the same, say --no-shift, else a few answers do (wildspec review)"
    )


def broken_promise(calibration: Calibration, rejected: float, count: int, what: str = "images") -> str | None:
    """Where more of ``count`` new known samples were rejected than 39 of 40 calibration sets of this size lead to: a line
    that says so. The threshold keeps its promise on average over such sets; this one was drawn unluckily, or the new samples
    are not like those it was calibrated on."""
    if rejected <= calibration.interval(test_size=count)[1]:
        return None
    return (
        f"That is fewer than chance explains: the {calibration.n} {what} the threshold rests on were more typical than "
        f"most. More labelled {what} or a larger --held-out steady it."
    )


def cautious(calibration: Calibration, what: str = "images") -> str | None:
    """Where the threshold is the largest of its calibration scores, so that few unknown samples lie above it: a line that
    says so, and the smallest round alpha at which it is not."""
    if calibration.rank < calibration.n:
        return None
    larger = next((alpha for alpha in (0.05, 0.1, 0.2) if 2 / alpha - 1 <= calibration.n), None)
    other = "" if larger is None else f" or --alpha {larger:g}, which keeps fewer known ones,"
    return (
        f"the threshold is the largest score of {calibration.n} labelled {what}, a cautious one: more labelled "
        f"{what}{other} let it reject more unknown ones"
    )


def pool_in_words(mixture: Mixture) -> str:
    """The share of unknown images. From scores trained against the pool (`excess_mixture`, which leaves pi_c out) it is the
    share of unlike ones, and a rough one: the range comes first. Beside the truth: docs/results/own-images.md."""
    if mixture.pi_c is not None or not mixture.separated:
        said = mixture.describe()
        return said[:1].lower() + said[1:]
    low, high = (round(mixture.n * share) for share in mixture.pi_s_interval)
    about = round(mixture.n * mixture.pi_s)
    return (
        f"between {low:,} and {high:,} of your {mixture.n:,} wild images are unlike the labelled ones, {about:,} is a rough "
        "guess: of no class, or of yours in a style that no labelled image shows."
    )


def pool_mixture(facts: Facts) -> Mixture | None:
    """What the pool the model was fitted with seems to hold, where that pool is the one reported about."""
    wild, calibration = facts.groups.get("wild"), facts.about.calibration
    if wild is None or not isinstance(calibration, JointCalibration) or len(wild) != calibration.mixture.n:
        return None
    return calibration.mixture


def metric_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """Name, value, what it means."""
    known = facts.known
    kept = ~known.rejected
    rows: list[tuple[str, str, str]] = []
    if known.labels is not None:
        right = known.likely == known.labels
        rows.append(("Accuracy", percent(float(right.mean())), f"{known.title} ({len(known):,}), nothing rejected"))
        if kept.any():
            rows.append(("Accuracy among kept", percent(float(right[kept].mean())), "right class, of those kept"))
    rows.append(("Kept", percent(float(kept.mean())), f"{known.title}: taken for one of the classes"))
    wild = facts.groups.get("wild")
    if wild is not None:
        share = percent(float(wild.rejected.mean()))
        what = facts.about.what
        pool = f"{len(wild):,} wild {what}" if len(wild) > 1 else f"one wild {what.removesuffix('s')}"
        rows.append(("Wild rejected", share, f"of {pool} of unknown composition"))
    mixture = pool_mixture(facts)
    if mixture is not None:
        low, high = mixture.pi_s_interval
        meaning = f"of the wild pool, an estimate: between {percent(low)} and {percent(high)}"
        rows.append(("Unlike share" if mixture.pi_c is None else "Unknown share", percent(mixture.pi_s), meaning))
    return rows + _evaluation_rows(facts)


def _evaluation_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """What labelled test sets add: first the decisions as they were taken, then the ranking at any threshold."""
    found: Any = facts.evaluation
    if found is None:
        return []
    shifted, unknown = facts.groups.get("covariate"), facts.groups.get("semantic")
    kept = None if shifted is None else float(np.mean(~shifted.rejected))
    caught = None if unknown is None else float(np.mean(unknown.rejected))
    joint = joint_score(found.ood_acc, kept, caught)
    rows = [
        ("Accuracy under shift", found.ood_acc, "known, shifted; nothing rejected"),
        ("Shifted kept", kept, "known, shifted: taken for one of the classes"),
        ("Unknown rejected", caught, "unknown: taken for none of the classes"),
        ("Joint", joint, "harmonic mean of accuracy under shift, shifted kept and unknown rejected"),
        ("FPR95", found.fpr95_id, "unknown accepted when 95 % of clean known are kept; lower is better"),
        ("AUROC", found.auroc, "clean known against unknown"),
        ("FPR95, full spectrum", found.fs_fpr95, "the same with shifted known images counted as known"),
        ("AUROC, full spectrum", found.fs_auroc, "clean and shifted known against unknown"),
    ]
    return [(name, percent(value), meaning) for name, value, meaning in rows if value is not None]
