"""A benchmark run small enough for a test: recipes of a few steps and the request that uses them."""

from pathlib import Path
from typing import Any

from wildspec.bench.plan import BenchRequest
from wildspec.bench.protocols import choose_rows, protocol
from wildspec.training.recipe import Recipe

TINY = Recipe(
    "fast", 0.01, model="small",
    changes={
        "pretrain.epochs": 3.0, "pretrain.warmup": 0.0, "pretrain.batch_labelled": 48, "pretrain.batch_wild": 48,
        "finetune.epochs": 2.0, "finetune.batch_labelled": 48,
    },
)  # fmt: skip
ERM = Recipe("paper", 0.1, model="small", changes={"train.batch_labelled": 48})


def request_of(
    data: Path, cache: Path, out: Path, methods: str = "spectral", recipe: Recipe = TINY, size: int = 8, **more: Any
) -> BenchRequest:
    settings = {"semantics": ("svhn",), "seeds": (0, 1), "device": "cpu", "recipe": recipe, "cache": cache, **more}
    rows = choose_rows([word for word in methods.split(",") if word])
    return BenchRequest(protocol("cifar10").resized(size), methods=rows, data=data, out=out, **settings)
