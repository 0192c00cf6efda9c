"""The five-node example of Section 4.3 and appendices B, C, solved exactly.

Nodes: angel sketch, tiger sketch (ID, labelled), angel painting, tiger painting (covariate), panda (semantic).
T(x|x') = rho (same class, same domain), alpha (same class), beta (same domain) or gamma (neither). Scenarios:

    separate    the panda has a domain of its own                     appendix B, figure (a)
    shared      the panda is a painting too                           appendix B, figure (b)
    unlabelled  as separate, but the graph does not know the labels   appendix C
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wildspec.checks import choice, integer, non_negative, positive
from wildspec.errors import InputError
from wildspec.graph import AugmentationGraph, ProbeError, SpectralEmbedding, linear_probe_error, spectral_embedding
from wildspec.graph import separability as _separability
from wildspec.graph.canonical import canonical_rotations
from wildspec.graph.inputs import Array

SCENARIOS = ("separate", "shared", "unlabelled")
NODES = ("angel sketch", "tiger sketch", "angel painting", "tiger painting", "panda")
CLASSES = np.array([0, 1, 0, 1, 2])  # angel, tiger, panda
DOMAINS = {"separate": (0, 0, 1, 1, 2), "unlabelled": (0, 0, 1, 1, 2), "shared": (0, 0, 1, 1, 1)}
LABELS = np.array([0, 1, -1, -1, -1])


def transition_matrix(scenario: str, rho: float, alpha: float, beta: float, gamma: float) -> Array:
    """T (5, 5) of eq. 9: the two figures of appendix B. Not normalized, as in the paper."""
    domains = np.array(DOMAINS[choice("scenario", scenario, SCENARIOS)])
    same_class = CLASSES[:, None] == CLASSES[None, :]
    same_domain = domains[:, None] == domains[None, :]
    return np.where(same_class, np.where(same_domain, rho, alpha), np.where(same_domain, beta, gamma)).astype(float)


@dataclass(frozen=True)
class FiveNode:
    """One instance of the example: everything below is the exact 5 x 5 problem, no approximation."""

    scenario: str
    rho: float
    alpha: float
    beta: float
    gamma: float
    eta_u: float
    eta_l: float
    k: int

    @property
    def label_weight(self) -> float:
        """r = 5 eta_l / eta_u: weight of A^(l) against T T^T (the paper's setting is r = 1); 0 without labels."""
        return 0.0 if self.scenario == "unlabelled" else 5.0 * self.eta_l / self.eta_u

    @cached_property
    def graph(self) -> AugmentationGraph:
        """The augmentation graph of Section 3."""
        labels = None if self.scenario == "unlabelled" else LABELS
        return AugmentationGraph(self.transition, labels, eta_u=self.eta_u, eta_l=self.eta_l)

    @cached_property
    def transition(self) -> Array:
        """T (5, 5)."""
        return transition_matrix(self.scenario, self.rho, self.alpha, self.beta, self.gamma)

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """All five eigenvalues (descending) and canonical eigenvectors (columns) of D^-1/2 A D^-1/2."""
        values, vectors = np.linalg.eigh(self.graph.normalized(dense=True))
        values, vectors = values[::-1], vectors[:, ::-1]
        return np.clip(values, 0.0, None), vectors @ canonical_rotations(values, vectors)

    @cached_property
    def spectrum(self) -> SpectralEmbedding:
        """Top k, with the embedding Z."""
        return spectral_embedding(self.graph, self.k, solver="dense")

    @property
    def embedding(self) -> Array:
        """Z (5, k): features of the five nodes."""
        return self.spectrum.embedding

    @cached_property
    def probe(self) -> ProbeError:
        """E(f), eq. 7: the probe learns from the sketches and is asked about the paintings."""
        return probe_of(self.embedding)

    @property
    def separability(self) -> float:
        """S(f), eq. 8: mean squared distance of the sketches from the panda."""
        return separability_of(self.embedding)

    @property
    def split(self) -> bool:
        """True when the k-th and (k+1)-th eigenvalues are equal: the paper's cases meet, k vectors are a choice."""
        return self.spectrum.split_eigenspace


def five_node(
    scenario: str = "separate",
    rho: float = 1.0,
    alpha: float = 0.05,
    beta: float = 0.03,
    gamma: float = 0.0,
    eta_u: float = 5.0,
    eta_l: float = 1.0,
    k: int = 3,
) -> FiveNode:
    """The example with all parameters free; defaults are the paper's eta and k. Only ratios to rho matter."""
    choice("scenario", scenario, SCENARIOS)
    positive("rho", rho)
    for name, value in (("alpha", alpha), ("beta", beta), ("gamma", gamma), ("eta_l", eta_l)):
        non_negative(name, value)
    positive("eta_u", eta_u)
    integer("k", k, minimum=1, maximum=4)
    if rho <= max(alpha, beta, gamma):
        raise InputError(f"rho must exceed alpha, beta and gamma, got rho = {rho:g} and {max(alpha, beta, gamma):g}")
    return FiveNode(scenario, rho, alpha, beta, gamma, eta_u, eta_l, k)


def probe_of(embedding: Array) -> ProbeError:
    """E(f) of a (5, k) embedding: sketches teach, paintings are asked."""
    return linear_probe_error(embedding[:2], [0, 1], embedding[2:4], [0, 1])


def separability_of(embedding: Array) -> float:
    """S(f) of a (5, k) embedding: sketches against panda."""
    return _separability(embedding[:2], embedding[4:])
