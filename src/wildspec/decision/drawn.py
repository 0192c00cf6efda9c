"""What answers about samples drawn at random say of the whole pool: shares with exact intervals, a promise for shifted ones.

The pool has one random order, by a digest of its samples' names, the same in every fit; the question rule "random" walks
down it. The first k samples of the order that all have an answer are a random sample of the pool, whatever else was asked:
being among them does not depend on what a sample is. No answer behind the first gap counts, so none that a rule has chosen.
A sample that was asked about and passed over is no gap: it may be anything, and counts as the worst of it.

Shares. Of k drawn samples u are unknown and s passed over: the share lies between Clopper and Pearson's lower limit of u in
k and their upper one of u + s in k, at any k, the more so as the pool is finite. What was answered is certain: with U
unknown and K known answers in a pool of m, chosen ones too, the share of unknown samples lies in [U / m, 1 - K / m].

Promise. With t_id, r(x) and S(x) as in `wildspec.decision.thresholds`, a sample is kept when S <= t_id + r max(0, t - t_id),
that is, when v(x) = t_id + (S(x) - t_id) / r(x) <= t, or S <= t_id. Let v_1 <= ... <= v_n be those of the drawn samples of
a known class with r > 1/2, none of them learned from. With t = v_(ceil((n + 1)(1 - a))) at most a share a of such samples
is rejected in expectation, at any n >= ceil((1 - a) / a): split conformal, exact, whatever the other answers taught. With s
passed over, n + s takes the place of n: as if each of them were known and rejected, which only raises t. Where
no shift was found, r = 1: the promise is for every sample of a known class that comes as the pool does. Samples that were
learned from score lower; so of the pool as a whole rather fewer are rejected.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.calibration import calibrate, samples_needed
from wildspec.decision.class_rates import clopper_pearson
from wildspec.decision.rule import Rule

Numbers = NDArray[np.int64]
Vector = NDArray[np.float64]

SHIFTED = 0.5  # posterior above which a sample counts as shifted


def random_order(names: Iterable[Any]) -> Numbers:
    """Places of the names in the order in which rule "random" asks."""
    digests = [hashlib.blake2b(str(name).encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names]
    return np.array(sorted(range(len(digests)), key=digests.__getitem__), np.int64)


def drawn_samples(order: Numbers, given: Mapping[int, Any], skipped: Collection[int] = ()) -> Numbers:
    """The first of ``order``, samples of the graph, that all have an answer or were passed over."""
    open_ones = np.flatnonzero(~np.isin(order, [*given, *skipped]))
    return order[: open_ones[0]] if len(open_ones) else order


@dataclass(frozen=True)
class Share:
    """``count`` of the drawn samples; ``share`` of the pool, between ``low`` and ``high`` with 95 %."""

    count: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class PoolShares:
    """From ``drawn`` random samples, ``skipped`` of them without an answer: of the pool, how much is like the labelled
    samples (``known``), of a known class and ``shifted``, of no known class (``unknown``)."""

    drawn: int
    skipped: int
    known: Share
    shifted: Share
    unknown: Share

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("known", "shifted", "unknown")}
        shares = {name: [one.share, one.low, one.high] for name, one in parts.items()}
        return {"drawn": self.drawn, "skipped": self.skipped, **shares}

    def describe(self) -> str:
        """In words."""

        def said(one: Share) -> str:
            return f"{100 * one.share:.0f} % ({100 * one.low:.0f} to {100 * one.high:.0f} %)"

        kinds = f"{said(self.shifted)} known and shifted, {said(self.known)} like the labelled samples"
        if not self.shifted.count:
            kinds = f"{said(self.known)} of one"
        passed = f" ({self.skipped} passed over: they may be anything)" if self.skipped else ""
        drawn = f"from {self.drawn - self.skipped} answers drawn at random{passed}"
        return f"{drawn}: {said(self.unknown)} of the pool is of no known class, {kinds}"


def pool_shares(
    rule: Rule, order: Numbers, given: Mapping[int, Any], classes: Sequence[Any], skipped: Collection[int] = ()
) -> PoolShares | None:
    """Shares of the rule's pool; None without a random answer. ``classes``: what counts as known."""
    every = drawn_samples(order, given, skipped)
    drawn = every[np.isin(every, list(given))]
    if not len(drawn):
        return None
    posterior = dict(zip(rule.reference.tolist(), rule.wild_shifted.tolist(), strict=True))
    size = len(rule.graph) if rule.graph is not None else len(rule.reference)

    def kind(sample: int) -> str:
        if given[sample] not in classes:
            return "unknown"
        return "shifted" if posterior[sample] > SHIFTED else "known"

    seen = [kind(sample) for sample in drawn.tolist()]  # drawn from those that the rule looks at
    looked_at = [sample for sample in given if sample in posterior or given[sample] not in classes]
    certain = [kind(sample) for sample in looked_at]  # of a known class that the rule does not look at: shifted or not?

    def share(name: str) -> Share:
        count, found = seen.count(name), certain.count(name)
        least, most = found / size, (size - len(certain) + found) / size
        low, high = clopper_pearson(count, len(every))[0], clopper_pearson(count + passed, len(every))[1]
        low, middle, high = np.clip([low, count / len(seen), high], least, most).tolist()
        return Share(count, middle, low, high)

    passed = len(every) - len(drawn)
    return PoolShares(len(every), passed, share("known"), share("shifted"), share("unknown"))


@dataclass(frozen=True, eq=False)
class ShiftedPromise:
    """At most ``alpha`` of shifted samples of known classes are rejected. ``scores``: v of the n samples it rests on,
    ascending. ``everywhere``: no shift was found, r = 1. ``given``: the drawn answers, which nothing was learned from;
    ``skipped``: drawn samples that were passed over."""

    alpha: float
    scores: Vector
    everywhere: bool
    given: dict[int, Any] = field(default_factory=dict)
    skipped: tuple[int, ...] = ()

    @property
    def threshold(self) -> float:
        """t; samples passed over stand above all others."""
        return calibrate(np.r_[self.scores, np.full(len(self.skipped), self.scores[-1])], self.alpha).threshold

    def describe(self) -> str:
        """In words."""
        where = "that come as the wild pool does" if self.everywhere else "under the wild pool's shift"
        return (
            f"On average at most {100 * self.alpha:.3g} % of samples of known classes {where} are rejected: calibrated on "
            f"{len(self.scores)} of them that were drawn at random and that nothing was learned from."
            + (f" {len(self.skipped)} more were passed over: they count as rejected." if self.skipped else "")
        )


def group_values(base: float, scores: Vector, shifted: Vector, everywhere: bool) -> Vector:
    """t_id; (n,) S and r > 1/2 of samples that the promise is for -> (n,) v, ascending."""
    return np.sort(base + (scores - base) / (np.ones(len(shifted)) if everywhere else shifted))


def more_answers(alpha: float, known: int, drawn: int, skipped: int = 0) -> int:
    """About how many further random answers a promise takes, where ``known`` of ``drawn`` count so far."""
    missing = max(0, samples_needed(alpha, skipped) - known)
    return missing if not known else math.ceil(missing * drawn / known)
