"""The spectral contrastive loss on labelled and wild samples, in moment form (paper, eq. 6 and appendix A).

    L = -2 eta_l L1 - 2 eta_u L2 + eta_l^2 L3 + 2 eta_l eta_u L4 + eta_u^2 L5

with z, z' two views of the labelled samples (i = 1..n, class y_i, n_i = batch count of that class), u, u' two views of
the unlabelled ones (j = 1..m):

    L1 = sum_c  mean_{i in c} z_i . mean_{i in c} z'_i                 same class
    L2 = mean_j u_j . u'_j                                             same sample
    L3 = sum_{i != i'} (z_i . z'_i')^2 / (n_i n_i')                    labelled against labelled
    L4 = 1/2 sum_{ij} [(z_i . u'_j)^2 + (u_j . z'_i)^2] / (n_i m)      labelled against unlabelled, both directions
    L5 = sum_{j != j'} (u_j . u'_j')^2 / (m (m - 1))                   unlabelled against unlabelled

No pair is ever formed. A weighted sum of squared inner products is an inner product of weighted second moments,

    sum_ij a_i b_j (z_i . w_j)^2 = < Z^T diag(a) Z, W^T diag(b) W >,

so the whole loss needs class sums (C x d), four d x d moments and a few scalars: time O((n + m) d^2), memory O(d^2) beyond
the embeddings. Those sums are also all that several processes have to exchange (`reduce`).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wildspec.checks import non_negative, positive
from wildspec.errors import InputError

Reduce = Callable[[Tensor], Tensor]


class SpectralLoss(NamedTuple):
    """The loss and its five terms; the terms are unweighted and detached, for logging."""

    total: Tensor
    l1: Tensor
    l2: Tensor
    l3: Tensor
    l4: Tensor
    l5: Tensor


def clip_norm(z: Tensor, mu: float = 1.0) -> Tensor:
    """Scale rows of (n, d) embeddings down to norm at most sqrt(mu); shorter rows stay as they are."""
    norm = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z * (mu**0.5 / norm.clamp_min(mu**0.5))


def moment(z: Tensor, weights: Tensor | None = None) -> Tensor:
    """Z^T diag(weights) Z: (n, d), (n,) -> (d, d)."""
    return z.T @ (z if weights is None else z * weights[:, None])


def spectral_loss(
    z1: Tensor,
    z2: Tensor,
    labels: Tensor,
    u1: Tensor,
    u2: Tensor,
    *,
    eta_l: float,
    eta_u: float,
    cross_weight: float = 1.0,
    num_classes: int | None = None,
    reduce: Reduce | None = None,
) -> SpectralLoss:
    """The loss above for labelled views z1, z2 (n, d), labels (n,), and unlabelled views u1, u2 (m, d).

    ``cross_weight`` multiplies L4: 1 is what the factorization of the graph gives, 2 is the published code. Classes absent
    from the batch contribute nothing, a label of -1 belongs to no class; m = 0 leaves the labelled terms, n = 0 the
    unlabelled ones. ``num_classes`` (the number of class sums kept) avoids a look at the labels' values, which would
    stall a GPU. ``reduce`` sums a flat tensor over processes; the loss is then that of the joint batch, and ``num_classes``
    must be given, since no process sees all labels. Computed in float32 at least, also under autocast.
    """
    _check_views(z1, z2, labels, u1, u2)
    if reduce is not None and num_classes is None:
        raise InputError("a loss with reduce needs num_classes, the same in every process; give the number of classes")
    if num_classes is not None and labels.device.type == "cpu" and labels.numel() and int(labels.max()) >= num_classes:
        raise InputError(f"labels must be below num_classes = {num_classes}, got {int(labels.max())}; raise num_classes")
    with torch.autocast(z1.device.type, enabled=False):
        z1, z2, u1, u2 = (at_least_float32(t) for t in (z1, z2, u1, u2))
        if num_classes is None:
            num_classes = int(labels.max()) + 1 if labels.numel() else 0
        sums = _Sums.of(z1, z2, labels, u1, u2, num_classes, reduce)
        return sums.loss(eta_l, eta_u, cross_weight)


def scl_loss(u1: Tensor, u2: Tensor, *, reduce: Reduce | None = None) -> SpectralLoss:
    """Unsupervised spectral contrastive loss, -2 L2 + L5: the case eta_l = 0, eta_u = 1."""
    none = u1.new_zeros(0, u1.shape[1])
    no_labels = torch.zeros(0, dtype=torch.long, device=u1.device)
    return spectral_loss(none, none, no_labels, u1, u2, eta_l=0.0, eta_u=1.0, num_classes=0, reduce=reduce)


def nscl_loss(
    z1: Tensor,
    z2: Tensor,
    labels: Tensor,
    u1: Tensor,
    u2: Tensor,
    *,
    eta_l: float,
    eta_u: float,
    num_classes: int | None = None,
    reduce: Reduce | None = None,
) -> SpectralLoss:
    """The published form: only wild samples count as unlabelled, and the cross term has twice its weight."""
    return spectral_loss(
        z1, z2, labels, u1, u2,
        eta_l=eta_l, eta_u=eta_u, cross_weight=2.0, num_classes=num_classes, reduce=reduce,
    )


class SpectralWildLoss(nn.Module):
    """`spectral_loss` on norm-clipped embeddings, with the choice of what "unlabelled" means.

    ``unlabelled="all"``: labelled and wild samples together, as in the paper's Definition 3.1 (the labelled views are
    there already, so this costs no extra forward pass); ``"wild"``: the wild samples alone (NSCL and the published code).
    Embeddings are clipped to norm sqrt(mu).
    """

    def __init__(
        self, eta_l: float = 0.5, eta_u: float = 2.0, *, mu: float = 1.0, cross_weight: float = 1.0,
        unlabelled: str = "all", num_classes: int | None = None, reduce: Reduce | None = None,
    ) -> None:
        super().__init__()
        self.eta_l = non_negative("eta_l", eta_l)
        self.eta_u = non_negative("eta_u", eta_u)
        if self.eta_l == 0 and self.eta_u == 0:
            raise InputError("eta_l and eta_u are both 0: nothing is left to learn; set at least one above 0")
        self.mu = positive("mu", mu)
        self.cross_weight = non_negative("cross_weight", cross_weight)
        if unlabelled not in ("all", "wild"):
            raise InputError(f"unlabelled must be 'all' (labelled + wild) or 'wild', got {unlabelled!r}")
        self.unlabelled = unlabelled
        self.num_classes = num_classes
        self.reduce = reduce

    def forward(self, z1: Tensor, z2: Tensor, labels: Tensor, u1: Tensor, u2: Tensor) -> SpectralLoss:
        """Raw embeddings of two labelled views (n, d), labels (n,), two wild views (m, d) -> loss and terms."""
        _check_views(z1, z2, labels, u1, u2)
        with torch.autocast(z1.device.type, enabled=False):
            z1, z2, u1, u2 = (clip_norm(at_least_float32(t), self.mu) for t in (z1, z2, u1, u2))
            if self.unlabelled == "all":
                u1, u2 = torch.cat([z1, u1]), torch.cat([z2, u2])
            return spectral_loss(
                z1, z2, labels, u1, u2, eta_l=self.eta_l, eta_u=self.eta_u,
                cross_weight=self.cross_weight, num_classes=self.num_classes, reduce=self.reduce,
            )


class _Sums(NamedTuple):
    """Everything the loss depends on: plain sums over samples, so joint batches are sums over processes."""

    class_count: Tensor  # (C,)
    unlabelled_count: Tensor  # ()
    class_sum1: Tensor  # (C, d)
    class_sum2: Tensor  # (C, d)
    class_moment1: Tensor  # (d, d), samples weighed by 1 / n_class
    class_moment2: Tensor  # (d, d)
    moment1: Tensor  # (d, d), unlabelled, unweighted
    moment2: Tensor  # (d, d)
    diagonal3: Tensor  # sum_i (z_i . z'_i)^2 / n_i^2
    positive2: Tensor  # sum_j u_j . u'_j
    diagonal5: Tensor  # sum_j (u_j . u'_j)^2

    @classmethod
    def of(
        cls, z1: Tensor, z2: Tensor, labels: Tensor, u1: Tensor, u2: Tensor, classes: int, reduce: Reduce | None
    ) -> "_Sums":
        one_hot = (labels[:, None] == torch.arange(classes, device=labels.device)).to(z1.dtype)  # (n, C)
        counts = torch.cat([one_hot.sum(0), z1.new_full((1,), float(u1.shape[0]))])  # (C + 1,)
        if reduce is not None:  # the weights 1 / n_class below must be those of the joint batch
            counts = reduce(counts)
        class_count = counts[:-1]
        weights = one_hot @ class_count.clamp_min(1).reciprocal()  # (n,)
        pair_l = (z1 * z2).sum(1)
        pair_u = (u1 * u2).sum(1)
        parts = [
            one_hot.T @ z1, one_hot.T @ z2, moment(z1, weights), moment(z2, weights), moment(u1), moment(u2),
            ((pair_l * weights) ** 2).sum(), pair_u.sum(), (pair_u**2).sum(),
        ]
        if reduce is not None:
            flat = reduce(torch.cat([part.reshape(-1) for part in parts]))
            parts = [piece.view_as(part) for piece, part in zip(flat.split([p.numel() for p in parts]), parts, strict=True)]
        return cls(class_count, counts[-1], *parts)

    def loss(self, eta_l: float, eta_u: float, cross_weight: float) -> SpectralLoss:
        per_class = self.class_count.clamp_min(1)
        m = self.unlabelled_count
        l1 = ((self.class_sum1 * self.class_sum2).sum(1) / per_class**2).sum()
        l2 = self.positive2 / m.clamp_min(1)
        l3 = (self.class_moment1 * self.class_moment2).sum() - self.diagonal3
        l4 = 0.5 * ((self.class_moment1 * self.moment2).sum() + (self.moment1 * self.class_moment2).sum()) / m.clamp_min(1)
        l5 = ((self.moment1 * self.moment2).sum() - self.diagonal5) / (m * (m - 1)).clamp_min(1)
        total = (
            -2 * eta_l * l1 - 2 * eta_u * l2
            + eta_l**2 * l3 + 2 * cross_weight * eta_l * eta_u * l4 + eta_u**2 * l5
        )
        return SpectralLoss(total, *(term.detach() for term in (l1, l2, l3, l4, l5)))


def _check_views(z1: Tensor, z2: Tensor, labels: Tensor, u1: Tensor, u2: Tensor) -> None:
    """Shapes only: they are known without waiting for a GPU."""
    if z1.ndim != 2 or u1.ndim != 2:
        raise InputError(f"embeddings must be (samples, width), got {tuple(z1.shape)} and {tuple(u1.shape)}")
    for names, one, other in (("z1 and z2", z1, z2), ("u1 and u2", u1, u2)):
        if one.shape != other.shape:
            raise InputError(
                f"{names} must be two views of the same samples, got {tuple(one.shape)} and {tuple(other.shape)}"
            )
    if z1.shape[1] != u1.shape[1]:
        raise InputError(f"labelled and unlabelled embeddings must have one width, got {z1.shape[1]} and {u1.shape[1]}")
    if labels.shape != z1.shape[:1]:
        raise InputError(
            f"labels must hold one class for each of the {z1.shape[0]} labelled samples, got {tuple(labels.shape)}"
        )


def at_least_float32(z: Tensor) -> Tensor:
    """Losses are taken in float32 even where the network runs in bfloat16."""
    return z if z.dtype == torch.float64 else z.float()
