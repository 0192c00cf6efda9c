"""Training: `train(model, method, data, settings)` runs any method; see `wildspec.training.loop`."""

from wildspec.training.budget import Budget
from wildspec.training.device import resolve_device
from wildspec.training.loop import train
from wildspec.training.result import DivergenceError, TrainResult
from wildspec.training.settings import Settings, TrainData

__all__ = ["Budget", "DivergenceError", "Settings", "TrainData", "TrainResult", "resolve_device", "train"]
