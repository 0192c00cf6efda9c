"""What is in a wild pool: P_wild = (1 - pi_c - pi_s) P_in + pi_c P_covariate + pi_s P_semantic; the shares, from scores.

pi_s (no known class). Scores of known samples, shifted or not, and of unknown ones form two groups. Otsu's cut (1979)
splits them; the share above it is the estimate, and 0 unless the pool passes the test for two groups
(`wildspec.decision.cut.two_groups`).
Interval: the pool cut into three groups the same way; the middle one may be either, so pi_s lies between the share of the
farthest group and that of both, each with its Wilson limit. Without two groups: from 0 to the Wilson limit of what lies
above the cut.

pi_c (known class, shifted). For samples drawn like the held-out ID samples, conformal p-values are uniform; so a share pi_in
of them puts pi_in (1 - lambda) of the pool above lambda, and pi_in <= #{p > lambda} / ((1 - lambda) n) in expectation, with
equality when all other samples have p < lambda (Storey, 2002; lambda = 1/2). pi_c = 1 - pi_s - pi_in is therefore a lower
estimate: shifted samples that look in-distribution count as in-distribution. Interval: the worst combination of the limits.

Nothing here can be exact: no label says where known under shift ends and unknown begins. Checked against pools of known
composition (tests/decision/test_shares.py, docs/dev/joint-digits.md).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.checks import open_fraction
from wildspec.decision.attribution import known_bank
from wildspec.decision.cut import explained, otsu_cut, three_groups, two_groups
from wildspec.decision.scores import Array, as_scores
from wildspec.errors import InputError
from wildspec.graph.nearest import kth_distance, normalize

LAMBDA = 0.5
FEWEST = 10  # scores below which no shape can be seen

Interval = tuple[float, float]


@dataclass(frozen=True)
class Mixture:
    """Shares of a wild pool of ``n`` samples with intervals. ``eta``: what Otsu's cut explains; ``cut``: where it is.

    ``separated``: the pool passes the test for two groups (`wildspec.decision.cut`). pi_c and its interval are None where no
    held-out ID scores were given.
    """

    n: int
    pi_s: float
    pi_s_interval: Interval
    pi_c: float | None
    pi_c_interval: Interval | None
    eta: float
    cut: float
    separated: bool
    confidence: float

    def describe(self, pool: int | None = None) -> str:
        """In words, for a pool of that many images (default: the n that were looked at)."""
        total = self.n if pool is None else pool
        low, high = (round(total * share) for share in self.pi_s_interval)
        if not self.separated:
            return f"No group of unknown images stands out among your {total:,} wild ones; at most about {high:,} are."
        about = round(total * self.pi_s)
        return f"Of your {total:,} wild images about {about:,} belong to no class (between {low:,} and {high:,})."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Mixture":
        try:
            plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
            return cls(**plain)
        except (TypeError, AttributeError) as error:
            raise InputError(f"a mixture estimate is incomplete or has unknown fields: {error}") from error


def estimate_mixture(
    wild_scores: Any,
    id_scores: Any = None,
    *,
    shift_scores: tuple[Any, Any] | None = None,
    confidence: float = 0.95,
) -> Mixture:
    """Shares of the pool from scores (high = OOD) of its samples and, for pi_c, of held-out ID samples.

    ``shift_scores``: (wild, ID) scores of a detector that tells shifted from clean samples, for pi_c alone; the scores that
    are good for pi_s do not (they are small for shifted known samples). Default: the same scores for both.

    Features instead of scores: (n, d) of the pool and (m, d) of ID samples, from a network that learned from neither or from
    both; every other ID sample is set aside, and distances to the rest and to the wild samples attributed to it
    (`wildspec.decision.attribution.known_bank`) are the scores.
    """
    if _is_matrix(wild_scores):
        wild_scores, id_scores, shift_scores = _scores_of(wild_scores, id_scores)
    wild = _finite("wild_scores", as_scores("wild_scores", wild_scores, minimum=FEWEST))
    open_fraction("confidence", confidence)
    cut = otsu_cut(wild)
    eta = explained(wild, cut)
    separated = two_groups(wild, cut, confidence=confidence)
    pi_s = float(np.mean(wild > cut)) if separated else 0.0
    between = _unknown_interval(wild, cut, separated, confidence)
    pi_c = within = None
    if shift_scores is not None or id_scores is not None:
        pool, clean = (wild, id_scores) if shift_scores is None else shift_scores
        pi_c, within = _shifted(pool, clean, pi_s, between, confidence)
    return Mixture(len(wild), pi_s, between, pi_c, within, eta, cut, separated, confidence)


def _finite(name: str, scores: Array) -> Array:
    """Ranks bear infinite scores, means and variances do not."""
    endless = int(np.isinf(scores).sum())
    if endless:
        raise InputError(f"{name} hold {endless} infinite values among {len(scores)}; check the detector's input")
    return scores


def _is_matrix(values: Any) -> bool:
    return int(getattr(values, "ndim", 1)) == 2


def _scores_of(wild: Any, known: Any) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Features of the pool and of ID samples -> scores of the pool, of ID samples set aside, and both for the shift."""
    if not _is_matrix(known):
        raise InputError("features of the wild pool need features of ID samples beside them, (m, d); or give scores of both")
    pool, given = (torch.as_tensor(rows, dtype=torch.float32) for rows in (wild, known))
    if len(given) < 2 * FEWEST or len(pool) < FEWEST or pool.shape[1] != given.shape[1]:
        raise InputError(
            f"features must be (n, d) of at least {FEWEST} wild and {2 * FEWEST} ID samples, got {tuple(pool.shape)} and "
            f"{tuple(given.shape)}"
        )
    bank, aside = given[::2], normalize(given[1::2])
    found = known_bank(bank, torch.zeros(len(bank), dtype=torch.int64), pool)
    plain = normalize(bank)  # tells shifted from clean: it holds no shifted sample
    shift = (kth_distance(normalize(pool), plain, found.k), kth_distance(aside, plain, found.k))
    return found.wild_distance, kth_distance(aside, found.rows, found.k), shift


