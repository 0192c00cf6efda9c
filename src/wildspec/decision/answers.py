"""What a person said about wild samples, learned in seconds from the features that the rule already has.

An answer is a known class, unknown (None), or a new name. With C classes, f(x) the rule's features, S(x) its standardized
evidence and o(x) its term for what is unlike all that was seen (`wildspec.decision.rule`):

    z(x)    logits of a logistic regression on f of labelled and answered samples, C classes and a last one, unknown
    u(x)    = z_unknown - max_c z_c; without any unknown answer -log sum_c exp z_c; standardized over the pool to S's scale
    S_a(x)  = (1 - w) S(x) + w u(x) + o(x),   w = a / (a + 20) for a answers;  high = OOD
    p_a     = (1 - w) p + w softmax(z over the known classes)
    t_shift = quantile of S_a over the pool's shifted samples at min(k_z, (1 - w) k_S + w k_z), two estimates of how many of
              them are known: k_S, the share at or below their mean score, and k_z, the share that z calls known, which is
              rather too many than too few; none where they are other things (`Rule.other_things`)

Answers were chosen, not drawn: together they weigh as much as the labelled samples of one class, and no promise rests on
them. A new name is a known stranger, that is unknown, until `NEW_CLASS` samples have it; then it is a class of its own: its
samples join the rule's bank and its probe.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.bank import NEIGHBOR, ClassBank
from wildspec.decision.probe import LinearProbe, Probe, energy, fit_probe, softmax, weights_of
from wildspec.decision.rule import SMALLEST_POOL, Decided, Rule, evidence
from wildspec.decision.shift import Shift
from wildspec.decision.turns import turns
from wildspec.decision.verdicts import REJECTED, REJECTED_NAME
from wildspec.errors import InputError
from wildspec.graph.search import NeighborIndex, Rows
from wildspec.graph.wild_graph import WildGraph

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

UNKNOWN = "unknown"
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max  # of a class that is a number
LONGEST_NAME = 1000  # letters of a class
HALF = 20  # answers at which they count as much as the rule
NEW_CLASS = NEIGHBOR  # samples of a new name that make it a class: the distance to as many-th nearest is what is looked at


@dataclass(frozen=True, eq=False)
class AnsweredRule:
    """``rule`` with ``given``: sample of the graph -> class, new name, or None = unknown. ``known``: classes of ``fit``.

    ``head``: z, with n_classes outputs or one more, unknown. ``centre``, ``spread``: u = (raw - centre) / spread.
    ``wild_score`` (r,): of the rule's reference samples. ``odds_in_turns`` (n,): u of the labelled samples before it is
    standardized, each by what the others teach; ``called_unknown`` (r,): of the reference samples, by z. Both are for
    calibration and not kept in a bundle.
    """

    rule: Rule
    given: dict[int, Any]
    known: int
    head: LinearProbe
    centre: float
    spread: float
    wild_score: Vector
    odds_in_turns: Vector | None = None
    called_unknown: NDArray[np.bool_] | None = None

    def decide(self, rows: Rows) -> Decided:
        """(n, d) prepared rows -> decisions; every row on its own."""
        base = self.rule.decide(rows)
        if not len(rows):
            return base
        logits = self.head.logits(self.rule.features(rows))
        own = (_strangeness(logits, self.n_classes) - self.centre) / self.spread
        score = base.score + self.weight * (own - self.rule.standardized(base.evidence))
        return replace(base, probabilities=self._named(logits, base.probabilities), score=score)

    def shifted_threshold(self, calibrated: float) -> float:
        """t_shift; minus infinity where the pool has no shifted samples, or where they are other things."""
        shifted = self.wild_shifted > 0.5
        found = self.wild_score[shifted]
        if not len(found) or self.rule.other_things(found, calibrated):
            return -np.inf
        if self.called_unknown is None:
            return float(found.mean())
        by_score, by_answers = np.mean(found <= found.mean()), np.mean(~self.called_unknown[shifted])
        known = min(by_answers, (1 - self.weight) * by_score + self.weight * by_answers)
        return float(np.quantile(found, known))

    def scores_in_turns(self) -> Vector:
        """(n,) scores of the labelled samples, each by what the others teach; NaN: not scored."""
        if self.odds_in_turns is None:
            return np.full(len(self.labels), np.nan)
        plain, unseen = self.rule.parts_in_turns
        return plain + self.weight * ((self.odds_in_turns - self.centre) / self.spread - plain) + unseen

    def member_scores(self, chosen: Labels) -> Vector:
        """(m,) samples of the graph -> (m,) scores; of the rule's reference they are ``wild_score``."""
        base = self.rule.member_scores(chosen)
        odds = _strangeness(self.head.logits(self.rule.members(chosen)), self.n_classes)
        return base + self.weight * ((odds - self.centre) / self.spread - base)

    def named(self, features: Rows, probabilities: Vector) -> Vector:
        """(n, d) f(x), (n, C) probabilities of the rule -> (n, C) p_a."""
        return self._named(self.head.logits(features), probabilities)

    def _named(self, logits: Vector, probabilities: Vector) -> Vector:
        return (1 - self.weight) * probabilities + self.weight * softmax(logits[:, : self.n_classes])

    @property
    def weight(self) -> float:
        return len(self.given) / (len(self.given) + HALF)

    @property
    def n_classes(self) -> int:
        return self.rule.n_classes

    @property
    def wild_shifted(self) -> Vector:
        return self.rule.wild_shifted

    @property
    def labelled(self) -> Rows:
        return self.rule.labelled

    @property
    def labels(self) -> Labels:
        return self.rule.labels

    @property
    def index(self) -> NeighborIndex:
        return self.rule.index

    @property
    def graph(self) -> WildGraph | None:
        return self.rule.graph

    @property
    def shift(self) -> Shift:
        return self.rule.shift


