"""The shapes of `tiny_model` as files, and a bundle of them on a frozen network that the program can load: made once."""

import functools
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import tiny_model
from wildspec import WildClassifier
from wildspec.models import build_model


@functools.cache
def folder() -> Path:
    """``labelled``, ``wild`` and ``weights.safetensors``: a small network that has learned nothing; do not change it."""
    root = Path(tempfile.mkdtemp(prefix="wildspec-test-"))
    tiny_model.write_folders(root)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(dict(build_model("small", 3).backbone.state_dict()), root / "weights.safetensors")
    return root


@functools.cache
def bundle() -> Path:
    """Do not change it."""
    root = folder()
    options: dict[str, Any] = {"size": 16, "alpha": 0.1, "device": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = WildClassifier("small", init=root / "weights.safetensors", training=None, **options)
        model.fit(root / "labelled", root / "wild").save(root / "MODEL")
    return root / "MODEL"


def truth(name: str) -> str:
    """What a person would say about an image of the pool, w000.png to w083.png."""
    number = int(name[1:4])
    return "unknown" if number >= 60 else tiny_model.CLASSES[number // 20]
