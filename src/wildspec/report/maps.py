"""Where samples lie: the neighbour graph of their features, its spectrum, and two maps of the plane."""

from dataclasses import dataclass

import numpy as np

from wildspec.graph import AugmentationGraph, spectral_embedding
from wildspec.graph.neighbors import neighbor_graph
from wildspec.graph.search import unit_rows

NEIGHBOURS = 10
EIGENVALUES, BEYOND, MOST = 24, 8, 120  # drawn at least; beyond one for each class, to see what follows; at most


@dataclass(frozen=True)
class Maps:
    """``spectrum``: (k,) eigenvalues of the neighbour graph, descending. ``spectral``, ``tsne``: (n, 2) in [0, 1]."""

    spectrum: np.ndarray
    spectral: np.ndarray
    tsne: np.ndarray


def draw_maps(features: np.ndarray, seed: int = 0, classes: int = 0) -> Maps:
    """(n, d) features -> the maps; n of a few hundred to a few thousand. ``classes``: the spectrum reaches beyond them."""
    unit = unit_rows(features)
    k = min(max(EIGENVALUES, min(classes + BEYOND, MOST)), len(unit) - 1)
    found = spectral_embedding(AugmentationGraph(neighbor_graph(unit, NEIGHBOURS + 1, seed=seed).transition()), k, seed=seed)
    # The first eigenvector is the same for all samples of a connected graph: the next two tell them apart.
    plane = found.vectors[:, 1:3] / np.sqrt(found.degrees)[:, None]
    return Maps(np.clip(found.values, 0, 1), _square(_ranked(plane)), _square(_tsne(unit, seed)))


def _tsne(unit: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    perplexity = min(30.0, (len(unit) - 1) / 3)
    # A thousand samples are too few for many threads, which on a busy machine wait for each other and burn its processors.
    with threadpool_limits(1, user_api="openmp"):
        return TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(unit)


def _ranked(plane: np.ndarray) -> np.ndarray:
    """Half coordinates, half ranks: eigenvectors crowd most samples into a few points, which would hide each other."""
    if plane.shape[1] < 2:
        plane = np.column_stack([plane, np.zeros(len(plane))])
    ranks = np.argsort(np.argsort(plane, axis=0, kind="stable"), axis=0, kind="stable") / max(1, len(plane) - 1)
    return 0.5 * _square(plane) + 0.5 * ranks


def _square(plane: np.ndarray) -> np.ndarray:
    low, high = plane.min(axis=0), plane.max(axis=0)
    return (plane - low) / np.maximum(high - low, 1e-12)