def learn_answers(
    rule: Rule, classes: list[Any], given: dict[int, Any], known: int, names: NDArray[Any] | None = None,
    *, in_turns: bool = True,
) -> tuple[AnsweredRule, list[Any]]:  # fmt: skip
    """The rule with all answers, and its classes: the first ``known`` of ``classes``, then names that have become one.

    given: sample of the graph -> one of the classes, a new name, or None = unknown; at least one. names: what the samples of
    the graph are called in messages. in_turns: whether the labelled samples shall calibrate (`learn_thresholds`).
    """
    rows = np.array(sorted(given), np.int64)
    values = [given[row] for row in rows.tolist()]
    if rule.graph is None:
        raise InputError("the model has too few wild samples and keeps none of them; fit it with 20 or more")
    # the same, whatever classes are added
    features, taught, seen = rule.members(rows), rule.labelled_features, rule.reference_features
    check_copies(rule, given, names)
    told = dict.fromkeys([*classes[known:], *values])  # a class that is there keeps its place
    new = [value for value in told if value is not None and value not in classes[:known]]
    grown = classes[:known] + [name for name in new if values.count(name) >= NEW_CLASS]
    place = {name: number for number, name in enumerate(grown)}
    labels = np.array([place.get(value, len(grown)) for value in values], np.int64)  # the last: unknown
    if len(grown) > known or rule.n_classes > known:
        own = (labels >= known) & (labels < len(grown))
        rule = _with_classes(rule, known, len(grown), features[own], labels[own])
    head = _fit_head(taught, features, labels, len(grown))
    odds = _strangeness(head.logits(seen), len(grown))
    scale = max(float(rule.wild_score.std()), 1e-9)
    spread = max(float(odds.std()), 1e-9) / scale
    made = AnsweredRule(rule, dict(zip(rows.tolist(), values, strict=True)), known, head, float(odds.mean()), spread, odds)
    score = rule.wild_score + made.weight * ((odds - made.centre) / spread - rule.wild_score)
    called = odds > 0 if len(head.bias) > len(grown) else None  # nobody said unknown: nothing to tell by
    turned = _odds_in_turns(rule, features, labels) if in_turns else None
    return replace(made, wild_score=score, odds_in_turns=turned, called_unknown=called), grown


def _odds_in_turns(rule: Rule, features: Rows, labels: Labels) -> Vector:
    """(n,) u of all labelled samples, each by what the others teach; NaN: not scored."""
    rows, classes = rule.labelled_features
    if len(rows) < len(rule.labels):
        rows, classes = rule.features(rule.labelled), rule.labels
    found = np.full(len(rows), np.nan)
    for others, mine in turns(rule.labelled, rule.labels, rule.settings.seed):
        head = _fit_head((rows[others], classes[others]), features, labels, rule.n_classes)
        found[mine] = _strangeness(head.logits(rows[mine]), rule.n_classes)
    return found


def _fit_head(taught: tuple[Rows, Labels], features: Rows, labels: Labels, n_classes: int) -> LinearProbe:
    rows, classes = taught
    each = max(1.0, len(rows) / (n_classes * len(labels)))  # the answers together: as much as one class
    lifted = weights_of(classes, n_classes)
    weights = np.r_[np.ones(len(rows)) if lifted is None else lifted, np.full(len(labels), each)]
    outputs = n_classes + int((labels == n_classes).any())
    both = np.concatenate([rows, features])
    found: Probe = fit_probe(both, np.r_[classes, labels], outputs, weights=weights)
    assert isinstance(found, LinearProbe)
    return found