def excess_mixture(wild_scores: Any, id_scores: Any, alpha: float = 0.05, *, confidence: float = 0.95) -> Mixture:
    """The pool's share beyond what held-out ID samples explain, for scores that were trained to tell the two apart.

    At any threshold t the share of unlike samples is at least 1 - P_wild(s <= t) / P_id(s <= t) (Blanchard, Lee and Scott,
    2010), with equality where t lets no unlike sample pass. Training has seen the wild samples and pushed all of them up a
    little; that matters in the middle of the scores and hardly in their tail, so the estimate is taken at the 1 - 2 alpha
    quantile of the ID scores, its lower limit at 1 - alpha, its upper one at the median. Known samples whose shift training
    could not hide count as unlike; so pi_c is not estimated.
    """
    wild, clean = as_scores("wild_scores", wild_scores, minimum=FEWEST), as_scores("id_scores", id_scores)
    wild, clean = _finite("wild_scores", wild), _finite("id_scores", clean)
    open_fraction("alpha", alpha)
    open_fraction("confidence", confidence)

    def excess(share: float) -> tuple[float, float, float, float]:
        """The threshold, and 1 - ratio there: the least, as found, at most."""
        t = float(np.quantile(clean, share, method="inverted_cdf"))
        ours, theirs = float(np.mean(clean <= t)), float(np.mean(wild <= t))
        (few, many), (low, high) = wilson(theirs, len(wild), confidence), wilson(ours, len(clean), confidence)
        least, found, most = (min(1.0, max(0.0, 1 - ratio)) for ratio in (many / low, theirs / ours, few / high))
        return t, least, found, most

    cut, _, pi_s, _ = excess(1 - 2 * alpha if alpha < 0.25 else 0.5)
    low, high = excess(1 - alpha)[1], excess(0.5)[3]
    between = (min(low, pi_s), max(high, pi_s))
    return Mixture(len(wild), pi_s, between, None, None, explained(wild, cut), cut, pi_s > 0, confidence)


def id_share(wild_scores: Any, id_scores: Any, *, confidence: float = 0.95) -> tuple[float, Interval]:
    """Storey's estimate of the share drawn like the ID samples, with an interval; an upper estimate, see above."""
    wild = as_scores("wild_scores", wild_scores)
    clean = as_scores("id_scores", id_scores, minimum=FEWEST)
    median = float(np.quantile(clean, 1 - LAMBDA, method="inverted_cdf"))
    ours = float(np.mean(clean <= median))  # exactly what the samples at hand put there, ties included
    theirs = float(np.mean(wild <= median))
    low, high = wilson(theirs, len(wild), confidence)
    noise = _deviation(confidence) * math.sqrt(ours * (1 - ours) / len(clean)) / ours  # of the place of the median
    clipped = [min(1.0, max(0.0, v)) for v in (theirs / ours, low / ours * (1 - noise), high / ours * (1 + noise))]
    return clipped[0], (clipped[1], clipped[2])


def wilson(share: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (1927)."""
    z = _deviation(confidence)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def _unknown_interval(wild: Array, cut: float, separated: bool, confidence: float) -> Interval:
    if not separated:
        return 0.0, wilson(float(np.mean(wild > cut)), len(wild), confidence)[1]
    near, far = three_groups(wild)
    found = float(np.mean(wild > cut))
    low = wilson(float(np.mean(wild > far)), len(wild), confidence)[0]
    high = wilson(float(np.mean(wild > near)), len(wild), confidence)[1]
    return min(low, found), max(high, found)  # cuts on a grid of ranks may pass by a small group of a large pool


def _shifted(pool: Any, clean: Any, pi_s: float, between: Interval, confidence: float) -> tuple[float, Interval]:
    pi_in, (_, most) = id_share(pool, clean, confidence=confidence)
    value = max(0.0, 1 - pi_s - pi_in)
    return value, (max(0.0, 1 - between[1] - most), max(value, 1 - between[0]))


def _deviation(confidence: float) -> float:
    """z with P(|N(0, 1)| <= z) = confidence."""
    from scipy.stats import norm

    return float(norm.ppf(0.5 + confidence / 2))
