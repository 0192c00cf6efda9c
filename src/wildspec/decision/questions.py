"""Which wild samples to ask a person about: those whose answers change the decision most.

A question rule is a function (pool, n, generator) -> rows of the pool, at most n, no row twice, the most wanted first. To
add one, write such a function and put ``@question_rule("name")`` above it; `choose` calls it by its name.

    random      uniformly: the only answers from which shares may be counted
    most_unlike the highest scores
    entropy     the highest entropy of the class probabilities
    margin      the smallest difference between the two largest class probabilities
    boundary    the smallest |S(x) - t(x)|: where shifted-known and unknown are equally likely as far as the decision can
                tell (the region that AHA searches for, Bai et al., 2024)
    groups      ours: k-means on the features of the half of the pool nearest to the boundary; the middle of each group, of
                large groups a second member; then the boundary; never two near-copies
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wildspec.blas import one_blas_thread
from wildspec.checks import choice, integer
from wildspec.errors import InputError
from wildspec.graph.search import Rows
from wildspec.plugins import Registry

Vector = NDArray[np.float64]
Chosen = NDArray[np.int64]

UNSURE = 0.5  # share of the pool, nearest to the boundary, in which groups are looked for: wrong groups lie far on one side
LARGE_GROUP = 2.0  # times the mean size: such a group may be two, a second member is asked about
NEAR_COPY = 0.1  # of the pool's median distance between two samples: nearer ones would be given the same answer
MOST_GROUPED = 5_000  # samples that k-means looks at
PAIRS = 1_000  # pairs from which the median distance is estimated


@dataclass(frozen=True, eq=False)
class Pool:
    """n wild samples as the model sees them: ``scores`` (n,) high = OOD, ``thresholds`` (n,) above which each is rejected,
    ``features`` (n, d) f(x) of the rule, ``probabilities`` (n, C) of the known classes."""

    scores: Vector
    thresholds: Vector
    features: Rows
    probabilities: Vector

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(set(sizes.values())) > 1:
            raise InputError(f"a pool needs one row of each for every sample, got {sizes}")

    def __len__(self) -> int:
        return len(self.scores)


QuestionRule = Callable[[Pool, int, np.random.Generator], Chosen]
QUESTION_RULES: Registry[QuestionRule] = Registry()


def question_rule(name: str) -> Callable[[QuestionRule], QuestionRule]:
    """Enter a rule under its name."""

    def enter(rule: QuestionRule) -> QuestionRule:
        QUESTION_RULES.add("question rule", name, rule)
        return rule

    return enter


def choose(rule: str, pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    """At most n rows of the pool by the rule of that name; fewer where the pool is smaller or the rest are near-copies."""
    choice("question rule", rule, sorted(QUESTION_RULES))
    n = min(integer("n", n, minimum=1), len(pool))
    return QUESTION_RULES[rule](pool, n, generator) if n else np.empty(0, np.int64)


@question_rule("random")
def random_rows(pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    return generator.choice(len(pool), n, replace=False)


@question_rule("most_unlike")
def most_unlike(pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    return np.argsort(-pool.scores, kind="stable")[:n]


@question_rule("entropy")
def entropy(pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    """- sum_c p_c log p_c, the highest first."""
    logs = np.log(np.maximum(pool.probabilities, 1e-300))
    return np.argsort((pool.probabilities * logs).sum(axis=1), kind="stable")[:n]


@question_rule("margin")
def margin(pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    """Largest less second largest probability, the smallest first; one class alone has a margin of 1 everywhere."""
    if pool.probabilities.shape[1] < 2:
        return np.arange(n)
    two = np.partition(pool.probabilities, -2, axis=1)[:, -2:]
    return np.argsort(two[:, 1] - two[:, 0], kind="stable")[:n]


@question_rule("boundary")
def boundary(pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    return _nearest_first(pool)[:n]


@question_rule("groups")
def groups(pool: Pool, n: int, generator: np.random.Generator) -> Chosen:
    """About n / 2 groups, the largest first; what is left of n goes to the boundary."""
    order = _nearest_first(pool)
    unsure = order[: max(n, int(np.ceil(UNSURE * len(pool))))]
    if len(unsure) > MOST_GROUPED:
        unsure = np.sort(generator.choice(unsure, MOST_GROUPED, replace=False))
    wanted = np.r_[_members(pool.features, unsure, (n + 1) // 2, generator), order]
    return _apart(pool.features, wanted, n, NEAR_COPY * _median_distance(pool.features, generator))


def _nearest_first(pool: Pool) -> Chosen:
    """Rows by |S - t|; where nothing is ever rejected (an infinite threshold) the highest scores are the nearest."""
    finite = np.isfinite(pool.thresholds)
    away = np.abs(pool.scores - np.where(finite, pool.thresholds, pool.scores.max()))
    return np.argsort(away, kind="stable")


def _members(features: Rows, rows: Chosen, count: int, generator: np.random.Generator) -> Chosen:
    """The member nearest to the centre of each of ``count`` groups of ``rows``, largest group first; then, of every group of
    more than `LARGE_GROUP` times the mean size, the member that is halfway out."""
    from sklearn.cluster import KMeans

    points = features[rows]
    count = min(count, len(np.unique(points, axis=0)))
    with one_blas_thread():
        found = KMeans(count, n_init=1, random_state=int(generator.integers(1 << 31))).fit(points)
    away = np.linalg.norm(points - found.cluster_centers_[found.labels_], axis=1)
    sizes = np.bincount(found.labels_, minlength=count)
    first, second = [], []
    for group in np.argsort(-sizes, kind="stable"):
        inside = np.flatnonzero(found.labels_ == group)
        inside = inside[np.argsort(away[inside], kind="stable")]
        first.append(rows[inside[0]])
        if len(inside) > LARGE_GROUP * len(rows) / count:
            second.append(rows[inside[len(inside) // 2]])
    return np.array(first + second, np.int64)


def _apart(features: Rows, wanted: Chosen, n: int, limit: float) -> Chosen:
    """The first n of ``wanted`` of which none is as near as ``limit`` to one before it."""
    chosen: list[int] = []
    for row in wanted.tolist():
        if len(chosen) == n:
            break
        if not chosen or np.linalg.norm(features[chosen] - features[row], axis=1).min() > limit:
            chosen.append(row)
    return np.array(chosen, np.int64)


def _median_distance(features: Rows, generator: np.random.Generator) -> float:
    first, second = generator.integers(len(features), size=(2, PAIRS))
    return float(np.median(np.linalg.norm(features[first] - features[second], axis=1)))
