"""What each eigenvector of the five-node example tells apart: class, domain, novelty.

The five contrasts below are orthonormal, so the squared inner products of a unit eigenvector with them add up to 1: its
shares. ``common``: all alike; ``class``: angels against tigers; ``domain``: sketches against paintings; ``cross``: class
against domain; ``novelty``: the panda against the rest.
"""

import numpy as np

from wildspec.graph.inputs import Array
from wildspec.theory.five_node import FiveNode

ROLES = ("common", "class", "domain", "cross", "novelty")
CONTRASTS = np.array([
    np.full(5, 1 / np.sqrt(5)),
    np.array([1, -1, 1, -1, 0]) / 2,
    np.array([1, 1, -1, -1, 0]) / 2,
    np.array([1, -1, -1, 1, 0]) / 2,
    np.array([-1, -1, -1, -1, 4]) / np.sqrt(20),
])  # fmt: skip


def role_shares(world: FiveNode) -> Array:
    """(5, 5): row i = the i-th eigenvector (largest eigenvalue first), columns as in ``ROLES``; rows add up to 1."""
    _, vectors = world.eigen
    return np.asarray((CONTRASTS @ vectors).T ** 2)
