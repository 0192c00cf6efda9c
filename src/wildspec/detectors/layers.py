"""Mahalanobis over several layers: S(x) = sum_l w_l S_l(x), S_l the score of layer l's averaged maps (Lee et al., 2018).

The paper learns w by logistic regression on held-out ID *and OOD* samples (`MahalanobisEnsemble.learn_weights`). The default
needs none: w_l = 1 / d_l, the squared distance per dimension, about 1 for in-distribution samples in every layer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.checks import integer, number
from wildspec.detectors.base import Detector
from wildspec.detectors.gaussian import AUTO
from wildspec.detectors.inputs import same_width
from wildspec.detectors.mahalanobis import Mahalanobis
from wildspec.errors import InputError
from wildspec.tensors import as_rows

FeatureMaps = Callable[[nn.Module, Tensor], Sequence[Tensor]]


class PooledLayers(nn.Module):
    """A network whose features are those of several layers side by side: the input of `MahalanobisEnsemble`.

    ``layers``: names of submodules whose outputs are averaged over space, or a function (model, x) -> list of such: maps
    (n, D, H, W), the tokens of a transformer (n, T, D), or rows (n, D), which stay. The network's own features come last, so
    that the logits stay what they are. ``collect``, ``score_all`` and ``evaluate`` take it like any other model.
    """

    def __init__(self, model: nn.Module, layers: Sequence[str] | FeatureMaps) -> None:
        super().__init__()
        if not callable(layers):
            known = dict(model.named_modules())
            unknown = [name for name in layers if name not in known]
            if unknown:
                raise InputError(
                    f"the model has no module {', '.join(unknown)}; choose from {', '.join(list(known)[1:12])} ..."
                )
        self.model = model
        self.layers = layers
        self.head = _OnLast(model.head)  # type: ignore[arg-type]

    def features(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, sum of widths)."""
        if callable(self.layers):
            maps, last = list(self.layers(self.model, x)), self.model.features(x)  # type: ignore[operator]
        else:
            maps, last = self._hooked(x, self.layers)
        return torch.cat([*map(_pooled, maps), last], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        """Width of each layer, for `MahalanobisEnsemble`; found by one pass of ``x`` (n, 3, H, W)."""
        with torch.no_grad():
            maps = list(self.layers(self.model, x)) if callable(self.layers) else self._hooked(x, self.layers)[0]
        return (*(_pooled(m).shape[1] for m in maps), self.head.width)

    def _hooked(self, x: Tensor, names: Sequence[str]) -> tuple[list[Tensor], Tensor]:
        modules, found = dict(self.model.named_modules()), {}

        def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
            def hook(module: nn.Module, args: Any, output: Tensor) -> None:
                found[name] = output

            return hook

        handles = [modules[name].register_forward_hook(keep(name)) for name in names]
        try:
            last = self.model.features(x)  # type: ignore[operator]
        finally:
            for handle in handles:
                handle.remove()
        if never := [name for name in names if name not in found]:
            raise InputError(f"the model's features(x) never calls its module {', '.join(never)}; name layers that it calls")
        return [found[name] for name in names], last


def _pooled(output: Tensor) -> Tensor:
    """(n, D, H, W) maps, (n, T, D) tokens or (n, D) rows -> (n, D), the mean over places."""
    if output.ndim == 3:
        return output.mean(dim=1)
    return output.flatten(2).mean(dim=2) if output.ndim > 2 else output


class _OnLast(nn.Module):
    """The head of the network, applied to the last columns."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        self.head = head
        self.width = head.in_features

    def forward(self, features: Tensor) -> Tensor:
        return self.head(features[:, -self.width :])


class MahalanobisEnsemble(Detector):
    """``sizes``: widths of the layers that lie side by side in the features (``PooledLayers.sizes``); ``weights``: one per
    layer, None = 1 / width; ``shrinkage``: see `gaussian.whitening`. Not in the registry: it belongs to a `PooledLayers`."""

    name = "mahalanobis-layers"
    summary = "weighted sum of Mahalanobis scores of several layers"
    paper = Mahalanobis.paper
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    streams = True

    def __init__(
        self,
        sizes: tuple[int, ...] = (),
        weights: tuple[float, ...] | None = None,
        shrinkage: float | str = AUTO,
    ) -> None:
        self.sizes = tuple(integer("sizes", size, minimum=1) for size in sizes)
        self.weights = None if weights is None else tuple(number("weights", weight) for weight in weights)
        if not self.sizes:
            raise InputError("mahalanobis-layers needs sizes, the widths of its layers; get them from PooledLayers.sizes(x)")
        if self.weights is not None and len(self.weights) != len(self.sizes):
            raise InputError(f"weights must be one number for each of {len(self.sizes)} layers, got {len(self.weights)}")
        self.shrinkage = shrinkage
        self.parts = [Mahalanobis(shrinkage) for _ in self.sizes]
        self.state_names = tuple(
            f"layer{i}.{name}" for i in range(len(self.sizes)) for name in Mahalanobis.state_names
        )

    def learn_weights(self, known: Any, unknown: Any) -> "MahalanobisEnsemble":
        """The paper's way: logistic regression on layer scores of held-out ID and OOD features, (n, sum), (m, sum)."""
        from sklearn.linear_model import LogisticRegression

        self.check_fitted()
        rows = [self.layer_scores(as_rows("features", values)) for values in (known, unknown)]
        truth = torch.cat([torch.zeros(len(rows[0])), torch.ones(len(rows[1]))])
        stacked = torch.cat(rows).double().cpu()
        spread = stacked.std(dim=0).clamp(min=torch.finfo(torch.float64).tiny)
        fitted = LogisticRegression(max_iter=1000).fit((stacked / spread).numpy(), truth.numpy())
        self.weights = tuple(float(w) for w in torch.from_numpy(fitted.coef_[0]) / spread)
        return self

    def layer_scores(self, features: Tensor) -> Tensor:
        """(n, sum of widths) -> (n, layers), one Mahalanobis score per layer."""
        same_width(self, "features", features, sum(self.sizes))
        pairs = zip(self.parts, features.split(self.sizes, dim=1), strict=True)
        return torch.stack([part.score(features=columns) for part, columns in pairs], dim=1)

    def _update(self, *, features: Tensor, labels: Tensor) -> None:
        same_width(self, "features", features, sum(self.sizes))
        for part, columns in zip(self.parts, features.split(self.sizes, dim=1), strict=True):
            part.partial_fit(features=columns, labels=labels)

    def _finish(self) -> None:
        for part in self.parts:
            part.finalize()

    def _has_sums(self) -> bool:
        return all(part._has_sums() for part in self.parts)

    def _score(self, *, features: Tensor) -> Tensor:
        scores = self.layer_scores(features)
        weights = [1 / size for size in self.sizes] if self.weights is None else list(self.weights)
        return scores @ scores.new_tensor(weights)

    def reset(self) -> None:
        for part in self.parts:
            part.reset()
        self._pending = False

    @property
    def fitted(self) -> bool:
        return all(part.fitted for part in self.parts)

    def _some_state(self) -> Tensor | None:
        return self.parts[0]._some_state()

    def state(self) -> dict[str, Tensor]:
        self.check_fitted()
        return {f"layer{i}.{name}": value for i, part in enumerate(self.parts) for name, value in part.state().items()}

    def load_state(self, state: dict[str, Tensor]) -> "MahalanobisEnsemble":
        if set(state) != set(self.state_names):
            raise InputError(
                f"state of {self.name} must hold {len(self.sizes)} layers of {', '.join(Mahalanobis.state_names)}, "
                f"got {sorted(state)}; was it saved with other sizes?"
            )
        for i, part in enumerate(self.parts):
            part.load_state({name: state[f"layer{i}.{name}"] for name in Mahalanobis.state_names})
        self._pending = False
        return self
