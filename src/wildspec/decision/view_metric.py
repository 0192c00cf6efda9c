"""A metric from views: directions in which views of one picture differ say little about what is in it, and are shrunk.

With D (n, d) the differences between the features (length 1) of a view and those of its clean image,

    S = D^T D / n,    T = (S + m I)^(-1/2),    m = trace(S) / d,    row -> row T, scaled to length 1

Relevant component analysis (Shental et al., 2002) with a view and its image as one chunklet; m I keeps directions in which
no view moved from being blown up: none is stretched more than sqrt(1 + largest eigenvalue / m) against another.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wildspec.errors import InputError
from wildspec.graph.nearest import normalize


class ViewScatter:
    """S, gathered block by block: no difference is kept."""

    def __init__(self, width: int) -> None:
        self.total = torch.zeros(width, width, dtype=torch.float64)
        self.count = 0

    def add(self, clean: Tensor, views: Tensor) -> None:
        """(b, d) features of images and (b, V, d) of their views, of any length."""
        if views.ndim != 3 or clean.shape != (len(views), views.shape[2]) or clean.shape[1] != len(self.total):
            raise InputError(
                f"views must be (b, V, {len(self.total)}) beside clean (b, {len(self.total)}), got {tuple(views.shape)} and "
                f"{tuple(clean.shape)}"
            )
        moved = normalize(views.reshape(-1, views.shape[2])).view(views.shape) - normalize(clean).unsqueeze(1)
        rows = moved.reshape(-1, views.shape[2])
        self.total += (rows.T @ rows).double().cpu()
        self.count += len(rows)

    def metric(self) -> "ViewMetric":
        """T of what was added; where nothing was, or no view differs from its image, no change."""
        width = len(self.total)
        if self.count == 0 or float(self.total.trace()) <= 0:
            return ViewMetric(torch.eye(width))
        scatter = (self.total / self.count).numpy()
        values, vectors = np.linalg.eigh((scatter + scatter.T) / 2)
        mean = float(np.trace(scatter)) / width
        scale = np.sqrt(mean) / np.sqrt(values.clip(min=0) + mean)  # 1 where no view moved: lengths are free, rows become 1
        return ViewMetric(torch.from_numpy((vectors * scale) @ vectors.T).float())


@dataclass(frozen=True, eq=False)
class ViewMetric:
    """``matrix``: T (d, d) float32."""

    matrix: Tensor

    def prepare(self, features: Tensor) -> Tensor:
        """(n, d) features of any length -> (n, d) float32 rows of length 1 in the metric."""
        rows = normalize(features.float())
        return normalize(rows @ self.matrix.to(rows.device))
