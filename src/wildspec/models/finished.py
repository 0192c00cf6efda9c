"""A classifier that was made and trained elsewhere, seen as networks are seen here: features, and the linear head on them.

    f(x) = what goes into the last linear layer,    logits = what comes out of it

Nothing is copied or changed; the network runs as a whole, and its own last layer is the head.
"""

import torch
from torch import Tensor, nn

from wildspec.errors import InputError


class FinishedClassifier(nn.Module):
    """``network`` with ``features(x)`` (n, d), ``head`` (its layer ``layer``) and its own logits; see `wrap_classifier`."""

    def __init__(self, network: nn.Module, layer: str) -> None:
        super().__init__()
        self.network = network
        self.layer = layer
        self._looked = False

    @property
    def head(self) -> nn.Linear:
        return self.network.get_submodule(self.layer)  # type: ignore[return-value]

    @property
    def feature_dim(self) -> int:
        return self.head.in_features

    @property
    def num_classes(self) -> int:
        return self.head.out_features

    def features(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) as the network takes it -> (n, d), the input of the last layer."""
        seen: list[tuple[Tensor, Tensor]] = []
        handle = self.head.register_forward_hook(lambda layer, given, out: seen.append((given[0], out)))
        try:
            answer = self.network(x)
        finally:
            handle.remove()
        if not self._looked:
            self._look(answer, seen)
            self._looked = True
        return seen[0][0]

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, C) logits, the network's own."""
        return self.network(x)  # type: ignore[no-any-return]

    def _look(self, answer: object, seen: list[tuple[Tensor, Tensor]]) -> None:
        """Once: the layer must run once a pass, on (n, d), and what it says must be what the network says."""
        if len(seen) != 1 or seen[0][0].ndim != 2:
            got = "did not run" if not seen else f"ran {len(seen)} times, on {tuple(seen[0][0].shape)}"
            raise InputError(f"layer {self.layer!r} must run once a pass on features (n, d), it {got}; name another one")
        if not isinstance(answer, Tensor) or answer.shape != seen[0][1].shape or not torch.equal(answer, seen[0][1]):
            raise InputError(
                f"the network does not return what its layer {self.layer!r} gives: it must be the last, and logits the "
                "only thing that is returned; name another layer, or wrap the part of the network that ends with it"
            )


def wrap_classifier(network: nn.Module, layer: str | None = None) -> FinishedClassifier:
    """A trained classifier for every detector: ``layer`` names its last linear layer ("fc", "classifier.6").

    Without a name it is the last `nn.Linear` of ``network.named_modules()``. The first pass checks that logits are that
    layer's output. For a network without a head, or one to train on: `wrap_backbone`.
    """
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if layer is None and not linear:
        raise InputError(f"{type(network).__name__} has no linear layer; wrap a backbone without a head with wrap_backbone")
    chosen = linear[-1] if layer is None else layer
    if chosen not in linear:
        raise InputError(f"{type(network).__name__} has no linear layer {chosen!r}; it has {', '.join(linear) or 'none'}")
    return FinishedClassifier(network, chosen)
