"""What a network says of "none of the known classes" itself, where it was trained to (OSBP, STA, ROS, ANNA, SAL).

    S = u - logsumexp(z)     log-odds of the unknown output u against the K known logits z: > 0 where p_unknown > 1/2
    S = u - max(z)           > 0 exactly where the unknown output is the largest: the decision of those systems
    S = u                    where u was trained as a logistic output of its own (SAL)

High = OOD.
"""

import torch
from torch import Tensor, nn

from wildspec.checks import choice
from wildspec.detectors.base import Detector, register
from wildspec.detectors.inputs import same_width
from wildspec.errors import InputError
from wildspec.tensors import single

AGAINST = ("lse", "max", "nothing")


def unknown_score(unknown: Tensor, logits: Tensor, against: str = "lse") -> Tensor:
    """(n,) unknown logits and (n, K) known ones -> (n,) scores, high = OOD."""
    if against == "nothing":
        return unknown
    return unknown - (torch.logsumexp(logits, 1) if against == "lse" else logits.amax(1))


@register
class UnknownLogit(Detector):
    """``against``: lse, max or nothing (see the module's text). Learns nothing but a copy of the output's weights."""

    name = "unknown_logit"
    summary = "the network's own output for none of the classes, against the known ones"
    paper = "Saito et al., Open set domain adaptation by backpropagation, ECCV 2018"
    needs_output = "unknown"
    fit_needs = ("model",)
    score_needs = ("features", "logits")
    state_names = ("weight_", "bias_")

    def __init__(self, against: str = "lse") -> None:
        self.against = choice("against", against, AGAINST)

    def _fit(self, *, model: nn.Module) -> None:
        output = getattr(model, "unknown", None)
        if not isinstance(output, nn.Linear):
            raise InputError(
                f"{self.name} needs a network with an output for unknown samples, and this one has none; train it with "
                "a method that adds one (wildspec methods), such as osbp"
            )
        self.weight_, self.bias_ = single(output.weight.detach().clone())[0], single(output.bias.detach().clone())[0]

    def own_decision(self, features: Tensor, logits: Tensor) -> Tensor:
        """Where the unknown output is the largest of all; of a logistic output of its own, where it is above 0."""
        twin = UnknownLogit("nothing" if self.against == "nothing" else "max").load_state(self.state())
        return twin.score(features=features, logits=logits) > 0

    def _score(self, *, features: Tensor, logits: Tensor) -> Tensor:
        same_width(self, "features", features, len(self.weight_))
        unknown = (features * self.weight_).sum(1) + self.bias_  # the same last bit wherever the weights lie in memory
        return unknown_score(unknown, logits, self.against)
