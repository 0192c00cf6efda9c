"""The servers that benchmarks/serving.py compares, each run in a process of its own, and what a pass costs without one."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np


def make_model(path: Path, backbone: str, labelled: int, size: int) -> None:
    """A model with a bank of about ``labelled`` rows; barely trained: what it says does not matter here."""
    from wildspec import Training, WildClassifier
    from wildspec.bundle.onnx_export import export_onnx
    from wildspec.serving.engine import BundleEngine

    rng = np.random.default_rng(0)
    labels = np.arange(labelled) % 10
    images = np.clip(labels[:, None, None, None] * 20 + rng.normal(40, 30, (labelled, size, size, 3)), 0, 255)
    training = Training("erm", epochs=0.05, detector="knn")
    model = WildClassifier(backbone, training=training, held_out=0.1, size=size, device="cpu")
    model.fit((images.astype(np.uint8), labels), images[:64].astype(np.uint8))
    model.save(path)
    export_onnx(model.fitted_, path.with_suffix(".onnx"), BundleEngine(model, path.name).describe())


def plain_server(bundle: Path, port: int, passes: int = 1000) -> None:
    """What one would write first: decode, one forward pass, answer; the framework's thread pool does the rest."""
    import uvicorn
    from fastapi import FastAPI, File, UploadFile

    from wildspec.data.decode import decode, fit
    from wildspec.serving.open_engine import open_engine
    from wildspec.serving.service import result

    engine = open_engine(bundle, "cpu")
    turn = threading.BoundedSemaphore(passes)
    app = FastAPI()

    @app.post("/v1/predict")
    def predict(images: UploadFile = File()) -> Any:
        with turn:
            pixels = fit(decode(images.file.read()), engine.size).transpose(2, 0, 1)[None].copy()
            return {"results": [result(engine, engine.decide(pixels, 3), 0, "image", False)]}

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


def ordered_server(bundle: Path, port: int) -> None:
    """The same by someone who has watched it: a pass on one thread, and no more passes at a time than processors."""
    import torch

    torch.set_num_threads(1)
    plain_server(bundle, port, os.cpu_count() or 1)


def batching_server(bundle: Path, port: int) -> None:
    from wildspec.serving.open_engine import open_engine
    from wildspec.serving.run import serve

    serve(open_engine(bundle, "cpu"), port=port, quiet=True)


def one_pass_server(bundle: Path, port: int) -> None:
    from wildspec.serving.open_engine import open_engine
    from wildspec.serving.run import serve

    engine = open_engine(bundle, "cpu")
    engine.passes = 1
    serve(engine, port=port, quiet=True)


def onnx_server(bundle: Path, port: int) -> None:
    batching_server(bundle.with_suffix(".onnx"), port)


SERVERS = {
    "micro-batching": batching_server, "one pass at a time": one_pass_server, "ONNX": onnx_server, "plain": plain_server,
    "plain, in order": ordered_server,
}  # fmt: skip


def decide_times(bundle: Path, sizes: tuple[int, ...] = (1, 8, 32), repeats: int = 7) -> dict[str, dict[str, float]]:
    """Milliseconds an image, best of some, on one processor: network, detector and neighbours, from pixels in memory."""
    import torch

    from wildspec.serving.open_engine import open_engine

    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    for kind, path in (("torch", bundle), ("ONNX", bundle.with_suffix(".onnx"))):
        engine = open_engine(path, "cpu")
        rng = np.random.default_rng(0)
        for size in sizes:
            pixels = rng.integers(0, 256, (size, 3, engine.size, engine.size), dtype=np.uint8)
            best = float("inf")
            for _ in range(repeats + 2):
                began = time.perf_counter()
                engine.decide(pixels, 3)
                best = min(best, time.perf_counter() - began)
            found.setdefault(kind, {})[str(size)] = round(1000 * best / size, 3)
    return found
