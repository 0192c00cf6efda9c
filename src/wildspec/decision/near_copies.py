"""Near-copies among labelled samples: frames of one film, crops of one slide, one picture saved twice.

Where they stand on both sides of a split, what is held out is known already: false alarms look rarer, and the threshold
lower, than they are for new samples.

A sample has near-copies when its distances to others of its class, d_1 <= d_2 <= ..., jump: d_{j+1} > 3 d_j for some j up to
a third of its class. In a smooth cloud of m dimensions that happens to a share of 3^-m + 3^-2m + ...: one in eight in a
plane, fewer in more dimensions. Hence a warning beyond one in five.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

JUMP = 3.0
ALLOWED = 0.2  # of the samples looked at
LOOKED_AT = 512  # samples
FEWEST = 50  # samples looked at, to say anything
COMPARED = 2048  # others of a class


def near_copy_share(
    rows: NDArray[np.floating], labels: NDArray[np.integer], together: NDArray[np.integer], seed: int = 0
) -> float:
    """Share of samples with near-copies, 0 where they are too few to say. (n, d), (n,), and (n,) groups that are kept
    together anyway: one of each is looked at. Distances are Euclidean."""
    first = np.unique(together, return_index=True)[1]
    generator = np.random.default_rng(seed)
    found = looked = 0
    classes, counts = np.unique(labels[first], return_counts=True)
    for number, count in zip(classes.tolist(), counts.tolist(), strict=True):
        if count < 4:  # too few to have a jump
            continue
        own = generator.permutation(first[labels[first] == number])[:COMPARED]
        mine = rows[own].astype(np.float64)
        asked = mine[: max(LOOKED_AT * count // len(first), 2)]
        distances = np.sort(np.sqrt(np.maximum(_squared(asked, mine), 0)), axis=1)[:, 1 : len(own) // 3 + 2]
        found += int((distances[:, 1:] > JUMP * distances[:, :-1]).any(axis=1).sum())
        looked += len(asked)
    return found / looked if looked >= FEWEST else 0.0


def warn_of_near_copies(
    rows: NDArray[np.floating], labels: NDArray[np.integer], together: NDArray[np.integer], what: str
) -> None:
    """``what``: the samples in words."""
    share = near_copy_share(rows, labels, together)
    if share > ALLOWED:
        warnings.warn(
            f"{share:.0%} of the labelled {what} have near-copies among the others (frames of one film, crops of one "
            "slide?): held out, such copies make the model look better and the threshold too low; say what belongs "
            f"together ({'--groups PATTERN, in Python ' if what == 'images' else ''}fit(groups=...))",
            stacklevel=4,
        )


def _squared(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, m) squared distances; the mean of ``b`` is taken off first, so that little is lost to rounding."""
    a, b = a - b.mean(0), b - b.mean(0)
    return (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
