"""Training methods behind one small contract (`wildspec.methods.base`)."""

from wildspec.methods.base import Batch, Context, Method, Network, Stage
from wildspec.methods.registry import METHODS, build_method, preset_hparams, register_method

__all__ = [
    "METHODS", "Batch", "Context", "Method", "Network", "Stage", "build_method", "preset_hparams", "register_method",
]  # fmt: skip
