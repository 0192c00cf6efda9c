"""A tiny image task and a model fitted on it once per process: 10 px pictures of three shapes, a fourth is unknown."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("bar", "disc", "ring")
SIDE = 10


def picture(shape: str, rng: np.random.Generator, shifted: bool = False) -> np.ndarray:
    """uint8 (10, 10, 3): a light shape on a dark ground, its place and colour random; shifted: noisy."""
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2 + rng.uniform(-1.2, 1.2, size=(2, 1, 1))
    radius = np.hypot(x, y)
    mask = {
        "bar": np.abs(x) < 1.6,
        "disc": radius < 3.2,
        "ring": np.abs(radius - 3.4) < 0.9,
        "stripes": (np.floor(y / 1.5) % 2) == 0,
    }[shape]
    colour = rng.uniform(150, 255, size=3)
    image = np.where(mask[..., None], colour, rng.uniform(0, 60, size=3)) + rng.normal(0, 6, (SIDE, SIDE, 3))
    if shifted:
        image = image * 0.7 + rng.normal(0, 35, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def pictures(counts: dict[str, int], seed: int, shifted: bool = False) -> tuple[np.ndarray, list[str]]:
    """(n, 10, 10, 3) pictures and their shapes."""
    rng = np.random.default_rng(seed)
    shapes = [shape for shape, count in counts.items() for _ in range(count)]
    return np.stack([picture(shape, rng, shifted) for shape in shapes]), shapes


def labelled_and_wild() -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """((images, names of their classes), wild images): 40 of each class; 60 shifted known and 24 unknown ones."""
    images, shapes = pictures(dict.fromkeys(CLASSES, 40), 1)
    known, _ = pictures(dict.fromkeys(CLASSES, 20), 2, shifted=True)
    unknown, _ = pictures({"stripes": 24}, 3)
    return (images, np.array(shapes)), np.concatenate([known, unknown])


def write_folders(root: Path) -> tuple[Path, Path]:
    """The same as image files: a folder per class, and a flat folder of wild images."""
    (images, shapes), wild = labelled_and_wild()
    for i, (image, shape) in enumerate(zip(images, shapes, strict=True)):
        (root / "labelled" / shape).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / "labelled" / shape / f"{i:03d}.png")
    (root / "wild").mkdir()
    for i, image in enumerate(wild):
        Image.fromarray(image).save(root / "wild" / f"w{i:03d}.png")
    return root / "labelled", root / "wild"


@functools.cache
def fitted() -> Any:
    """A WildClassifier fitted for a few steps; do not change it."""
    from wildspec import Training, WildClassifier

    labelled, wild = labelled_and_wild()
    return WildClassifier(training=Training(epochs=100, flip=False), size=SIDE, device="cpu").fit(labelled, wild)


@functools.cache
def graph() -> Path:
    """The same as an ONNX file; do not change it."""
    from wildspec.bundle.onnx_export import export_onnx
    from wildspec.serving.engine import BundleEngine

    path = Path(tempfile.mkdtemp(prefix="wildspec-test-")) / "shapes.onnx"
    export_onnx(fitted().fitted_, path, BundleEngine(fitted(), "shapes").describe())
    return path


@functools.cache
def bundle() -> Path:
    """The same, saved; do not change it."""
    path = Path(tempfile.mkdtemp(prefix="wildspec-test-")) / "model"
    fitted().save(path)
    return path
