"""What a world of cells predicts: accuracy on shifted cells, separability from unknown ones, and why.

Why: a contrast is a function on the cells that averages to zero under the degrees, u its vector D^1/2 c / |D^1/2 c|. Its
strength is u^T A~ u in [0, 1], how well the graph holds the two sides together inside. Class strength is the mean over
contrasts of the known classes, domain strength over contrasts of their domains; in the five-node example these are
lambda_3 and lambda_4 to first order, so "class > domain" is the paper's 9/8 alpha > beta. What decides the accuracy is
``captured``: the part of the contrasts that lies in the top k.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wildspec.graph import AugmentationGraph, SpectralEmbedding, linear_probe_error, separability, spectral_embedding
from wildspec.graph.canonical import eigenvalue_groups
from wildspec.graph.inputs import Array


@dataclass(frozen=True)
class Cell:
    """One class in one domain."""

    kind: str  # class
    domain: str
    share: float  # of all data
    role: str  # "labelled", "covariate" (known class, shifted) or "semantic" (unknown class)


@dataclass(frozen=True)
class CellPrediction:
    """What the linear probe says about one covariate cell."""

    cell: Cell
    predicted: str | None  # None = a tie
    correct: bool
    margin: float  # score of the true class minus the best other; <= 0 is wrong


@dataclass(frozen=True)
class Connectivity:
    """Class against domain: strength = Rayleigh quotient of the contrasts, captured = their share in the top k."""

    class_strength: float | None  # None: fewer than two known classes
    domain_strength: float | None  # None: known classes live in one domain
    class_captured: float | None
    domain_captured: float | None

    @property
    def winner(self) -> str:
        """"class", "domain" or "tie"."""
        if self.domain_strength is None or self.class_strength is None:
            return "class" if self.domain_strength is None else "domain"
        if abs(self.class_strength - self.domain_strength) < 1e-9:
            return "tie"
        return "class" if self.class_strength > self.domain_strength else "domain"


@dataclass(frozen=True)
class WorldAnalysis:
    """A world solved: the graph, its embedding and the predictions."""

    graph: AugmentationGraph
    cells: list[Cell]
    spectrum: SpectralEmbedding
    ood_accuracy: float | None  # over covariate cells, by share; None without such cells
    id_accuracy: float
    predictions: list[CellPrediction]
    separability: float | None  # S(f), eq. 8, by share; None without semantic cells
    angular_separability: float | None  # S of unit vectors f / |f|, in [0, 4]; 2 = orthogonal
    covariate_distance: float | None  # the same measure between labelled and covariate cells: small is good
    connectivity: Connectivity
    eigenvalues: Array  # all of them, descending
    recipe: dict[str, Any]  # the arguments that built it

    @property
    def k(self) -> int:
        """Dimension of the embedding."""
        return len(self.spectrum.values)

    @property
    def clean_k(self) -> int | None:
        """Smallest k' >= k that does not cut through a repeated eigenvalue; None when there is none below N.

        When it differs from k, which vectors the embedding keeps is a convention, and so are the predictions.
        """
        ends = [group.stop for group in eigenvalue_groups(self.eigenvalues)]
        return next((end for end in ends if self.k <= end < len(self.cells)), None)

    @property
    def winner(self) -> str:
        """Which connectivity is stronger: "class", "domain" or "tie"."""
        return self.connectivity.winner

    def by_domain(self) -> dict[str, float]:
        """Predicted accuracy in each domain that has covariate cells, by share."""
        found: dict[str, list[CellPrediction]] = {}
        for prediction in self.predictions:
            found.setdefault(prediction.cell.domain, []).append(prediction)
        return {
            domain: sum(p.cell.share * p.correct for p in rows) / sum(p.cell.share for p in rows)
            for domain, rows in found.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        links = self.connectivity
        return {
            "cells": [vars(cell) for cell in self.cells],
            "k": self.k,
            "clean_k": self.clean_k,
            "eigenvalues": self.spectrum.values.tolist(),
            "ood_accuracy": self.ood_accuracy,
            "id_accuracy": self.id_accuracy,
            "accuracy_by_domain": self.by_domain(),
            "predictions": [
                {"class": p.cell.kind, "domain": p.cell.domain, "predicted": p.predicted, "correct": p.correct,
                 "margin": p.margin}
                for p in self.predictions
            ],
            "separability": self.separability,
            "angular_separability": self.angular_separability,
            "covariate_distance": self.covariate_distance,
            "winner": self.winner,
            "class_strength": links.class_strength,
            "domain_strength": links.domain_strength,
            "class_captured": links.class_captured,
            "domain_captured": links.domain_captured,
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Two worlds side by side."""

    before: WorldAnalysis
    after: WorldAnalysis

    @property
    def accuracy_gain(self) -> float | None:
        """Change of the predicted OOD accuracy."""
        return _difference(self.after.ood_accuracy, self.before.ood_accuracy)

    @property
    def angular_gain(self) -> float | None:
        """Change of the angular separability. S(f) itself also grows as unknowns get rarer, since rare cells have long
        vectors (|f|^2 ~ 1 / degree)."""
        return _difference(self.after.angular_separability, self.before.angular_separability)

    @property
    def margin_gain(self) -> float | None:
        """Change of the smallest margin over cells that are covariate in both worlds: moves before accuracy does."""
        old = {(p.cell.kind, p.cell.domain): p.margin for p in self.before.predictions}
        new = {(p.cell.kind, p.cell.domain): p.margin for p in self.after.predictions}
        both = old.keys() & new.keys()
        return min(new[c] for c in both) - min(old[c] for c in both) if both else None

    @property
    def verdict(self) -> str:
        """One sentence: does the change help?"""
        gain, margin, apart = self.accuracy_gain, self.margin_gain, self.angular_gain
        words = []
        if gain is not None and abs(gain) > 1e-12:
            words.append(f"{'helps' if gain > 0 else 'hurts'} generalization ({100 * gain:+.0f} points OOD accuracy)")
        elif margin is not None and abs(margin) > 1e-9:
            words.append(f"leaves OOD accuracy, margin {'grows' if margin > 0 else 'shrinks'} by {abs(margin):.2g}")
        else:
            words.append("does not change generalization")
        if apart is not None and abs(apart) > 1e-9:
            words.append(f"{'helps' if apart > 0 else 'hurts'} detection ({apart:+.2g} angular separability)")
        elif apart is not None:
            words.append("does not change detection")
        if self.before.winner != self.after.winner:
            words.append(f"{self.after.winner} connectivity takes over")
        return "; ".join(words)


