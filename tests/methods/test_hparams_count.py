"""No hyper-parameter is passed over in silence: another value, and something else is learned."""

import warnings
from typing import Any

import pytest
import torch

from wildspec.data import ImageArrays, WildPool
from wildspec.methods import METHODS, build_method
from wildspec.methods.hparams import HPARAMS
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train

# Where the default has nothing to say in a few steps of a tiny network: from what, to what.
OTHER: dict[str, dict[str, tuple[dict[str, Any], Any]]] = {
    "irm": {"penalty_weight": ({"anneal_steps": 1}, 7.0), "anneal_steps": ({}, 1)},
    "vrex": {"penalty_weight": ({"anneal_steps": 1}, 7.0), "anneal_steps": ({}, 1)},
    "energy_outlier": {"m_out": ({}, 2.0)},  # its energies lie above -5 already
    "woods": {"ce_factor": ({}, 0.1), "tolerance": ({}, 5.0), "penalty_growth": ({}, 3.0)},
    "scone": {
        "ce_factor": ({}, 0.1), "tolerance": ({}, 5.0), "penalty_growth": ({}, 3.0),
        "margin": ({}, -0.1), "out_weight": ({"margin": -0.1}, 0.5),  # at -10 its sigmoid is flat here
    },
    "sta_sum": {"extreme": ({}, 0.5)},  # of 16 images a sixteenth and a thirtieth are one
    "sta_max": {"extreme": ({}, 0.5)},
    "pu": {"start": ({}, 0.8)},
    "spectral+": {"agreement": ({}, 1.0)},
}  # fmt: skip
ELSEWHERE = {
    ("anna", "warmup"), ("anna", "below"),  # length of a stage; two classes have no hidden cells: test_anna.py
    ("mixup", "num_environments"),  # follows the data, and where that has none counts for nothing: test_mixup.py
}
CASES = [(name, hparam.name) for name in METHODS for hparam in HPARAMS[name] if (name, hparam.name) not in ELSEWHERE]


@pytest.fixture(scope="module")
def data() -> TrainData:
    """Two classes that cannot be told apart, so that neighbours disagree, and wild images like them and unlike them."""
    noise = torch.Generator().manual_seed(0)
    brightness = torch.tensor([115] * 32 + [40, 115, 250, 115] * 8).view(-1, 1, 1, 1)
    images = (brightness + torch.randint(-90, 90, (64, 3, 8, 8), generator=noise)).clamp(0, 255).to(torch.uint8)
    labelled = ImageArrays(images[:32], torch.arange(32) % 2)
    return TrainData(labelled, WildPool(ImageArrays(images[32:])))


@pytest.fixture(scope="module")
def before() -> dict[str, torch.Tensor]:
    """What was learned with the values that are changed: many cases share it."""
    return {}


def learned(name: str, data: TrainData, **hparams: Any) -> torch.Tensor:
    """All weights after an epoch of two steps of each stage; after two epochs where something moves between them."""
    torch.manual_seed(0)
    epochs = 2 if name in ("woods", "scone") else 1
    method, model = build_method(name, 2, **hparams), build_model("small", 2)
    stages = [
        stage.scaled(epochs=epochs, warmup=0, batch_labelled=16, batch_wild=16 if stage.wild_views else 0)
        for stage in method.stages("fast")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a stage is shorter than anneal_steps
        train(model, method, data, Settings(progress=False), stages=stages)
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def another(value: Any) -> Any:
    """A value that is not the default, and allowed."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return {"standardized": "published"}[value]
    return value + 1 if isinstance(value, int) else 0.5 * value or 0.5


@pytest.mark.parametrize(("name", "hparam"), CASES)
def test_every_hyperparameter_changes_what_is_learned(
    name: str, hparam: str, data: TrainData, before: dict[str, torch.Tensor]
) -> None:
    default = next(each.default for each in HPARAMS[name] if each.name == hparam)
    base, value = OTHER.get(name, {}).get(hparam, ({}, another(default)))
    key = f"{name} {base}"
    if key not in before:
        before[key] = learned(name, data, **base)
    assert not torch.equal(before[key], learned(name, data, **base, **{hparam: value}))


def test_the_same_values_teach_the_same(data: TrainData) -> None:
    """So that a difference above is the hyper-parameter's."""
    assert torch.equal(learned("spectral+", data), learned("spectral+", data))
