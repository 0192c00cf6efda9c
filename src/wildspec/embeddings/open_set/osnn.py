"""OSNN: the two nearest labelled samples decide (Mendes Junior et al., 2017, as DAOD's authors use it).

d1 <= d2: Euclidean distances to the two nearest labelled samples. Of one class: that class. Of two: the class of the first
where d1 <= ratio * d2, else unknown. Score: S = d1 / d', d' the distance to the nearest labelled sample of any other class
than the nearest one's; in [0, 1], 1 = halfway between two classes. Where the two nearest are of two classes, d' = d2 and
unknown means S > ratio.
"""

import numpy as np

from wildspec.checks import choice, fraction
from wildspec.embeddings.open_set.base import Numbers, OpenSetAnswer, OpenSetClassifier, Vector
from wildspec.graph.search import NeighborIndex, Rows


def osnn(nearest: Vector, ratio: float) -> OpenSetAnswer:
    """The rule on ``nearest`` (n, K, 2): distances to the nearest and second nearest labelled sample of each class."""
    first = nearest[:, :, 0]
    known = first.argmin(axis=1)
    own = np.arange(len(nearest))
    d1, again = nearest[own, known, 0], nearest[own, known, 1]
    others = first.copy()
    others[own, known] = np.inf
    other = others.min(axis=1)  # the nearest of another class
    unknown = (other < again) & (d1 > ratio * np.where(np.isfinite(other), other, 0.0))
    score = np.divide(d1, other, out=np.ones_like(d1), where=other > 0)
    return OpenSetAnswer(known, unknown, score)


class ClassNeighbors:
    """Distances of rows to the two nearest members of each class."""

    def __init__(self, rows: Rows, labels: Numbers, n_classes: int) -> None:
        self._indices = [NeighborIndex(rows[labels == c], metric="euclidean", method="exact") for c in range(n_classes)]

    def nearest(self, rows: Rows) -> Vector:
        """(n, d) -> (n, K, 2), ascending; infinite where a class has no second member."""
        found = np.full((len(rows), len(self._indices), 2), np.inf)
        for number, index in enumerate(self._indices):
            count = min(2, len(index))
            found[:, number, :count] = index.search(rows, count)[0]
        return found


class OSNN(OpenSetClassifier):
    """Open-set nearest neighbours: a baseline that does not look at the wild pool.

    Parameters
    ----------
    ratio : float, default=0.5
        In [0, 1]. Where the two nearest labelled samples are of two classes, a sample is unknown if its distance to the
        first is more than this share of that to the second.
    reference : {"samples", "means"}, default="samples"
        What is near: every labelled sample, or the mean of each class (then the two nearest are always of two classes).

    Attributes
    ----------
    classes_ : (K,) the known classes.
    transduction_ : (m,) what ``predict`` says of the wild samples of ``fit``: those of X, then X_wild.
    n_wild_ : int, how many there were.

    Examples
    --------
    >>> from wildspec.embeddings import OSNN
    >>> model = OSNN().fit([[0.0], [0.1], [1.0], [1.1]], [0, 0, 1, 1], X_wild=[[0.2], [0.54]])
    >>> model.transduction_
    array([ 0, -1])
    """

    def __init__(self, ratio: float = 0.5, *, reference: str = "samples") -> None:
        self.ratio = ratio
        self.reference = reference

    def _check(self) -> None:
        fraction("ratio", self.ratio)
        choice("reference", self.reference, ("samples", "means"))

    def _learn(self, source: Rows, labels: Numbers, target: Rows) -> None:
        count = len(self.classes_)
        if self.reference == "means":
            source = np.stack([source[labels == c].mean(axis=0, dtype=np.float64) for c in range(count)]).astype(np.float32)
            labels = np.arange(count)
        self._neighbors = ClassNeighbors(source, labels, count)

    def _answer(self, rows: Rows) -> OpenSetAnswer:
        return osnn(self._neighbors.nearest(rows), float(self.ratio))
