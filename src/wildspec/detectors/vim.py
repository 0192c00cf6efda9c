"""Virtual-logit matching: S(x) = alpha ||N^T (f - u)|| - log sum_c exp(z_c), high = OOD (Wang et al., 2022).

u = -W^+ b is where all logits vanish; N spans what the D leading eigenvectors of the second moment of f - u (not re-centred)
leave over; alpha = mean max logit / mean residual norm over the training samples makes the residual a virtual logit.
"""

import torch
from torch import Tensor, nn

from wildspec.checks import integer
from wildspec.detectors.base import Detector, register
from wildspec.detectors.inputs import linear_head, row_blocks, same_width
from wildspec.errors import InputError


def vim_score(features: Tensor, logits: Tensor, origin: Tensor, residual: Tensor, alpha: Tensor) -> Tensor:
    """(n, d), (n, C) -> (n,) scores; ``residual`` (d, d - D): orthonormal basis of the residual space."""
    return alpha * ((features - origin) @ residual).norm(dim=1) - torch.logsumexp(logits, dim=1)


def default_dim(width: int) -> int:
    """The authors' choice of D by feature width: 1000 from 2048, 512 from 768, else half."""
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


@register
class ViM(Detector):
    """``dim``: D, size of the principal space; None: by feature width.

    With so few samples that their features fill no more than D dimensions, no training sample has a residual and alpha would
    be infinite: D is then lowered to half their rank.
    """

    name = "vim"
    summary = "residual outside the principal space, as a virtual logit against the energy"
    paper = "Wang et al., ViM: Out-of-distribution with virtual-logit matching, CVPR 2022"
    fit_needs = ("features", "model")
    score_needs = ("features", "logits")
    state_names = ("origin_", "residual_", "alpha_")

    def __init__(self, dim: int | None = None) -> None:
        self.dim = None if dim is None else integer("dim", dim, minimum=1)

    def _fit(self, *, features: Tensor, model: nn.Module) -> None:
        width = features.shape[1]
        dim = default_dim(width) if self.dim is None else self.dim
        if dim >= width:
            raise InputError(f"vim with dim = {dim} leaves no residual of features of width {width}; choose a smaller dim")
        head = linear_head(self, model)
        weight, bias = (value.to(features.device, torch.float64) for value in head)
        same_width(self, "features", features, weight.shape[1])
        # what is zero is told by the precision the weights were kept in: rows that sum to 0 would put u millions away
        rounding = max(weight.shape) * torch.finfo(head[0].dtype).eps
        origin = -torch.linalg.pinv(weight, rtol=rounding) @ bias  # (d,)
        moment = origin.new_zeros(width, width)
        for block in row_blocks({"features": features}):
            rows = block["features"].double() - origin
            moment.addmm_(rows.T, rows)
        values, vectors = torch.linalg.eigh(moment)  # ascending
        rank = int((values > 10 * width * torch.finfo(torch.float64).eps * values[-1]).sum())
        if rank <= dim:
            dim = rank // 2
        residual = vectors[:, : width - dim]
        norms = logits = origin.new_zeros(())
        for block in row_blocks({"features": features}):
            rows = block["features"].double()
            norms = norms + ((rows - origin) @ residual).norm(dim=1).sum()
            logits = logits + (rows @ weight.T + bias).amax(dim=1).sum()
        if not float(norms) > 0:
            raise InputError("vim found no spread in the training features; give samples that differ")
        self.origin_ = origin.to(features.dtype)
        self.residual_ = residual.to(features.dtype).contiguous()  # (d, d - D)
        self.alpha_ = (logits / norms).to(features.dtype)

    def _score(self, *, features: Tensor, logits: Tensor) -> Tensor:
        same_width(self, "features", features, len(self.origin_))
        return vim_score(features, logits, self.origin_, self.residual_, self.alpha_)
