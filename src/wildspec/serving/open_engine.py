"""From a path to what the service asks: a bundle, or an exported .onnx file."""

from pathlib import Path

from wildspec.errors import InputError
from wildspec.serving.engine import BundleEngine, Engine


def open_engine(path: Path, device: str = "auto") -> Engine:
    """A bundle, or an exported .onnx file."""
    if path.suffix.lower() == ".onnx":
        if device not in ("auto", "cpu"):
            raise InputError(f"{path} runs on the CPU; leave out --device {device}, or serve the bundle")
        from wildspec.serving.onnx_engine import OnnxEngine

        return OnnxEngine(path)
    from wildspec.loading import load

    model = load(path, device=device)
    if not hasattr(model, "fitted_"):
        raise InputError(f"{path} holds a model of embeddings, the service takes images; use wildspec score for embeddings")
    return BundleEngine(model, path.resolve().name)
