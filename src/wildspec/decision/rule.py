"""The one rule: which class is a sample of, and how strange is it? For rows of embeddings and for images alike.

    a(x)    aligned: the shift of the wild pool undone (`wildspec.decision.shift`)
    f(x)    = (a(x) + s g(x)) / |a(x) + s g(x)|,  g: what the wild graph's leading eigenvectors keep of a(x) (`WildGraph`)
    s       how much the graph counts: 1/2 + 25 (eta_1 - eta_0), cut to [0, 1];  eta_s: the share of the variance of the
            pool's scores, made with s, that lies between the sides of Otsu's cut (`wildspec.decision.cut`)
    d(x)    distance 1 - cos of f(x) to the k-th nearest labelled sample, k = 10 or less  (`wildspec.decision.bank`)
    m(x)    difference between the two nearest classes, each by its 5 nearest samples
    e(x)    energy -log sum_c exp z_c of a logistic regression on aligned labelled samples, small classes weighed up
            (`wildspec.decision.probe.weights_of`)

    S(x) = mean of the three (d, -m, e), each less its mean over the wild pool and divided by its deviation there,
           plus o(x) = max(0, min over labelled, wild of (n(x) - q99) / (q99 - q50))

High = out-of-distribution. Distance alone takes a sample of a known class under new conditions for an unknown one; margin
and energy alone take an unknown one between two classes for known. Undoing the shift brings known classes back to their
place, and the graph gives a sample what its surroundings in the pool have in common; half of it stays its own, so that a
single unknown thing among known ones is not smoothed away. Unknown things in the pool then stand out, and its scores fall
into two groups more clearly. Where they do not, the graph would only draw new unknown things towards known ones: hence s.
o is 0 for nearly all that is like anything seen: n is the distance to the nearest labelled or wild sample, q50 and q99
quantiles of such distances among them. It grows for what is unlike both.

There is no pseudo-label and no second round: with the wrong third of a pool attributed, every rule that was tried on top
of this one lost more than it gained (docs/dev/decision.md). With fewer than 60 wild samples f = a, s = 0; means and
deviations come from the labelled samples, each compared with the others, and in o only a copy of a wild sample has been
seen. With fewer than 20 no shift is looked for, and none of them is kept.

Class: p(c|x) = r p_f(c|x) + (1 - r) p_a(c|x), r the posterior of the shifted group: the filter helps where there is a shift
and blurs where there is none.
"""

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.bank import ClassBank
from wildspec.decision.cut import explained, otsu_cut
from wildspec.decision.probe import Probe, fit_probe, weights_of
from wildspec.decision.shift import FEWEST, Shift, find_shift, some_of
from wildspec.decision.turns import turns
from wildspec.graph.search import NeighborIndex, Rows, unit_rows
from wildspec.graph.wild_graph import GraphSettings, WildGraph, build_graph, grow

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

BLOCK = 4096  # samples decided at a time
HARDLY_ANY = 0.1  # share of a group
FARTHEST = 1.0  # displacement of a group of other things at most, in distances between class means
CLEARER = 0.02  # of eta: by so much more the whole graph counts, by so much less none of it
SHIFT_CHOICES = ("auto", True, False)
SMALLEST_POOL = 60  # wild samples from which on they say how strange a sample is; of fewer it is better judged without them
SAME = (0.0, 0.0)  # q50, q99: none but a copy is near
SMALL = (
    f"a pool of {{count}} is small: a shift may be found in it, but with {SMALLEST_POOL} wild samples or more unknown ones "
    "are told apart better"
)
TOO_FEW = (
    f"a pool of {{count}} is too small to learn from: it takes {FEWEST} wild samples; as without any, nothing is learned "
    "about shifted or unknown ones"
)