def analyse(
    graph: AugmentationGraph, cells: list[Cell], truth: list[int], k: int, recipe: dict[str, Any]
) -> WorldAnalysis:
    """Solve a world; ``truth`` holds the known-class number of every cell, -1 for semantic ones."""
    spectrum = spectral_embedding(graph, k)
    Z = spectrum.embedding
    share, classes = np.array([cell.share for cell in cells]), np.array(truth)
    rows = {
        role: np.flatnonzero([cell.role == role for cell in cells]) for role in ("labelled", "covariate", "semantic")
    }
    inside, shifted, novel = rows["labelled"], rows["covariate"], rows["semantic"]
    names = {int(number): cell.kind for number, cell in zip(classes, cells, strict=True) if number >= 0}

    def accuracy(asked: Any) -> tuple[float, list[CellPrediction]]:
        result = linear_probe_error(Z[inside], classes[inside], Z[asked], classes[asked])
        found = []
        for row, answer, scores in zip(asked, result.predictions, result.scores, strict=True):
            own = classes[row]
            rest = np.delete(scores, own)
            margin = float(scores[own] - rest.max()) if rest.size else float(scores[own])
            right = bool(answer == own)
            found.append(CellPrediction(cells[row], names.get(int(answer)), right, 0.0 if answer < 0 else margin))
        right_share = np.sum(share[asked] * (result.predictions == classes[asked]))
        return float(right_share / np.sum(share[asked])), found

    id_accuracy, _ = accuracy(inside)
    ood_accuracy, predictions = accuracy(shifted) if shifted.size else (None, [])

    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    unit = Z / np.where(lengths > 0, lengths, 1.0)  # a cell that none of the k vectors sees stays at 0

    def distance(features: Array, other: Any) -> float | None:
        if not other.size:
            return None
        return separability(features[inside], features[other], weights_in=share[inside], weights_semantic=share[other])

    return WorldAnalysis(
        graph, cells, spectrum, ood_accuracy, id_accuracy, predictions,
        distance(Z, novel), distance(unit, novel), distance(Z, shifted),
        _connectivity(graph, cells, classes, spectrum.vectors),
        np.linalg.eigvalsh(graph.normalized(dense=True))[::-1], recipe,
    )  # fmt: skip


def _connectivity(graph: AugmentationGraph, cells: list[Cell], classes: Array, vectors: Array) -> Connectivity:
    known = classes >= 0
    domain_names = sorted({cell.domain for cell, inside in zip(cells, known, strict=True) if inside})
    domains = np.array([domain_names.index(c.domain) if c.domain in domain_names else -1 for c in cells])
    operator = graph.normalized()
    numbers: list[float | None] = []
    for groups in (classes, domains):
        basis = _contrasts(groups, np.sqrt(graph.degrees()))
        if basis.shape[1] == 0:
            numbers += [None, None]
            continue
        numbers.append(float(np.sum(basis * (operator @ basis)) / basis.shape[1]))
        numbers.append(float(np.sum((vectors.T @ basis) ** 2) / basis.shape[1]))
    return Connectivity(numbers[0], numbers[2], numbers[1], numbers[3])


def _contrasts(groups: Array, root: Array) -> Array:
    """Orthonormal basis (N, g - 1) of D^1/2 c for c constant on each group (-1 = outside) and of mean 0 under D."""
    indicators = np.stack([(groups == g) * root for g in range(int(groups.max()) + 1)], axis=1)
    common = indicators.sum(axis=1)
    common /= np.linalg.norm(common)
    centred = indicators - np.outer(common, common @ indicators)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * max(float(sizes.max()), 1e-300)][:, : indicators.shape[1] - 1])


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
