"""What every room expects of a network: features (n, d) and a linear head on them."""

from typing import Any

import torch
from torch import Tensor, nn

from wildspec.errors import InputError


class Classifier(nn.Module):
    """A backbone that gives pooled features and a linear head: logits = W f(x) + b.

    ``backbone``: any module (n, 3, H, W) -> (n, d). ``features(x)`` is what detectors and the spectral loss see,
    ``forward(x)`` the logits (n, C).

    Some methods add to it (`wildspec.models.outputs`): ``neck``, layers between backbone and head; ``unknown`` (d -> 1), the
    logit of "none of the classes"; ``open_heads`` (d -> 2 C), a yes and a no for each class. Logits stay those of the C
    classes: what else there is has detectors of its own.
    """

    neck: nn.Module
    unknown: nn.Linear | None
    open_heads: nn.Linear | None

    def __init__(self, backbone: nn.Module, feature_dim: int, num_classes: int) -> None:
        super().__init__()
        if num_classes < 2:
            raise InputError(f"num_classes must be at least 2, got {num_classes}: there must be something to tell apart")
        self.backbone = backbone
        self.spec: dict[str, Any] | None = None  # how `build_model` makes this network again; None for a foreign backbone
        self.neck = nn.Identity()
        self.head = nn.Linear(feature_dim, num_classes)
        self.unknown = None
        self.open_heads = None
        self.outputs: Any = None  # `wildspec.models.outputs.ExtraOutputs` where any were added

    @property
    def feature_dim(self) -> int:
        return self.head.in_features

    @property
    def num_classes(self) -> int:
        return self.head.out_features

    def features(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) normalized -> (n, d)."""
        return self.neck(self.backbone(x))

    def maps(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) normalized -> (n, d, h, w): what the backbone averages over h, w."""
        own = getattr(self.backbone, "maps", None)
        if own is None and isinstance(self.backbone, nn.Sequential) and len(self.backbone) > 2:
            *_, pool, last = self.backbone  # of `wrap_backbone`, or one that was built so
            if isinstance(pool, nn.AdaptiveAvgPool2d) and pool.output_size in (1, (1, 1)) and isinstance(last, nn.Flatten):
                own = self.backbone[:-2]
        if own is None:
            raise InputError(
                f"the backbone {type(self.backbone).__name__} gives no map before it averages; give it a method maps(x) -> "
                "(n, d, h, w), or take a network of wildspec.models"
            )
        return own(x)  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) normalized -> (n, C) logits."""
        return self.head(self.features(x))


def wrap_backbone(backbone: nn.Module, num_classes: int, *, size: int = 32) -> Classifier:
    """Make a `Classifier` of any module (n, 3, H, W) -> (n, d) or (n, d, h, w) (then averaged over h, w).

    The feature dimension is found by one forward pass of a blank image of the given size.
    """
    was_training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            parameter = next(backbone.parameters(), torch.zeros(()))
            out = backbone(torch.zeros(2, 3, size, size, device=parameter.device, dtype=parameter.dtype))
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"the backbone does not take images of shape (n, 3, {size}, {size}): {error}") from error
    finally:
        backbone.train(was_training)
    if not isinstance(out, Tensor) or out.ndim not in (2, 4) or out.shape[0] != 2:
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(f"the backbone must return features (n, d) or maps (n, d, h, w), got {got}")
    body = backbone if out.ndim == 2 else nn.Sequential(backbone, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Classifier(body, int(out.shape[1]), num_classes)
