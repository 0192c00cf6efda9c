"""Small rules of the methods at their edges: duals that relax, a penalty without annealing, modes put back, a weight
that counts."""

from contextlib import suppress

import pytest
import torch
from torch import nn

from wildspec.data import ImageArrays, WildPool
from wildspec.errors import InputError
from wildspec.methods import build_method
from wildspec.methods.lagrangian import Multipliers
from wildspec.methods.modules import evaluating, frozen_statistics
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train


@pytest.mark.parametrize("weight", [1.0, 2.0, 3.375])
def test_a_multiplier_whose_constraint_is_slack_relaxes_by_its_penalty_weight(weight: float) -> None:
    """b g + l < 0: l <- l - rate l / b, by hand."""
    duals = Multipliers(2, rate=0.5, growth=1.5)
    duals.multipliers.copy_(torch.tensor([0.6, 0.9]))
    duals.weights.fill_(weight)
    duals.update(torch.tensor([-5.0, 0.2]))
    assert duals.multipliers.tolist() == pytest.approx([0.6 - 0.5 * 0.6 / weight, 0.9 + 0.5 * 0.2])
    assert duals.weights.tolist() == pytest.approx([weight, 1.5 * weight])


@pytest.mark.parametrize("name", ["irm", "vrex"])
@pytest.mark.parametrize(("anneal", "step", "weight", "afresh"), [
    (0, 0, 7.0, False), (0, 1, 7.0, False), (3, 0, 1.0, False), (3, 2, 1.0, False), (3, 3, 7.0, True), (3, 4, 7.0, False),
])  # fmt: skip
def test_the_optimizer_starts_afresh_once_at_the_switch(
    name: str, anneal: int, step: int, weight: float, afresh: bool
) -> None:
    method = build_method(name, 3, penalty_weight=7.0, anneal_steps=anneal)
    assert method.before_step(method.stages("fast")[0], step) is afresh
    assert float(method.weight) == weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.free, self.frozen = nn.BatchNorm1d(2), nn.BatchNorm1d(2).eval()


@pytest.mark.parametrize("training", [True, False])
def test_every_part_gets_its_own_mode_back(training: bool) -> None:
    net = Net()
    net.training = net.free.training = training
    with suppress(ZeroDivisionError), evaluating(net) as module:  # type: ignore[arg-type]
        assert module is net
        assert not any(part.training for part in net.modules())
        raise ZeroDivisionError
    assert [net.training, net.free.training, net.frozen.training] == [training, training, False]


def test_statistics_stand_still_for_a_while_only() -> None:
    net = Net().free.train()
    net.momentum = 0.3
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    with frozen_statistics(net):
        inside = net(rows)
    assert net.running_mean.tolist() == [0.0, 0.0]
    assert net.momentum == 0.3
    assert torch.equal(net(rows), inside), "normalized by the batch, inside and outside"
    assert net.running_mean.tolist() == pytest.approx([0.3 * 2, 0.3 * 4])


@pytest.mark.parametrize("preset", ["paper", "fast"])
def test_fine_tuning_beside_the_spectral_loss_sees_wild_samples_and_two_views(preset: str) -> None:
    """Without them the weight would change nothing."""
    pretrain, plain = build_method("spectral", 3).stages(preset)
    first, together = build_method("spectral", 3, joint=0.5).stages(preset)
    assert first == pretrain
    assert (plain.labelled_views, plain.wild_views, plain.batch_wild) == (1, 0, 0)
    assert (together.labelled_views, together.wild_views, together.batch_wild) == (2, 2, plain.batch_labelled)
    assert together.augmentation == pretrain.augmentation  # two views of an image that is not changed are one
    assert (together.epochs, together.lr, together.batch_labelled) == (plain.epochs, plain.lr, plain.batch_labelled)


def test_the_weight_of_the_spectral_loss_in_fine_tuning_changes_what_is_learned() -> None:
    images, labels = torch.randint(0, 255, (48, 3, 8, 8), dtype=torch.uint8), torch.arange(32) % 2
    data = TrainData(ImageArrays(images[:32], labels), WildPool(ImageArrays(images[32:])))

    def learned(**options: float) -> torch.Tensor:
        torch.manual_seed(0)
        method, model = build_method("spectral", 2, **options), build_model("small", 2)
        stages = [stage.scaled(epochs=1, warmup=0, batch_labelled=16, batch_wild=16 if stage.wild_views else 0)
                  for stage in method.stages("fast")]  # fmt: skip
        train(model, method, data, Settings(progress=False), stages=stages)
        return model.head.weight.detach()

    plain = learned()
    assert torch.equal(plain, learned(joint=0.0))
    assert not torch.equal(plain, learned(joint=0.5))


@pytest.mark.parametrize(("name", "single", "said"), [
    ("osbp", ["batch_wild"], "batch_wild of stage 'adapt' is 1, osbp needs at least 2"),
    ("ros", ["batch_labelled"], "batch_labelled of stage 'separate' is 1"),
])  # fmt: skip
def test_batches_of_one_where_features_are_normalized_over_them(name: str, single: list[str], said: str) -> None:
    images = torch.zeros(6, 3, 8, 8, dtype=torch.uint8)
    data = TrainData(ImageArrays(images, torch.arange(6) % 3), WildPool(ImageArrays(images)))
    method = build_method(name, 3)
    stages = [stage.scaled(**{key: 1 for key in single if getattr(stage, key)}) for stage in method.stages()]
    with pytest.raises(InputError, match=said):
        train(build_model("small", 3, size=8), method, data, Settings(device="cpu", progress=False), stages=stages)
