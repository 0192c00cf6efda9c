"""ODIN: S(x) = -max_c softmax(z(x~) / T)_c after a step towards the predicted class, high = OOD (Liang et al., 2018).

x~ = x - epsilon sign(grad_x CE(z(x) / T, argmax z(x))), eqs. 1 and 2: two forward passes and one backward to the input.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import non_negative, positive
from wildspec.detectors.base import Detector, register
from wildspec.detectors.gradients import check_std, evaluation_mode, network_features, precision_of, step_downhill
from wildspec.tensors import single


def odin_score(
    model: nn.Module,
    inputs: Tensor,
    temperature: float = 1000.0,
    epsilon: float = 0.0014,
    std: tuple[float, ...] | None = None,
) -> Tensor:
    """(n, 3, H, W) normalized images -> (n,) scores, high = OOD."""

    def logits(x: Tensor) -> Tensor:
        return single(model.head(network_features(model, x).to(precision_of(model)))) / temperature  # type: ignore[operator]

    def loss(x: Tensor) -> Tensor:
        z = logits(x)
        # a sum: no sample feels its batch; times T, which leaves the sign: 1/T of a gradient is 0 in half precision
        return temperature * F.cross_entropy(z, z.argmax(dim=1), reduction="sum")

    with evaluation_mode(model):
        nudged = step_downhill(loss, inputs, epsilon, std) if epsilon else inputs
        with torch.no_grad():
            # at T = 1000 all probabilities are close to 1/C: the last digits carry the score
            return -torch.softmax(logits(nudged).double(), dim=1).amax(dim=1).float()


@register
class ODIN(Detector):
    """``temperature``: T; ``epsilon``: step in pixels of [0, 1] when ``std`` (what channels were divided by) is given or
    filled in by ``score_all``, ``evaluate`` and ``decide``, else in the network's input units. Choosing epsilon
    needs OOD samples; the default is the authors' example."""

    name = "odin"
    summary = "softmax at high temperature after a small step of the input towards its class"
    paper = "Liang et al., Enhancing the reliability of out-of-distribution image detection, ICLR 2018"
    score_needs = ("inputs", "model")

    def __init__(
        self, temperature: float = 1000.0, epsilon: float = 0.0014, std: tuple[float, ...] | None = None
    ) -> None:
        self.temperature = positive("temperature", temperature)
        self.epsilon = non_negative("epsilon", epsilon)
        self.std = check_std(std)

    def _score(self, *, inputs: Tensor, model: nn.Module) -> Tensor:
        return odin_score(model, inputs, self.temperature, self.epsilon, self.std)
