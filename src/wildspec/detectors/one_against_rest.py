"""OVANet's open heads: of the most likely class k, the log-odds of "no" against "yes".

    S = (v_k - u_k) f(x),   |u_k| = |v_k| = 1,   k = argmax of the logits;   > 0 where p_k(no) > 1/2, the system's decision

High = OOD (Saito and Saenko, ICCV 2021).
"""

import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.detectors.base import Detector, register
from wildspec.detectors.inputs import same_width
from wildspec.errors import InputError
from wildspec.tensors import single


@register
class OneAgainstRest(Detector):
    """Learns nothing but a copy of the heads' weights, of length 1."""

    name = "one_against_rest"
    summary = "log-odds of no against yes of the most likely class's own head"
    paper = "Saito and Saenko, OVANet, ICCV 2021"
    needs_output = "open_heads"
    fit_needs = ("model",)
    score_needs = ("features", "logits")
    state_names = ("weight_",)

    def _fit(self, *, model: nn.Module) -> None:
        heads = getattr(model, "open_heads", None)
        if not isinstance(heads, nn.Linear):
            raise InputError(
                f"{self.name} needs a network with a yes and a no for each class, and this one has none; train it with "
                "the method ovanet"
            )
        yes, no = F.normalize(single(heads.weight.detach().clone()), dim=1).chunk(2)
        self.weight_ = no - yes

    def own_decision(self, features: Tensor, logits: Tensor) -> Tensor:
        """Where the most likely class's own head says no."""
        return self.score(features=features, logits=logits) > 0

    def _score(self, *, features: Tensor, logits: Tensor) -> Tensor:
        same_width(self, "features", features, self.weight_.shape[1])
        return (features @ self.weight_.T).gather(1, logits.argmax(1, keepdim=True)).squeeze(1)
