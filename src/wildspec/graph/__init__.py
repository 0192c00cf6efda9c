"""Section 3 of the paper: the augmentation graph, its spectrum, and what an embedding is judged by."""

from wildspec.graph.adjacency import AugmentationGraph
from wildspec.graph.probe import ProbeError, linear_probe, linear_probe_error, separability
from wildspec.graph.spectrum import SpectralEmbedding, spectral_embedding

__all__ = [
    "AugmentationGraph",
    "ProbeError",
    "SpectralEmbedding",
    "linear_probe",
    "linear_probe_error",
    "separability",
    "spectral_embedding",
]
