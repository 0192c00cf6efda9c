"""A person in the loop: the one object behind ``questions`` and ``answer`` of both estimators, the command and the page.

    review = model.review()                 of a fitted SpectralClassifier, or WildClassifier on a frozen network
    names = review.ask(20)                  what to look at: rows of the wild table, or names of wild images
    review.about(names)                     what the model thinks of each, for showing
    review.answer({names[0]: "cat"})        noted at once, nothing is learned yet; or: nothing, and an InputError
    review.undo()                           takes the last answer back
    review.skip(names[1:2])                 asked about and passed over
    review.promise = 0.1                    answers to rule "random" shall promise something, not teach (may be left out)
    review.refit()                          learns from all answers, in seconds
    model.take(review)                      the model is what the last refit has learned; then model.save(...)

An answer is a known class, "unknown" (kept as None), or a new name. Names that have an answer are not asked about again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.checks import integer, open_fraction
from wildspec.decision.answers import (
    AnsweredRule,
    check_answer,
    check_copies,
    copy_keys,
    learn_answers,
    without_answers,
)
from wildspec.decision.calibration import samples_needed
from wildspec.decision.drawn import (
    SHIFTED,
    PoolShares,
    ShiftedPromise,
    drawn_samples,
    group_values,
    more_answers,
    pool_shares,
    random_order,
)
from wildspec.decision.questions import Pool, choose
from wildspec.decision.rule import Rule
from wildspec.decision.shares import FEWEST
from wildspec.decision.thresholds import Thresholds, learn_thresholds
from wildspec.decision.turns import ENOUGH
from wildspec.errors import InputError, InputTypeError
from wildspec.graph.search import Rows

Numbers = NDArray[np.int64]
NOTHING, SKIPPED = object(), object()  # was said before


@dataclass(frozen=True, eq=False)
class Learned:
    """``model``: the rule, with answers or without; ``thresholds`` of it; ``classes``: those of ``fit``, then new ones."""

    model: Rule | AnsweredRule
    thresholds: Thresholds
    classes: list[Any]

    @property
    def rule(self) -> Rule:
        return self.model.rule if isinstance(self.model, AnsweredRule) else self.model

    @property
    def taught(self) -> dict[int, Any]:
        """Sample of the graph -> answer that was learned from."""
        return self.model.given if isinstance(self.model, AnsweredRule) else {}

    @property
    def given(self) -> dict[int, Any]:
        """Sample of the graph -> answer; those that were learned from and those that a promise rests on."""
        promise = self.thresholds.promise
        return {**self.taught, **(promise.given if promise is not None else {})}

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """(m,) of the wild samples that the model looks at."""
        return self.thresholds.reject_pool(self.model)

    @property
    def skipped(self) -> tuple[int, ...]:
        """Samples without an answer that count as drawn."""
        promise = self.thresholds.promise
        return () if promise is None else promise.skipped

    @property
    def known(self) -> int:
        """Classes of ``fit``."""
        return self.model.known if isinstance(self.model, AnsweredRule) else len(self.classes)


@dataclass(frozen=True)
class Question:
    """A wild sample as the model sees it. ``shifted``: posterior of the shifted group; rejected where score > threshold."""

    name: Any
    likely: Any
    probability: float
    score: float
    threshold: float
    shifted: float

    @property
    def rejected(self) -> bool:
        return self.score > self.threshold


class Review:
    """``learned``: the model so far, and after `refit` the new one. ``held``: (n, d) prepared labelled rows that nothing was
    learned from, ``held_labels``: (n,) their classes; thresholds rest on them. ``names``: (g,) what the samples of the graph
    are called, whole numbers or text. ``pool_id``: names the pool, the same before and after answers. ``promise``: share of
    shifted samples of known classes that may be rejected; answers to the rule "random" then calibrate that
    (`wildspec.decision.drawn`) and teach nothing, if they are enough. None: they teach like all others.

    Not for several threads at once, but for one: `refit` may run beside the other calls. It takes the answers as they are
    when it starts, and replaces ``learned`` when it is done.
    """

    def __init__(
        self, learned: Learned, held: Rows, names: NDArray[Any], pool_id: str, held_labels: Numbers | None = None
    ) -> None:
        self.learned, self.held, self.names, self.pool_id = learned, held, names, pool_id
        self.held_labels = held_labels
        self.promise = None if learned.thresholds.promise is None else learned.thresholds.promise.alpha
        self._base, self._known, self._given = learned.rule, learned.known, learned.given
        self._skipped = set(learned.skipped)
        self._before: list[tuple[int, Any]] = []  # sample, and what was said of it before: an answer, SKIPPED or NOTHING
        self._place = {name: place for place, name in enumerate(names.tolist())}
        graph = learned.rule.graph
        if graph is None or not len(names):
            raise InputError(
                f"the model has {len(names)} wild samples and none to ask about; fit it with 20 wild samples or more"
            )
        if len(graph) != len(names):
            raise InputError(f"the model has {len(graph)} wild samples but {len(names)} names for them; fit it again")
        self._order = learned.rule.reference[random_order(names[learned.rule.reference].tolist())]

    # -- asking --------------------------------------------------------------------------------------------------------
    def ask(self, n: int = 20, rule: str = "groups") -> list[Any]:
        """At most n names without an answer, the most wanted first (`wildspec.decision.questions`). Rule "random" walks
        down one order of the pool: the first answers to it, without a gap, count as drawn."""
        base = self.learned.rule
        if rule == "random":
            unasked = self._order[~np.isin(self._order, [*self._given, *self._skipped])]
            return list(self.names[unasked[: integer("n", n, minimum=1)]].tolist())
        unanswered = np.flatnonzero(~np.isin(base.reference, [*self._given, *self._skipped]))
        generator = np.random.default_rng([base.settings.seed, len(self._given)])
        chosen = unanswered[choose(rule, self.pool(unanswered), n, generator)]
        return list(self.names[base.reference[chosen]].tolist())

    def about(self, names: Iterable[Any]) -> list[Question]:
        """What the model thinks of samples that `ask` may name."""
        where = {int(sample): i for i, sample in enumerate(self.learned.rule.reference.tolist())}
        asked = list(names)
        places = self.places(asked)
        for name, place in zip(asked, places, strict=True):
            if place not in where:
                some = f"the {len(where):,} wild samples that the model looks at"
                raise InputError(f"{name!r} is not among {some}; take names that its questions gave")
        chosen = np.array([where[place] for place in places], np.int64)
        seen, shifted = self.pool(chosen), self.learned.model.wild_shifted[chosen]
        likely = seen.probabilities.argmax(axis=1)
        return [
            Question(
                name, self.learned.classes[likely[i]], float(seen.probabilities[i, likely[i]]), float(seen.scores[i]),
                float(seen.thresholds[i]), float(shifted[i]),
            )
            for i, name in enumerate(asked)
        ]  # fmt: skip

    def pool(self, chosen: Numbers | None = None) -> Pool:
        """The wild samples that the model looks at (all, of large pools 20,000), or ``chosen`` of them."""
        model, base = self.learned.model, self.learned.rule
        chosen = np.arange(len(base.reference)) if chosen is None else chosen
        shifted = model.wild_shifted[chosen]
        seen = self._base.reference_features[chosen]  # no answer changes them
        features, probabilities = base.of_members(base.reference[chosen], shifted, seen)
        if isinstance(model, AnsweredRule):
            probabilities = model.named(features, probabilities)
        return Pool(model.wild_score[chosen], self.learned.thresholds.at_shifted(shifted), features, probabilities)

    def shares(self) -> PoolShares | None:
        """What the pool is made of, from random answers that were learned or calibrated with; None where there are none."""
        return pool_shares(self.learned.rule, self._order, self.learned.given, self.learned.classes, self._skipped)

    def facts(self) -> dict[str, Any]:
        """Where the model stands, ready for JSON. ``shares``: of like labelled, shifted and unknown samples, each with its
        interval, from random answers. ``promise``: for shifted samples, and what it takes."""
        thresholds, rejected, shares = self.learned.thresholds, self.learned.rejected, self.shares()
        return {
            "classes": list(self.learned.classes), "answers": len(self.learned.given), "wild": len(rejected),
            "rejected": int(rejected.sum()), "unknown_share": thresholds.unknown,
            "unknown_interval": list(thresholds.interval), "shares": None if shares is None else shares.to_json(),
            "promise": self.promise_facts(),
        }  # fmt: skip

    def promise_facts(self) -> dict[str, Any]:
        """``alpha`` of the promise for shifted samples (where none was asked for: the model's), whether it is ``made``, how
        many drawn samples of known classes it has (``known``) and ``needed``, about how many answers are ``missing``."""
        promise = self.learned.thresholds.promise
        alpha = self.learned.thresholds.alpha if self.promise is None else self.promise
        given = self.learned.given
        drawn = drawn_samples(self._order, given, self._skipped).tolist()
        known = self._of_group([sample for sample in drawn if given.get(sample) in self.learned.classes])
        skipped = sum(sample not in given for sample in drawn)
        return {
            "alpha": alpha, "made": promise is not None, "drawn": len(drawn), "known": len(known),
            "needed": samples_needed(alpha, skipped), "missing": more_answers(alpha, len(known), len(drawn), skipped),
        }  # fmt: skip

    # -- answering -----------------------------------------------------------------------------------------------------
    @property
    def answers(self) -> dict[Any, Any]:
        """Name -> class, new name, or None = unknown: all so far, learned from or not."""
        return dict(zip(self.names[np.array(list(self._given), np.int64)].tolist(), self._given.values(), strict=True))

    def answer(self, given: Mapping[Any, Any]) -> None:
        """Note answers, name -> class, "unknown" or a new name. One for the same name replaces the former one."""
        if not isinstance(given, Mapping):
            raise InputTypeError(f"answers must be a dictionary, sample -> class, got {type(given).__name__}")
        classes = self.learned.classes
        numbers = not isinstance(classes[0], str)
        found = dict(self._given)
        for place, value in zip(self.places(given), given.values(), strict=True):
            others = [said for at, said in found.items() if at != place and said is not None and said not in classes]
            found[place] = check_answer(value, [*classes, *dict.fromkeys(others)], numbers)
        check_copies(self.learned.rule, found, self.names)
        self._before += [
            (place, self._given.get(place, SKIPPED if place in self._skipped else NOTHING)) for place in self.places(given)
        ]
        self._given = found
        self._skipped -= set(found)

    def skip(self, names: Iterable[Any]) -> None:
        """Pass over: names without an answer are not asked about again, and those drawn at random count as drawn."""
        self._skipped |= set(self.places(names)) - set(self._given)

    def undo(self) -> Any:
        """Take the last answer back; its name, or None where none was given in this review."""
        if not self._before:
            return None
        place, said = self._before.pop()
        if said is NOTHING or said is SKIPPED:
            del self._given[place]
            self._skipped |= {place} if said is SKIPPED else set()
        else:
            self._given[place] = said
        return self.names[place : place + 1].tolist()[0]

    def learn(self, given: Mapping[Any, Any], promise: float | None = None) -> bool:
        """Note answers and refit; promise: the share to be promised from now on. False: nothing was new."""
        self.answer(given)
        if promise is not None:
            self.promise = open_fraction("promise", promise)
        if not given and promise is None:
            return False
        self.refit()
        return True

    def refit(self) -> Learned:
        """Learn from all answers; the threshold is calibrated again on labelled samples alone."""
        given = dict(self._given)
        learned = None if self.promise is None else self._promised(given, self.promise)
        learned = self._learn(given) if learned is None else learned
        shares = pool_shares(self._base, self._order, given, learned.classes, self._skipped)
        if shares is not None and shares.drawn - shares.skipped >= FEWEST:
            counted = shares.unknown
            learned = replace(
                learned,
                thresholds=replace(learned.thresholds, unknown=counted.share, interval=(counted.low, counted.high)),
            )
        self.learned = learned
        return learned

    def turned(self) -> Numbers:
        """Samples of the graph, of those that the model looks at, about which it would decide otherwise without answers."""
        if not self.learned.given:
            return np.empty(0, np.int64)
        return np.asarray(self.learned.rule.reference[self.learned.rejected != self._learn({}).rejected])

    def _learn(self, given: dict[int, Any]) -> Learned:
        classes, model = self.learned.classes[: self._known], without_answers(self._base, self._known)
        taught: Rule | AnsweredRule = model
        asked = self.learned.thresholds
        if given:
            few = len(self.held) < ENOUGH and not asked.apart
            taught, classes = learn_answers(
                self._base, self.learned.classes, given, self._known, self.names, in_turns=few
            )
        thresholds = learn_thresholds(
            taught, self.held, asked.alpha, self.held_labels, per_class=asked.per_class, apart=asked.apart
        )
        return Learned(taught, thresholds, classes)

    def _promised(self, given: dict[int, Any], alpha: float) -> Learned | None:
        """Learned from chosen answers alone, with a promise from drawn ones; None where these are too few."""
        every = drawn_samples(self._order, given, self._skipped).tolist()
        drawn = {sample: given[sample] for sample in every if sample in given}
        skipped = tuple(sample for sample in every if sample not in given)
        some = self._of_group([sample for sample, said in drawn.items() if said is not None])
        if len(some) < samples_needed(open_fraction("promise", alpha), len(skipped)):
            return None
        copies = set(copy_keys(self._base, every))  # to learn from a copy is to learn from the sample
        rest = [sample for sample in given if sample not in drawn]
        taught = [sample for sample, key in zip(rest, copy_keys(self._base, rest), strict=True) if key not in copies]
        learned = self._learn({sample: given[sample] for sample in taught})
        place = {sample: i for i, sample in enumerate(learned.rule.reference.tolist())}
        known = [place[sample] for sample in some if drawn[sample] in learned.classes]
        if len(known) < samples_needed(alpha, len(skipped)) or not np.isfinite(learned.thresholds.value):
            return None
        everywhere = not self._base.shift.found
        model = learned.model
        values = group_values(learned.thresholds.value, model.wild_score[known], model.wild_shifted[known], everywhere)
        promise = ShiftedPromise(alpha, values, everywhere, drawn, skipped)
        return replace(learned, thresholds=learned.thresholds.promising(promise))

    def _of_group(self, samples: list[int]) -> list[int]:
        """Those that a promise for shifted samples is about: all, where no shift was found."""
        if not self._base.shift.found:
            return samples
        r = dict(zip(self._base.reference.tolist(), self._base.wild_shifted.tolist(), strict=True))
        return [sample for sample in samples if r.get(sample, 0.0) > SHIFTED]

    def again(self) -> "Review":
        """A review of the same model and pool, without the answers given in this one: where some are taken back, all others
        are given again."""
        made = Review(self.learned, self.held, self.names, self.pool_id, self.held_labels)
        made.promise = self.promise
        return made

    def places(self, names: Iterable[Any]) -> list[int]:
        """Names as samples of the graph."""
        found = []
        for name in names:
            name = str(name) if hasattr(name, "__fspath__") else name
            plain = isinstance(name, str) or (hasattr(name, "__index__") and not isinstance(name, bool))
            if not plain or name not in self._place:
                every = self.names.tolist()
                raise InputError(
                    f"the answers name {name!r}, which this model has not seen: its pool has {len(every):,} wild samples, "
                    f"{every[0]!r} to {every[-1]!r}; take the names that its questions gave"
                )
            found.append(self._place[name])
        return found