@dataclass(frozen=True)
class RuleSettings:
    """``shift``: "auto": found by its test; True: taken for granted; False: none. ``most``: samples that the bank and the
    reference hold at most (larger sets are sampled)."""

    graph: GraphSettings = field(default_factory=lambda: GraphSettings(n_components=32))
    classifier: Any = "auto"
    shift: Any = "auto"
    most: int = 20_000
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Decided:
    """n samples: class probabilities (n, C), score (n,) high = OOD, ``shifted`` (n,) posterior r, ``evidence`` (n, 3)."""

    probabilities: Vector
    score: Vector
    shifted: Vector
    evidence: Vector


@dataclass(frozen=True, eq=False)
class Rule:
    """``labelled`` (n, d) prepared rows with ``labels`` (n,) in 0..C-1; ``graph`` over the aligned wild samples or None.

    ``centre``, ``spread`` (3,): of the evidence over the wild pool. ``usual`` (2, 2): q50, q99 of nearest distances among
    labelled, and among wild samples. ``wild_score``, ``wild_shifted`` (m,): score and r of
    the wild samples that were looked at, rows ``reference`` of the graph. ``naming``: p_a; it may have learned from
    held-out samples too, which calibrate the score: it has no part in the score. ``strength``: s; bundles made before it
    was there have 1.
    """

    labelled: Rows
    labels: Labels
    n_classes: int
    index: NeighborIndex
    shift: Shift
    bank: ClassBank
    probe: Probe
    naming: Probe
    graph: WildGraph | None
    centre: Vector
    spread: Vector
    usual: Vector
    reference: Labels
    wild_score: Vector
    wild_shifted: Vector
    settings: RuleSettings
    strength: float = 1.0

    def decide(self, rows: Rows) -> Decided:
        """(n, d) prepared rows -> decisions; every row on its own."""
        parts = [self._decide(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        if not parts:
            return Decided(np.empty((0, self.n_classes)), np.empty(0), np.empty(0), np.empty((0, 3)))
        return Decided(*(np.concatenate([getattr(part, name) for part in parts]) for name in Decided.__dataclass_fields__))

    def features(self, rows: Rows) -> Rows:
        """(n, d) prepared rows -> (n, d) f(x), of length 1."""
        return self._filtered(self.shift.align(rows))

    @cached_property
    def labelled_features(self) -> tuple[Rows, Labels]:
        """(n, d) f(x) of labelled samples, of many some, and (n,) their classes; kept, as they take long to make."""
        some = some_of(len(self.labels), self.settings.most, np.random.default_rng(self.settings.seed))
        return self.features(self.labelled[some]), self.labels[some]

    @cached_property
    def reference_features(self) -> Rows:
        """(r, d) f(x) of the samples ``reference`` of the graph; kept likewise."""
        return self.members(self.reference)

    def members(self, chosen: Labels) -> Rows:
        """(m,) samples of the graph -> (m, d) their f(x), by their own rows of it."""
        assert self.graph is not None
        return _members(self.graph, chosen, self.strength)

    def member_scores(self, chosen: Labels) -> Vector:
        """(m,) samples of the graph -> (m,) scores; of ``reference`` they are ``wild_score``. In the pool o(x) = 0."""
        parts = [chosen[start : start + BLOCK] for start in range(0, len(chosen), BLOCK)]
        scores = [self.standardized(evidence(self.members(part), self.bank, self.probe)) for part in parts]
        return np.concatenate(scores) if scores else np.empty(0)

    def of_members(self, chosen: Labels, shifted: Vector, features: Rows | None = None) -> tuple[Rows, Vector]:
        """(m,) samples of the graph, their r -> (m, d) f(x), where they are not there already, (m, C) probabilities."""
        assert self.graph is not None
        features = self.members(chosen) if features is None else features
        named = self.naming.probabilities(self.graph.rows[chosen])
        return features, _mixed(shifted, self.probe.probabilities(features), named)

    def _decide(self, rows: Rows) -> Decided:
        r = self.shift.posterior(rows)
        aligned = self.shift.align(rows, r)
        features = self._filtered(aligned)
        found = evidence(features, self.bank, self.probe)
        probabilities = _mixed(r, self.probe.probabilities(features), self.naming.probabilities(aligned))
        return Decided(probabilities, self.standardized(found) + self._unseen(rows, aligned), r, found)

    def _filtered(self, aligned: Rows) -> Rows:
        if self.graph is None or self.strength == 0:
            return aligned
        return unit_rows(aligned + self.strength * self.graph.denoise(aligned))

    def _unseen(self, rows: Rows, aligned: Rows, index: NeighborIndex | None = None) -> Vector:
        """o(x): 0 where something like it was labelled (is in ``index``, by default all of them) or is in the pool."""
        beyond = _beyond((index or self.index).search(rows, 1)[0][:, 0], self.usual[0])
        if self.graph is not None:
            beyond = np.minimum(beyond, _beyond(self.graph.distances(aligned), self.usual[1]))
        return np.maximum(beyond, 0.0)

    def shifted_threshold(self, calibrated: float) -> float:
        """t_shift: the mean score of the pool's shifted samples; minus infinity where there are none, or where they are
        other things (``calibrated``: t_id)."""
        found = self.wild_score[self.wild_shifted > 0.5]
        return -np.inf if not len(found) or self.other_things(found, calibrated) else float(found.mean())

    def other_things(self, scores: Vector, calibrated: float) -> bool:
        """Are the shifted samples with these scores other things, not known ones under other conditions? Hardly any of
        them scores below t_id, and they lie no farther from the labelled samples than classes lie apart."""
        return bool(np.mean(scores <= calibrated) < HARDLY_ANY and self.displacement <= FARTHEST)

    @cached_property
    def displacement(self) -> float:
        """|m_1 - m_0|^2 of the two groups' means / mean over classes of |mu_c - mean of all mu|^2, labelled samples' means.
        Another light or camera can move all samples farther than classes lie apart; other classes do not."""
        means = np.stack([self.labelled[self.labels == c].mean(axis=0, dtype=np.float64) for c in np.unique(self.labels)])
        apart = np.square(means - means.mean(axis=0)).sum(axis=1).mean()
        return float(np.square(self.shift.means[1] - self.shift.means[0]).sum() / max(apart, 1e-12))

    def scores_in_turns(self) -> Vector:
        """(n,) scores of the labelled samples, each by what the others teach (see `turns`); NaN: not scored."""
        return self.parts_in_turns.sum(axis=0)

    @property
    def parts_in_turns(self) -> Vector:
        """(2, n): mean of the standardized evidence, and o, of the labelled samples in turns."""
        return self._in_turns[0]

    @property
    def probabilities_in_turns(self) -> Vector:
        """(n, C) of the labelled samples in turns; NaN: not scored."""
        return self._in_turns[1]

    @cached_property
    def _in_turns(self) -> tuple[Vector, Vector]:
        r = self.shift.posterior(self.labelled)
        real, aligned = self.shift.align(self.labelled, r), self.shift.align(self.labelled, np.zeros(len(r)))
        features = self._filtered(real)
        named = ~np.isin(self.bank.labels, self.labels)  # samples of classes that answers have made: always learned from
        found, said = np.full((2, len(r)), np.nan), np.full((len(r), self.n_classes), np.nan)
        weights = weights_of(np.r_[self.labels, self.bank.labels[named]], self.n_classes, self.settings.classifier)
        for others, mine in turns(self.labelled, self.labels, self.settings.seed):
            rows = np.concatenate([aligned[others], self.bank.rows[named]])
            labels = np.r_[self.labels[others], self.bank.labels[named]]
            bank = ClassBank.of(rows, labels, self.n_classes, self.bank.nearest)
            weigh = None if weights is None else np.r_[weights[: len(r)][others], weights[len(r) :]]
            probe = fit_probe(rows, labels, self.n_classes, classifier=self.settings.classifier, weights=weigh)
            near = NeighborIndex(self.labelled[others], metric="euclidean", method="exact")
            found[0, mine] = self.standardized(evidence(features[mine], bank, probe))
            found[1, mine] = self._unseen(self.labelled[mine], real[mine], near)
            said[mine] = _mixed(r[mine], probe.probabilities(features[mine]), probe.probabilities(real[mine]))
        return found, said

    def standardized_by(self, found: Vector) -> "Rule":
        """The rule with mean and deviation of (r, 3) evidence of its ``reference``."""
        return replace(self, centre=found.mean(axis=0), spread=np.maximum(found.std(axis=0), 1e-9))

    def standardized(self, found: Vector) -> Vector:
        """(n, 3) evidence -> (n,) the mean of the three, each less its mean over the pool and divided by its deviation."""
        return np.asarray(((found - self.centre) / self.spread).mean(axis=1))


def evidence(features: Rows, bank: ClassBank, probe: Probe, own: Labels | None = None) -> Vector:
    """(n, d) f(x) -> (n, 3): distance, -margin, energy; high = strange."""
    away, margin = bank.compare(features, own)
    return np.stack([away, -margin, probe.energy(features)], axis=1)


def fit_rule(
    labelled: Rows, labels: Labels, wild: Rows, n_classes: int, settings: RuleSettings | None = None,
    held: tuple[Rows, Labels] | None = None,
) -> Rule:  # fmt: skip
    """Learn from prepared rows: (n, d) labelled with classes 0..n_classes-1, (m, d) wild, m may be 0.

    held: further labelled rows and their classes, from which ``naming`` alone learns.
    """
    if 0 < len(wild) < SMALLEST_POOL:
        said = TOO_FEW if len(wild) < FEWEST else SMALL
        warnings.warn(said.format(count=len(wild)), UserWarning, stacklevel=3)
    settings = RuleSettings() if settings is None else settings
    believe = None if settings.shift == "auto" else bool(settings.shift)
    shift = find_shift(labelled, wild, believe=believe, seed=settings.seed)
    graph = build_graph(shift.align(wild), settings.graph) if len(wild) >= FEWEST else None
    posterior = shift.posterior(wild) if graph is not None else np.empty(0)
    return _assemble(labelled, labels, n_classes, shift, graph, posterior, settings, held)


def more_wild(rule: Rule, wild: Rows, held: tuple[Rows, Labels] | None = None) -> Rule:
    """The rule with further wild samples in its graph, which must be there; the shift stays. ``held``: as in `fit_rule`."""
    assert rule.graph is not None
    graph = grow(rule.graph, rule.shift.align(wild))
    posterior = np.r_[_known_posterior(rule), rule.shift.posterior(wild)]
    return _assemble(rule.labelled, rule.labels, rule.n_classes, rule.shift, graph, posterior, rule.settings, held)


def more_labelled(rule: Rule, rows: Rows, labels: Labels, held: tuple[Rows, Labels] | None = None) -> Rule:
    """The rule with further labelled samples in its bank and probes; shift and graph stay. ``held``: as in `fit_rule`."""
    both, classes = np.concatenate([rule.labelled, rows]), np.r_[rule.labels, labels]
    return _assemble(both, classes, rule.n_classes, rule.shift, rule.graph, _known_posterior(rule), rule.settings, held)


def _known_posterior(rule: Rule) -> Vector:
    """(g,) r of the graph's samples; NaN of those that were never looked at, whose own rows are not kept."""
    found = np.full(0 if rule.graph is None else len(rule.graph), np.nan)
    found[rule.reference] = rule.wild_shifted
    return found


def _assemble(
    labelled: Rows, labels: Labels, n_classes: int, shift: Shift, graph: WildGraph | None, posterior: Vector,
    settings: RuleSettings, held: tuple[Rows, Labels] | None,
) -> Rule:  # fmt: skip
    """``posterior`` (g,): r of the graph's samples; those where it is NaN are not looked at."""
    rng = np.random.default_rng(settings.seed + 1)
    aligned = shift.align(labelled, np.zeros(len(labelled)))
    kept = some_of(len(labelled), settings.most, rng)
    bank = ClassBank.of(aligned[kept], labels[kept], n_classes)
    probe = _learn(aligned, labels, n_classes, settings)
    naming = probe
    if held is not None and len(held[0]):
        more = shift.align(held[0], np.zeros(len(held[0])))
        both, classes = np.concatenate([aligned, more]), np.r_[labels, held[1]]
        naming = _learn(both, classes, n_classes, settings)
    index = NeighborIndex(labelled, metric="euclidean", method=settings.graph.search, seed=settings.seed)
    known = np.flatnonzero(~np.isnan(posterior))
    reference = known[some_of(len(known), settings.most, rng)]
    strength, counts = 0.0, graph is not None and len(reference) >= SMALLEST_POOL
    if graph is None or not counts:
        found = evidence(bank.rows, bank, probe, np.arange(len(bank.rows)))
    else:
        strength, found = _choose_strength(graph, reference, bank, probe)
    some = some_of(len(labelled), settings.most, rng)
    near = index.search(labelled[some], 2)[0][:, -1] if len(labelled) > 1 else np.zeros(1)
    if graph is None:
        among = _quantiles(near)
    else:
        among = _quantiles(graph.own_distances(reference)) if counts else np.array(SAME)
    usual = np.stack([_quantiles(near), among])
    made = Rule(
        labelled, labels, n_classes, index, shift, bank, probe, naming, graph, np.zeros(3), np.ones(3), usual, reference,
        np.empty(0), posterior[reference], settings, strength,
    ).standardized_by(found)  # fmt: skip
    if graph is None:
        return made
    return replace(made, wild_score=made.standardized(found) if counts else made.member_scores(reference))


def _learn(rows: Rows, labels: Labels, n_classes: int, settings: RuleSettings) -> Probe:
    weights = weights_of(labels, n_classes, settings.classifier)
    return fit_probe(rows, labels, n_classes, classifier=settings.classifier, weights=weights)


def _mixed(r: Vector, filtered: Vector, aligned: Vector) -> Vector:
    """(n,), (n, C), (n, C) -> (n, C) p(c|x) = r p_f + (1 - r) p_a."""
    return r[:, None] * filtered + (1 - r)[:, None] * aligned


def _choose_strength(graph: WildGraph, chosen: Labels, bank: ClassBank, probe: Probe) -> tuple[float, Vector]:
    """s, and the evidence of the pool's samples ``chosen`` with it; see the module's first lines."""
    plain, whole = (evidence(_members(graph, chosen, s), bank, probe) for s in (0.0, 1.0))
    clearer = _two_sided(whole) - _two_sided(plain)
    strength = float(np.clip(0.5 + clearer / (2 * CLEARER), 0.0, 1.0))
    if strength in (0.0, 1.0):
        return strength, whole if strength else plain
    return strength, evidence(_members(graph, chosen, strength), bank, probe)


def _two_sided(found: Vector) -> float:
    """(m, 3) evidence of a pool -> eta of its scores."""
    scores = ((found - found.mean(axis=0)) / np.maximum(found.std(axis=0), 1e-9)).mean(axis=1)
    return explained(scores, otsu_cut(scores))


def _members(graph: WildGraph, chosen: Labels, strength: float) -> Rows:
    rows = graph.rows[chosen]
    return unit_rows(rows + strength * graph.denoised_members(chosen)) if strength else rows


def _quantiles(distances: NDArray[Any]) -> Vector:
    return np.quantile(distances.astype(np.float64), [0.5, 0.99])


def _beyond(distances: Rows, usual: Vector) -> Vector:
    """How far beyond the usual, in units of the usual spread; distances that are all alike have a spread all the same."""
    middle, high = usual
    return np.asarray((distances - high) / max(high - middle, 0.05 * middle, 1e-3))
