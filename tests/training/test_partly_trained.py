"""A stage that trains part of a backbone, at a rate of its own; the inverse schedule; layers that a method adds."""

import pytest
import torch
from torch import Tensor

from wildspec.data import WildPool, load_digits_images
from wildspec.errors import InputError
from wildspec.methods import Method, Stage
from wildspec.methods.erm import ERM
from wildspec.models import build_model
from wildspec.models.outputs import ExtraOutputs
from wildspec.training import Settings, TrainData, train
from wildspec.training.optimizers import build_optimizer, last_part, partly_trained, set_rate
from wildspec.training.schedule import inverse_decay, learning_rate


class Opened(ERM):
    """Cross-entropy on a network with a neck and an unknown output, which stays as it is."""

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs((16,), unknown=True)


def trained(method: Method, **fields: object) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights before and after ten steps."""
    torch.manual_seed(0)
    model = build_model("small_resnet", 10, size=8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    digits = load_digits_images()
    data = TrainData(digits.subset(range(160)), WildPool(digits.subset(range(160, 200))))
    stage = method.stages()[0].scaled(epochs=1, batch_labelled=16, lr=0.01, weight_decay=0.0, **fields)
    result = train(model, method, data, Settings(device="cpu", progress=False), stages=[stage])
    assert all(parameter.requires_grad for parameter in result.model.parameters())
    return before, result.model.state_dict()


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name, value in before.items() if name in after and not torch.equal(value, after[name])}


def test_a_backbone_that_is_not_trained_keeps_its_weights_and_moves_its_statistics() -> None:
    changed = moved(*trained(ERM(10), backbone_lr=0.0))
    assert {name for name in changed if name.endswith(("weight", "bias"))} == {"head.weight", "head.bias"}
    assert any(name.endswith("running_mean") for name in changed)


def test_the_last_part_alone() -> None:
    changed = moved(*trained(ERM(10), backbone_part="last"))
    weights = {name for name in changed if name.endswith(("weight", "bias")) and name.startswith("backbone.")}
    assert weights
    assert all(name.startswith("backbone.fourth.") for name in weights)
    assert last_part(build_model("resnet34", 2).backbone) is not None


def test_a_slower_backbone_moves_less() -> None:
    """One step of plain SGD moves a weight by rate x gradient, and the gradient is the same for both."""
    plain = {"momentum": 0.0, "nesterov": False, "epochs": 0.1, "schedule": "constant"}

    def step(factor: float) -> Tensor:
        torch.manual_seed(0)
        model, method = build_model("small", 10, size=8), ERM(10)
        name = "backbone.convs.0.weight"
        before = model.state_dict()[name].clone()
        digits = load_digits_images()
        stage = method.stages()[0].scaled(batch_labelled=16, lr=0.1, backbone_lr=factor, **plain)
        settings = Settings(device="cpu", progress=False)
        train(model, method, TrainData(digits.subset(range(160))), settings, stages=[stage.scaled(weight_decay=0.0)])
        return model.state_dict()[name] - before

    torch.testing.assert_close(step(0.1), 0.1 * step(1.0), rtol=1e-3, atol=1e-7)


def test_what_a_method_adds_is_there_and_trained() -> None:
    before, after = trained(Opened(10))
    assert after["neck.0.weight"].shape[0] == 16
    assert after["head.weight"].shape == (10, 16)
    assert after["unknown.weight"].shape == (1, 16)
    assert "unknown.weight" not in before


def test_rates_of_both_groups_follow_the_schedule() -> None:
    model = build_model("small", 3, size=8)
    stage = Stage("a", epochs=1, lr=0.1, backbone_lr=0.1)
    optimizer = build_optimizer(stage, list(model.parameters()), model.backbone.parameters())
    set_rate(optimizer, 0.05)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.05, 0.005])
    with partly_trained(model.backbone, stage.scaled(backbone_lr=0.0)):
        assert len(build_optimizer(stage, list(model.parameters())).param_groups[0]["params"]) == 2


def test_inverse_schedule() -> None:
    """The published one runs over 10,000 steps; stages cover their part of it."""
    assert [inverse_decay(step / 10_000) for step in (0, 500, 1900)] == pytest.approx([1, 0.7378, 0.4500], abs=1e-4)
    stage = Stage("a", epochs=1, lr=2.0, schedule="inverse", decay=(0.05, 0.19))
    assert learning_rate(stage, 0, 100, 10) == pytest.approx(2 * 0.7378, abs=1e-4)
    assert learning_rate(stage, 100, 100, 10) == pytest.approx(2 * 0.4500, abs=1e-4)
    whole = Stage("a", epochs=1, lr=1.0, schedule="inverse")
    assert learning_rate(whole, 100, 100, 10) == pytest.approx(11**-0.75)


@pytest.mark.parametrize("fields", [
    {"backbone_lr": -1.0}, {"backbone_part": "first"}, {"decay": (0.5, 0.2)}, {"decay": 0.5}, {"decay": (0.5,)},
    {"decay": (0.0, 0.5, 1.0)}, {"decay": (0.0, "1")},
])  # fmt: skip
def test_wrong_fields_are_named(fields: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(fields))):
        Stage("a", epochs=1, lr=0.1, **fields)  # type: ignore[arg-type]
