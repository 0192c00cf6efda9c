"""Training: `train(model, method, data, settings)` runs any method; see `wildspec.training.loop`."""

from wildspec.training.device import resolve_device
from wildspec.training.loop import DivergenceError, TrainResult, train
from wildspec.training.settings import Settings, TrainData

__all__ = ["DivergenceError", "Settings", "TrainData", "TrainResult", "resolve_device", "train"]
