"""A small real task (digits) and a small recipe, shared by the tests of the loop."""

from collections.abc import Callable

import torch

from wildspec.data import ImageArrays, WildPool, load_digits_images
from wildspec.data.augment import Augmentation
from wildspec.methods import Method, Stage, build_method
from wildspec.models import Classifier, build_model
from wildspec.training import Budget, Settings, TrainData, TrainResult
from wildspec.training.schedule import learning_rate

CLASSES = 4
PER_EPOCH = 3  # 96 labelled images in batches of 32


def data(labelled: int = 96, wild: int = 128) -> TrainData:
    digits = load_digits_images()
    known = torch.nonzero(digits.labels < CLASSES).flatten()
    first, rest = known[:labelled], known[labelled : labelled + wild]
    images = ImageArrays(digits.images[first], digits.labels[first])
    return TrainData(images, WildPool(ImageArrays(digits.images[rest])))


def model(seed: int = 0, dropout: bool = False) -> Classifier:
    torch.manual_seed(seed)
    return build_model("wrn16_2", CLASSES, dropout=0.3) if dropout else build_model("small", CLASSES)


def method(name: str = "spectral") -> Method:
    return build_method(name, CLASSES)


def stages(epochs: float = 2, ema: float = 0.0, batch: int = 32) -> tuple[Stage, Stage]:
    views = Augmentation(scale=(0.6, 1.0), flip=0.0)
    return (
        Stage("pretrain", epochs=epochs, lr=0.02, batch_labelled=batch, batch_wild=batch, labelled_views=2, wild_views=2,
              warmup=1, augmentation=views, ema=ema),
        Stage("finetune", epochs=epochs, lr=0.02, batch_labelled=batch, schedule="step", augmentation=views),
    )


def quiet(**changes: object) -> Settings:
    return Settings(**{"device": "cpu", "progress": False, "log_every": 1, **changes})  # type: ignore[arg-type]


def weights(result: TrainResult) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in result.model.state_dict().items()}


def assert_same_bits(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def slow_loop(recipe: tuple[Stage, ...], budget: Budget, cost: Callable[[int], float]) -> tuple[list[int], list[float]]:
    """What should happen, written down from the text of the module: steps of each stage and all rates."""
    now, n, taken, rates = 0.0, 0, [], []
    for number, stage in enumerate(recipe):
        total, began = round(stage.epochs * PER_EPOCH), now
        allowed = (budget.seconds - began) * budget.planned[number] / sum(budget.planned[number:])
        lead, step, place = max(0.0, allowed - budget.planned[number]), 0, 0.0
        while place < total:
            rates.append(learning_rate(stage, place, total, PER_EPOCH))
            now, n, step = now + cost(n), n + 1, step + 1
            place = max(float(step), total * min(1.0, (now - began - lead) / (allowed - lead)))
        taken.append(step)
    return taken, rates
