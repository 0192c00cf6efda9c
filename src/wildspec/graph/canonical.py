"""One basis out of many: eigenvectors that do not depend on the machine.

An eigenvector is known up to its sign, a repeated eigenvalue only up to a rotation of its eigenspace. What is well
defined is the projector P = Q Q^T, so the basis is read off P: take the node with the largest P_ii, use the column
P e_i / sqrt(P_ii) as the next vector (its entry at i is positive), deflate, repeat. This is a pivoted QR of Q^T; the
first of all nodes within ``TIE`` of the largest wins, so rounding cannot choose the pivot.

Guaranteed: two bases of the same eigenspace give the same vectors up to rounding, in the same order. Not guaranteed:
vectors of eigenvalues that lie further apart than ``DEGENERATE`` but so close that rounding mixes them; their
error is about 1e-16 / (distance of the eigenvalues).
"""

import itertools

import numpy as np

from wildspec.graph.inputs import Array

DEGENERATE = 1e-9  # eigenvalues of the normalized adjacency (they lie in [0, 1]) closer than this count as equal
TIE = 1e-5  # relative; larger than any rounding error of a squared row norm


def eigenvalue_groups(values: Array, gap: float = DEGENERATE) -> list[slice]:
    """Runs of equal values in a descending list: consecutive distances of at most ``gap``."""
    breaks = np.flatnonzero(values[:-1] - values[1:] > gap) + 1
    edges = [0, *breaks.tolist(), len(values)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges) if stop > start]


def canonical_rotation(basis: Array, wanted: int | None = None) -> Array:
    """(N, m) orthonormal basis Q -> (m, m) rotation U so that Q U is the canonical basis of the same space.

    wanted: how many of its columns, from the first; all by default.
    """
    rows = np.array(basis, dtype=np.float64)  # (N, m): what is left of each node's row after deflation
    size = rows.shape[1]
    count = size if wanted is None else min(wanted, size)
    rotation = np.zeros((size, count))
    for column in range(count):
        norms = np.einsum("ij,ij->i", rows, rows)
        pivot = int(np.argmax(norms >= (1.0 - TIE) * norms.max()))
        direction = basis[pivot].copy()
        for _ in range(2):  # twice is enough: the second pass removes the rounding of the first
            direction -= rotation[:, :column] @ (rotation[:, :column].T @ direction)
        direction /= np.linalg.norm(direction)
        rotation[:, column] = direction
        rows -= np.outer(rows @ direction, direction)
    return rotation


def canonical_rotations(values: Array, vectors: Array, k: int | None = None) -> Array:
    """(m,) descending values, (N, m) vectors -> (m, k): the first k columns of a block-diagonal rotation, one block for each
    eigenvalue; all m by default."""
    k = len(values) if k is None else k
    rotation = np.zeros((len(values), k))
    for group in eigenvalue_groups(values):
        if group.start >= k:
            break
        if group.stop - group.start == 1:  # only a sign: the same rule without the copies
            vector = vectors[:, group.start]
            size = vector**2
            rotation[group, group] = np.sign(vector[int(np.argmax(size >= (1.0 - TIE) * size.max()))])
        else:
            rotation[group, group.start : min(group.stop, k)] = canonical_rotation(vectors[:, group], k - group.start)
    return rotation
