"""Section 3 of the paper: the augmentation graph, its spectrum, and what an embedding is judged by."""

from wildspec.graph.adjacency import AugmentationGraph
from wildspec.graph.extension import SpectralExtension
from wildspec.graph.neighbors import NeighborGraph, group_transition, neighbor_graph
from wildspec.graph.probe import ProbeError, linear_probe, linear_probe_error, separability
from wildspec.graph.spectrum import SpectralEmbedding, spectral_embedding

__all__ = [
    "AugmentationGraph", "NeighborGraph", "ProbeError", "SpectralEmbedding", "SpectralExtension", "group_transition",
    "linear_probe", "linear_probe_error", "neighbor_graph", "separability", "spectral_embedding",
]  # fmt: skip
