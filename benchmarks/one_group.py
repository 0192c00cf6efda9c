"""How often is a wild pool of one group taken for two, and what does asking for more cost where there are two?

    python benchmarks/one_group.py        writes benchmarks/results/one_group.json

Two rules for the share of the variance that Otsu's cut must explain (`wildspec.decision.shares`): more than 3/4, whatever
the size of the pool ("before"), and more than a uniform pool of that size shows in 95 % of draws ("now"). On scores drawn
from hills of many shapes, on distances in real features (digits of known classes, raw pixels), and on pools of known
composition. Some five minutes on one core.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.datasets import load_digits

from wildspec.decision.cut import one_group
from wildspec.decision.shares import _unknown_interval as interval
from wildspec.decision.shares import estimate_mixture
from wildspec.files import write_json
from wildspec.provenance import environment

OUT = Path(__file__).resolve().parent / "results" / "one_group.json"
SCHEMA = "wildspec.one-group/1"
SIZES = (50, 100, 200, 500, 1000, 2000)
HILLS = {
    "uniform": stats.uniform, "normal": stats.norm, "half circle": stats.semicircular, "exponential": stats.expon,
    "gamma 1/2": stats.gamma(0.5), "gamma 2": stats.gamma(2), "chi 3": stats.chi(3), "chi 10": stats.chi(10),
    "lognormal 0.5": stats.lognorm(0.5), "lognormal 1": stats.lognorm(1.0), "beta 0.8, 2": stats.beta(0.8, 2),
    "t 3": stats.t(3),
}  # fmt: skip
COMPOSITIONS = tuple((pi_c, pi_s) for pi_c in (0.0, 0.25, 0.5) for pi_s in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5))
Rows = list[dict[str, Any]]
KNOWN, LABELLED = 6, 200  # classes of digits, labelled digits


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    document: dict[str, Any] = {"schema": SCHEMA, "draws": given.draws, "limit": {n: one_group(n) for n in SIZES}}
    for name, part in (("hills", hills), ("digits", digits), ("compositions", compositions)):
        document[name] = part(given.draws)
        print(name, file=sys.stderr, flush=True)
    write_json(given.out, {**document, "environment": environment()})


def hills(draws: int) -> Rows:
    """Scores from one hill: share of pools that are taken for two groups. Truth: none."""
    rng = np.random.default_rng(0)
    return [
        {"hill": name, "n": n, "draws": draws, **judged(law.rvs(size=n, random_state=rng) for _ in range(draws))}
        for name, law in HILLS.items() for n in SIZES
    ]  # fmt: skip


def digits(draws: int) -> Rows:
    """Features: raw pixels of six random classes, labelled and wild, no shift; and with strangers of the other four."""
    pixels, classes = load_digits(return_X_y=True)
    rng = np.random.default_rng(1)
    found = []
    for n in (50, 100, 200, 400, 800):
        for pi_s in (0.0, 0.3, 0.5):
            many = max(20, draws // 10)
            pools = (pool_of_digits(pixels, classes, n, pi_s, rng) for _ in range(many))
            found.append({"n": n, "true_pi_s": pi_s, "draws": many, **judged(pools, pi_s)})
    return found


def pool_of_digits(
    pixels: np.ndarray, classes: np.ndarray, n: int, pi_s: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(n, 64) wild and (200, 64) labelled."""
    known = np.isin(classes, rng.permutation(10)[:KNOWN])
    ours, theirs = rng.permutation(np.flatnonzero(known)), rng.permutation(np.flatnonzero(~known))
    strangers = round(n * pi_s)
    wild = np.r_[ours[LABELLED : LABELLED + n - strangers], theirs[:strangers]]
    return pixels[wild], pixels[ours[:LABELLED]]


def compositions(draws: int) -> Rows:
    """Scores as a network gives them, shares known: known ones small and skewed, shifted ones larger, unknown far off."""
    rng = np.random.default_rng(2)

    def drawn(n: int, pi_c: float, pi_s: float) -> np.ndarray:
        counts = (n - round(n * pi_c) - round(n * pi_s), round(n * pi_c), round(n * pi_s))
        known, shifted = (rng.lognormal(np.log(at), 0.5, count) for at, count in zip((0.12, 0.2), counts, strict=False))
        return np.concatenate([known, shifted, rng.normal(0.9, 0.15, counts[2])])

    many = max(20, draws // 5)
    return [
        {"n": n, "true_pi_c": pi_c, "true_pi_s": pi_s, "draws": many,
         **judged((drawn(n, pi_c, pi_s) for _ in range(many)), round(n * pi_s) / n)}
        for n in SIZES for pi_c, pi_s in COMPOSITIONS
    ]  # fmt: skip


def judged(pools: Iterable[Any], pi_s: float = 0.0) -> dict[str, Any]:
    """Both rules on the same pools, scores or (wild, labelled) features: how many are two groups, the share found on
    average, how often its interval holds the truth (of scores; the interval of features takes the scores in between)."""
    found: dict[str, list[tuple[bool, float, bool | None]]] = {"before": [], "now": []}
    eta = []
    for pool in pools:
        given = pool if isinstance(pool, tuple) else (pool,)
        now, loose = estimate_mixture(*given), estimate_mixture(*given, confidence=0.5)  # at 1/2 the limit is 3/4
        eta.append(now.eta)
        for rule, one in (("before", loose), ("now", now)):
            inside = None if isinstance(pool, tuple) else holds(interval(pool, now.cut, one.separated, 0.95), pi_s)
            found[rule].append((one.separated, one.pi_s, inside))
    return {"eta": float(np.median(eta)), **{rule: summary(rows) for rule, rows in found.items()}}


def summary(rows: list[tuple[bool, float, bool | None]]) -> dict[str, float]:
    two, share, inside = (list(column) for column in zip(*rows, strict=True))
    held = {} if None in inside else {"interval_holds": float(np.mean(inside))}
    return {"two_groups": float(np.mean(two)), "pi_s": float(np.mean(share)), **held}


def holds(between: Any, truth: float) -> bool:
    return bool(between[0] <= truth <= between[1])


if __name__ == "__main__":
    main()
