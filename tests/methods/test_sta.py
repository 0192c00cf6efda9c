"""STA: similarities, the adversarial term, which parts learn in which stage, rate and reversal at known steps."""

import math

import pytest
import torch

from wildspec.data import WildPool, load_digits_images
from wildspec.methods import build_method
from wildspec.methods.sta import adversarial_loss, reversal_strength, similarity
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train
from wildspec.training.schedule import learning_rate


def test_sum_and_maximum_rank_differently():
    heads = torch.tensor([[0.9, 0.0, 0.0], [0.5, 0.5, 0.5]])
    assert similarity(heads, "sum").argmax() == 1
    assert similarity(heads, "max").argmax() == 0


def test_a_discriminator_that_knows_nothing():
    weights = torch.tensor([0.2, 0.7, 0.0])
    found = adversarial_loss(torch.zeros(5), torch.zeros(3), weights)
    assert found.item() == pytest.approx(math.log(2) * (1 + 0.3))


def test_a_sample_of_no_weight_has_no_gradient():
    target = torch.randn(3, requires_grad=True)
    adversarial_loss(torch.zeros(2), target, torch.zeros(3)).backward()
    assert target.grad.abs().max() == 0


def test_strength_of_the_reversal_and_rate_at_published_steps():
    assert [reversal_strength(calls / 10_000) for calls in (0, 2000, 3800)] == pytest.approx([0, 0.7616, 0.9562], abs=1e-4)
    stages = {stage.name: stage for stage in build_method("sta_sum", 4).stages("paper")}
    assert learning_rate(stages["rank"], 0, 400, 50) == pytest.approx(1e-3 * 0.7378, rel=1e-3)
    assert learning_rate(stages["reject"], 400, 400, 50) == pytest.approx(5e-4 * 0.4500, rel=1e-3)
    method = build_method("sta_sum", 4)
    method.total.fill_(1500)
    method.before_step(stages["adapt"], 1000)  # 2,000 calls
    assert method.strength.item() == pytest.approx(0.7616, abs=1e-4)


@pytest.fixture(scope="module")
def stages_seen():
    """State of network and method at the end of every stage."""
    torch.manual_seed(0)
    digits = load_digits_images()
    data = TrainData(digits.subset(range(128)), WildPool(digits.subset(range(128, 192))))
    model, method = build_model("small", 10, size=8), build_method("sta_max", 10)
    seen = {}

    def watch(network, moment):
        if moment["last"]:
            seen[moment["stage"]] = {
                **{f"model.{k}": v.clone() for k, v in network.state_dict().items()},
                **{f"method.{k}": v.clone() for k, v in method.state_dict().items()},
            }

    start = {f"model.{k}": v.clone() for k, v in model.state_dict().items() if k.startswith("backbone.")}
    stages = [stage.scaled(epochs=1, lr=0.01) for stage in method.stages("paper")]
    train(model, method, data, Settings(device="cpu", progress=False), stages=stages, watch=watch)
    return start, seen


def moved(before, after, prefix):
    names = [name for name in before if name.startswith(prefix) and not name.endswith("num_batches_tracked")]
    return any(not torch.equal(before[name], after[name]) for name in names)


def test_which_parts_learn_in_which_stage(stages_seen):
    start, seen = stages_seen
    backbone = "model.backbone."
    assert not moved(start, seen["rank"], backbone), "the backbone and its batch norm stay before adapt"
    assert moved(seen["rank"], seen["adapt"], backbone)
    assert moved(seen["separate"], seen["rank"], "method.rest.")
    assert moved(seen["separate"], seen["rank"], "method.known.")
    assert not moved(seen["rank"], seen["reject"], "method.known."), "D_t is not trained again"
    assert moved(seen["adapt"], seen["reject"], "method.domain.")


def test_the_new_classifier_is_new(stages_seen):
    """Weights of 20 steps at a small rate lie near where they were; of a fresh start they do not."""
    _, seen = stages_seen

    def apart(one, other):
        return (seen[one]["model.neck.0.weight"] - seen[other]["model.neck.0.weight"]).abs().mean()

    assert apart("rank", "adapt") > 3 * apart("separate", "rank")
