"""Tiny data sets in the benchmark's layout: parquet shards as the Hugging Face library writes them, generated images."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def pictures(labels: np.ndarray, seed: int, *, size: int = 32, stripes: bool = False) -> np.ndarray:
    """(n, S, S, 3) uint8: a colour per class and some noise; semantic sets get stripes instead, which no class has."""
    rng = np.random.default_rng(seed)
    colours = np.random.default_rng(7).integers(40, 216, size=(65, 3))
    images = np.repeat(np.repeat(colours[labels][:, None, None, :], size, 1), size, 2).astype(float)
    if stripes:
        images[:, :, :: 2 + seed % 3] = 255 - images[:, :, :: 2 + seed % 3]
    images += rng.normal(0, 12, images.shape)
    return images.clip(0, 255).astype(np.uint8)


def write_shard(
    path: Path, images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], domain: list[str] | None = None
) -> None:
    rows = []
    for number, image in enumerate(images):
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        rows.append({"bytes": stream.getvalue(), "path": f"{number}.png"})
    feature = {"image": {"_type": "Image"}, "label": {"names": list(classes), "_type": "ClassLabel"}}
    encoded = pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    columns = {"image": encoded, "label": pa.array(labels)}
    if domain is not None:
        columns["domain"] = pa.array(domain)
    table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": feature}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def write_split(
    folder: Path, split: str, shards: int, per_class: int, classes: tuple[str, ...], seed: int, stripes: bool = False
) -> None:
    labels = np.tile(np.arange(len(classes)), per_class)
    images = pictures(labels, seed, stripes=stripes)
    for number, part in enumerate(np.array_split(np.arange(len(labels)), shards)):
        write_shard(folder / f"{split}-{number:05d}-of-{shards:05d}.parquet", images[part], labels[part], classes)


def write_tiny(folder: Path, *, cifar_shards: int = 2) -> Path:
    """CIFAR-10 (480 + 40 images), SVHN with its own test split, and two semantic sets without one."""
    digits = tuple(str(d) for d in range(10))
    write_split(folder / "cifar10", "train", cifar_shards, 48, CIFAR_CLASSES, seed=0)
    write_split(folder / "cifar10", "test", 1, 4, CIFAR_CLASSES, seed=1)
    write_split(folder / "svhn", "train", 1, 6, digits, seed=2, stripes=True)
    write_split(folder / "svhn", "test", 1, 3, digits, seed=5, stripes=True)
    write_split(folder / "textures10", "all", 1, 4, digits, seed=3, stripes=True)
    write_split(folder / "miniplaces", "all", 1, 5, digits, seed=4, stripes=True)
    return folder


def write_office_home(folder: Path, classes: int = 65, per_class: int = 3) -> Path:
    names = tuple(f"Class_{number:02d}" for number in range(classes))[::-1]  # not in alphabetical order, on purpose
    labels = np.tile(np.arange(classes), 4 * per_class)
    domain = np.repeat(["Art", "Clipart", "Product", "Real World"], classes * per_class)
    images = pictures(labels, 0, size=8)
    write_shard(folder / "office-home" / "all-00000-of-00001.parquet", images, labels, names, domain.tolist())
    return folder
