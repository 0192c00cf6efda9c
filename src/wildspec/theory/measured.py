"""rho, alpha, beta and gamma of real samples: how strongly a neighbour graph ties classes and domains together.

The theory gives every cell (class, domain) one node and ties them by T = rho, alpha (same class, other domain), beta (same
domain, other class) and gamma (both differ), eq. 9. With w_ij the kernel between samples and m_ab the mean of w_ij over
i in cell a, j in cell b, i != j, the strength of a tie is measured against the cells' own cohesion:

    t_ab = m_ab / sqrt(m_aa m_bb)

so that t_aa = 1 = rho, and neither the size nor the density of a cell counts. alpha is the mean of t_ab over pairs of cells
of one class in two domains, beta over pairs of classes in one domain, gamma over the rest. `Strengths.world` asks the theory
what such a world would do. Labels of all samples are needed: this explains a result, it is no part of learning.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wildspec.errors import InputError
from wildspec.graph.neighbors import neighbor_graph
from wildspec.theory.analysis import WorldAnalysis
from wildspec.theory.world import domain_class_graph

Array = NDArray[np.float64]
MOST = 1 - 1e-9  # in units of rho: the theory's alpha, beta and gamma stay below it


@dataclass(frozen=True, eq=False)
class Strengths:
    """alpha, beta, gamma in units of rho. ``across`` (D, D): alpha by pair of domains; ``within`` (C, C): beta by pair of
    classes; 0 where no pair of cells was at hand. ``counts`` (C, D): samples."""

    classes: list[str]
    domains: list[str]
    alpha: float
    beta: float
    gamma: float
    across: Array
    within: Array
    counts: NDArray[np.int64]

    def world(self, labelled: str, *, unknown: Iterable[str] = (), **options: Any) -> WorldAnalysis:
        """The theory's world with these strengths and shares; options as for `domain_class_graph`.

        Ties between domains (or classes) that do not differ come out at rho or above by noise; the theory wants them below
        rho, so all are held just under it, at `MOST`."""
        return domain_class_graph(
            self.classes, self.domains, labelled, unknown=unknown, weights=self.counts.astype(float),
            alpha=np.minimum(self.across, MOST), beta=np.minimum(self.within, MOST), gamma=min(self.gamma, MOST),
            **options,
        )  # fmt: skip


def measure_strengths(
    embeddings: Any, classes: Any, domains: Any, *, n_neighbors: int = 10, metric: str = "cosine"
) -> Strengths:
    """(n, d) embeddings with their classes and domains (n values each) -> strengths in their neighbour graph."""
    graph = neighbor_graph(embeddings, n_neighbors, metric=metric)
    return cell_strengths(graph.kernel, classes, domains)


def cell_strengths(kernel: Any, classes: Any, domains: Any) -> Strengths:
    """(n, n) symmetric kernel, n classes, n domains -> strengths. A cell needs two samples that are tied to each other."""
    shape = np.shape(kernel)
    kinds, kind = np.unique(np.asarray(classes), return_inverse=True)
    places, place = np.unique(np.asarray(domains), return_inverse=True)
    if shape != (len(kind), len(kind)) or len(place) != len(kind):
        raise InputError(f"a kernel of shape {shape} needs as many classes and domains, got {len(kind)} and {len(place)}")
    weights = sparse.csr_array(kernel)
    cell = kind * len(places) + place
    total = len(kinds) * len(places)
    members = sparse.csr_array((np.ones(len(cell)), (np.arange(len(cell)), cell)), shape=(len(cell), total))
    sums = (members.T @ (weights - sparse.diags_array(weights.diagonal())) @ members).toarray()
    sizes = np.bincount(cell, minlength=total).astype(float)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    means = np.divide(sums, pairs, out=np.zeros_like(sums), where=pairs > 0)
    own = np.diag(means)
    hollow = np.flatnonzero((sizes > 0) & (own <= 0))
    if len(hollow):
        name = f"{kinds[hollow[0] // len(places)]}, {places[hollow[0] % len(places)]}"
        raise InputError(f"the cell ({name}) has no two samples tied to each other; give it more samples or neighbours")
    root = np.sqrt(own)
    ties = np.divide(means, np.outer(root, root), out=np.full_like(means, np.nan), where=np.outer(own, own) > 0)
    ties = ties.reshape(len(kinds), len(places), len(kinds), len(places))
    across = np.array([[_mean(ties[:, a, :, b].diagonal()) for b in range(len(places))] for a in range(len(places))])
    within = np.array([[_mean(ties[c, :, e, :].diagonal()) for e in range(len(kinds))] for c in range(len(kinds))])
    other_class = ~np.eye(len(kinds), dtype=bool)[:, None, :, None]
    other_domain = ~np.eye(len(places), dtype=bool)[None, :, None, :]
    both = np.broadcast_to(other_class & other_domain, ties.shape)
    alphas = np.broadcast_to(~other_class & other_domain, ties.shape)
    betas = np.broadcast_to(other_class & ~other_domain, ties.shape)
    return Strengths(
        [str(name) for name in kinds.tolist()], [str(name) for name in places.tolist()],
        _mean(ties[alphas]), _mean(ties[betas]), _mean(ties[both]),
        _hollow(across), _hollow(within), sizes.astype(np.int64).reshape(len(kinds), len(places)),
    )  # fmt: skip


def _mean(values: Array) -> float:
    """Of the pairs of cells that exist; 0 where there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


def _hollow(table: Array) -> Array:
    """Symmetric to the last digit, with 0 on the diagonal, where the theory has rho."""
    table = (table + table.T) / 2
    np.fill_diagonal(table, 0.0)
    return table
