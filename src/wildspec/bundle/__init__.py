"""What is saved: weights, bank, thresholds, classes, preprocessing; safe to load (safetensors and JSON only)."""

from wildspec.bundle.loading import load
from wildspec.bundle.store import Stored, check_target, read_bundle, write_bundle

__all__ = ["Stored", "check_target", "load", "read_bundle", "write_bundle"]