def _with_classes(rule: Rule, known: int, n_classes: int, features: Rows, labels: Labels) -> Rule:
    """The rule of the first ``known`` classes with new ones beside them, by their features and labels >= known."""
    old = rule.bank.labels < known
    bank = ClassBank.of(
        np.concatenate([rule.bank.rows[old], features]), np.r_[rule.bank.labels[old], labels], n_classes, rule.bank.nearest
    )
    aligned = rule.shift.align(rule.labelled, np.zeros(len(rule.labelled)))
    both, classes = np.concatenate([aligned, features]), np.r_[rule.labels, labels]
    weights = weights_of(classes, n_classes, rule.settings.classifier)
    probe = fit_probe(both, classes, n_classes, classifier=rule.settings.classifier, weights=weights)
    found = evidence(rule.reference_features, bank, probe)
    counted = found if len(found) >= SMALLEST_POOL else evidence(bank.rows, bank, probe, np.arange(len(bank.rows)))
    made = replace(rule, n_classes=n_classes, bank=bank, probe=probe, naming=probe).standardized_by(counted)
    return replace(made, wild_score=made.standardized(found))


def check_copies(rule: Rule, given: dict[int, Any], names: NDArray[Any] | None = None) -> None:
    """Samples that are equal to single precision's last digits are one thing and have one answer."""
    seen: dict[bytes, tuple[int, Any]] = {}
    rows = sorted(given)
    for row, key in zip(rows, copy_keys(rule, rows), strict=True):
        first, said = seen.setdefault(key, (row, given[row]))
        if said != given[row]:
            both = [first, row] if names is None else names[[first, row]].tolist()
            one, other = ("unknown" if answer is None else repr(answer) for answer in (said, given[row]))
            raise InputError(
                f"wild samples {both[0]} and {both[1]} are copies of one, but their answers are {one} and {other}; give "
                "both the same answer, or leave one out"
            )


def copy_keys(rule: Rule, samples: Sequence[int]) -> Iterator[bytes]:
    """Of samples of the graph: the same for those that are equal to single precision's last digits."""
    assert rule.graph is not None
    for sample in samples:
        yield (np.round(rule.graph.rows[sample].astype(np.float64), 6) + 0.0).tobytes()  # no negative zeros


def without_answers(rule: Rule, known: int) -> Rule:
    """The rule of the first ``known`` classes, from one that may have more."""
    if rule.n_classes == known:
        return rule
    return _with_classes(rule, known, known, rule.labelled[:0], rule.labels[:0])


def _strangeness(logits: Vector, n_classes: int) -> Vector:
    """(n, C or C + 1) -> (n,) u before it is standardized."""
    if logits.shape[1] > n_classes:
        return np.asarray(logits[:, n_classes] - logits[:, :n_classes].max(axis=1))
    return energy(logits)


def check_answer(value: Any, classes: list[Any], numbers: bool) -> Any:
    """A class, a new name, or None = unknown, from what was given: of the type of the classes, ``numbers`` or text."""
    if value is None or (isinstance(value, str) and value.strip().casefold() == UNKNOWN):
        named = next((one for one in classes if str(one).strip().casefold() == UNKNOWN), None)
        if named is not None:
            raise InputError(f"the model has a class named {named!r}, which as an answer means none of them; rename it")
        return None
    if value in classes:
        return classes[classes.index(value)]
    if numbers:
        return _number(value, classes)
    name = str(value).strip()
    if name in classes:
        return name
    if not name or name.casefold() == REJECTED_NAME or name == "-1" or value != value:
        raise InputError(f"an answer is a class, a new name or {UNKNOWN!r}, got {value!r}")
    if len(name) > LONGEST_NAME:
        raise InputError(f"an answer has {len(name):,} letters, {name[:20]!r}...; a name has at most {LONGEST_NAME:,}")
    alike = next((one for one in classes if str(one).casefold() == name.casefold()), None)
    if alike is not None:
        raise InputError(f"answer {name!r} and {alike!r} differ in case only; write {alike!r}, or choose another name")
    return name


def _number(value: Any, classes: list[Any]) -> Any:
    kind = type(classes[0])
    by_text = {str(one).casefold(): one for one in classes}
    if (text := str(value).strip().casefold()) in by_text:
        return by_text[text]
    try:
        found = kind(text) if kind is not bool else None
    except ValueError:
        found = None
    if found is None or found == REJECTED or not LOWEST <= found <= HIGHEST:
        raise InputError(
            f"answer {value!r} does not fit: the model's classes are numbers, {classes[0]!r} for one; a new class is "
            f"another number (not {REJECTED}), or answer {UNKNOWN!r}"
        )
    return found
