"""The joint decision on embeddings: the class of a sample, and the chance that it has none.

    S(x) = r(x) (1 - (1 - u(x)) (1 - far_W(x))) + (1 - r(x)) far_L(x)

r: the sample is shifted (`shift`). A sample like the labelled ones is strange only if it is far from all of them (far_L); a
shifted one if it looks stranger than other shifted wild samples beside the known classes (u, `evidence`) or is far from all
wild ones (far_W: in distance to the nearest, or in length once standardized). S lies in [0, 1], high = OOD.

u is learned in rounds. First the bank holds the labelled samples alone. Then the least strange third of the shifted wild
samples is attributed to the class the probe gives it: it joins the bank and the probe's training set, and u is measured
again. Attributed samples carry the known classes into the shifted domain, where unknown ones stand out. More rounds, or a
larger share, let unknown samples creep in (docs/dev/log-embeddings.md).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.cut import otsu_cut
from wildspec.embeddings.evidence import Bank, Ranks, Tail, evidence
from wildspec.embeddings.linear import Probe, fit_probe
from wildspec.embeddings.shift import Shift, estimate_shift
from wildspec.embeddings.wild_graph import GraphSettings, WildGraph, build_graph, relabel
from wildspec.graph.search import NeighborIndex, Rows, unit_rows

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

FEWEST = 20  # shifted wild samples below which there is no graph worth building
PSEUDO_WEIGHT = 0.5  # of an attributed sample in the probe's training set; a labelled one has 1
BLOCK = 4096  # samples decided at a time


@dataclass(frozen=True)
class JointSettings:
    """``attribute``: share of the shifted wild samples attributed in each of ``rounds``; ``most``: samples that the bank and
    the reference hold at most (larger sets are sampled)."""

    graph: GraphSettings = field(default_factory=GraphSettings)
    classifier: Any = "auto"
    attribute: float = 1 / 3
    rounds: int = 2
    most: int = 20_000
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Decided:
    """n samples: class probabilities (n, C), score (n,) high = OOD, r (n,), u (n,; 0 without a wild graph)."""

    probabilities: Vector
    score: Vector
    shifted: Vector
    strange: Vector


@dataclass(frozen=True, eq=False)
class Wild:
    """What the shifted wild samples taught. ``known``: estimated share of known classes among them (`known_share`)."""

    shift: Shift
    graph: WildGraph
    bank: Bank
    ranks: Ranks
    probe: Probe  # learned from labelled and attributed samples
    far: Tail  # of the distance to the nearest wild sample
    long: Tail  # of the length of standardized rows
    attributed: Labels  # (m,) class of each reference sample, -1 = not attributed
    reference: NDArray[np.int64]  # (m,) their rows in the graph
    known: float


@dataclass(frozen=True, eq=False)
class JointModel:
    """``labelled`` (n, d) prepared rows with ``labels`` (n,) in 0..C-1; ``wild`` is None where no shift was found.

    ``naming`` says the class of samples like the labelled ones. It may have learned from held-out samples too, which
    calibrate the score: it has no part in the score.
    """

    labelled: Rows
    labels: Labels
    n_classes: int
    index: NeighborIndex
    probe: Probe  # learned from labelled samples, aligned where there is a shift; attribution starts from it
    naming: Probe
    far: Tail
    wild: Wild | None
    settings: JointSettings

    def decide(self, rows: Rows) -> Decided:
        """(n, d) prepared rows -> decisions; every row on its own."""
        parts = [self._decide(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        if not parts:
            nothing = np.empty(0)
            return Decided(np.empty((0, self.n_classes)), nothing, nothing, nothing)
        return Decided(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Decided.__dataclass_fields__)
        )

    def _decide(self, rows: Rows) -> Decided:
        alone = self.far(self.index.search(rows, 1)[0][:, 0])
        wild = self.wild
        if wild is None:
            nothing = np.zeros(len(rows))
            return Decided(self.naming.probabilities(rows), alone, nothing, nothing)
        r = wild.shift.posterior(rows)
        standard = wild.shift.standardize(rows, r)
        aligned = unit_rows(standard)
        features = wild.graph.denoise(aligned)
        adapted = wild.probe.probabilities(features)
        u = wild.ranks(evidence(features, adapted, wild.bank))
        inside = (1 - wild.far(wild.graph.distances(aligned))) * (1 - wild.long(lengths(standard)))
        score = r * (1 - (1 - u) * inside) + (1 - r) * alone
        probabilities = r[:, None] * adapted + (1 - r)[:, None] * self.naming.probabilities(aligned)
        return Decided(probabilities, score, r, u)


def fit_joint(
    labelled: Rows,
    labels: Labels,
    wild: Rows,
    n_classes: int,
    settings: JointSettings,
    held: tuple[Rows, Labels] | None = None,
) -> JointModel:
    """Learn from prepared rows: (n, d) labelled with classes 0..n_classes-1, (m, d) wild, m may be 0.

    held: further labelled rows and their classes, from which ``naming`` alone learns.
    """
    rng = np.random.default_rng(settings.seed)
    index = NeighborIndex(labelled, metric="euclidean", method=settings.graph.search, seed=settings.seed)
    far = Tail.of(_own_distances(index, rng, settings.most))
    shift = estimate_shift(labelled, wild, labels, seed=settings.seed) if len(wild) else None
    found = None
    if shift is not None:
        aligned = shift.align(labelled, np.zeros(len(labelled)))
        probe = fit_probe(aligned, labels, n_classes, classifier=settings.classifier)
        shifted, long = aligned_shifted(shift, wild)
        if len(shifted) >= FEWEST:
            graph = build_graph(shifted, settings.graph)
            found = attribute(shift, graph, Tail.of(long), aligned, labels, n_classes, probe, settings)
    if found is None:
        probe = fit_probe(labelled, labels, n_classes, classifier=settings.classifier)
    naming = probe
    if held is not None and len(held[0]):
        rows, classes = np.concatenate([labelled, held[0]]), np.r_[labels, held[1]]
        plain = rows if found is None else found.shift.align(rows, np.zeros(len(rows)))
        naming = fit_probe(plain, classes, n_classes, classifier=settings.classifier)
    return JointModel(labelled, labels, n_classes, index, probe, naming, far, found, settings)


def aligned_shifted(shift: Shift, wild: Rows) -> tuple[Rows, Rows]:
    """(m, d) wild rows -> those on the shifted side, aligned as shifted samples; their lengths before scaling."""
    parts, sizes = [], []
    for start in range(0, len(wild), 16 * BLOCK):
        block = wild[start : start + 16 * BLOCK]
        block = block[shift.posterior(block) > 0.5]
        standard = shift.standardize(block, np.ones(len(block)))
        parts.append(unit_rows(standard))
        sizes.append(lengths(standard))
    return np.concatenate(parts), np.concatenate(sizes)


def lengths(rows: Rows) -> Rows:
    """(n, d) -> (n,)."""
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def attribute(
    shift: Shift,
    graph: WildGraph,
    long: Tail,
    aligned: Rows,
    labels: Labels,
    n_classes: int,
    probe: Probe,
    settings: JointSettings,
) -> Wild:
    """The rounds: strangeness, attribution of the least strange share, and again."""
    rng = np.random.default_rng(settings.seed + 1)
    reference = _sample(len(graph), settings.most, rng)
    kept = _sample(len(aligned), settings.most, rng)
    bank, _ = Bank.of(aligned[kept], labels[kept], n_classes)
    features = graph.denoised_members(reference)
    own = np.full(len(reference), -1, dtype=np.int64)
    adapted, attributed = probe, np.full(len(reference), -1, dtype=np.int64)
    for round_ in range(settings.rounds + 1):
        probabilities = adapted.probabilities(features)
        found = evidence(features, probabilities, bank, own)
        ranks = Ranks.of(found)
        if round_ == settings.rounds:
            break
        known = np.flatnonzero(ranks(found) < settings.attribute)
        attributed = np.full(len(reference), -1, dtype=np.int64)
        attributed[known] = probabilities[known].argmax(axis=1)
        members = graph.rows[reference[known]]
        joined = np.r_[labels[kept], attributed[known]]
        bank, place = Bank.of(np.concatenate([aligned[kept], members]), joined, n_classes)
        own = np.full(len(reference), -1, dtype=np.int64)
        own[known] = place[len(kept) :]
        weights = np.r_[np.ones(len(labels)), np.full(len(known), PSEUDO_WEIGHT)]
        rows, classes = np.concatenate([aligned, members]), np.r_[labels, attributed[known]]
        adapted = fit_probe(rows, classes, n_classes, classifier=settings.classifier, weights=weights)
        if settings.graph.eta_l > 0:
            whole = np.full(len(graph), -1, dtype=np.int64)
            whole[reference] = attributed
            graph = relabel(graph, whole, len(reference) / len(graph))
            features = graph.denoised_members(reference)
    far = Tail.of(graph.own_distances(reference))
    return Wild(shift, graph, bank, ranks, adapted, far, long, attributed, reference, known_share(found))


def known_share(found: Vector) -> float:
    """Share of the less strange of two groups: Otsu's cut (1979), the one with the least variance within the groups.

    found: (m, 3) evidence, each put into units of its standard deviation, and summed. An estimate: two groups are assumed,
    not tested for, and where they overlap widely their sizes come out more equal than they are.
    """
    total = (found / np.maximum(found.std(axis=0), 1e-9)).sum(axis=1)
    return float(np.mean(total <= otsu_cut(total))) if len(total) > 1 else 1.0


def refit_wild(model: JointModel, graph: WildGraph) -> JointModel:
    """The model with another wild graph, everything that rests on it learned again; shift and first probe are kept."""
    assert model.wild is not None
    shift, long = model.wild.shift, model.wild.long
    aligned = shift.align(model.labelled, np.zeros(len(model.labelled)))
    wild = attribute(shift, graph, long, aligned, model.labels, model.n_classes, model.probe, model.settings)
    return replace(model, wild=wild)


def _own_distances(index: NeighborIndex, rng: np.random.Generator, most: int) -> Rows:
    if len(index) == 1:
        return np.zeros(1, np.float32)
    rows = index.bank[_sample(len(index), most, rng)]
    return index.search(rows, 2)[0][:, 1]


def _sample(count: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
