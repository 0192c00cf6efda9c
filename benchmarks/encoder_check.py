"""Our EfficientNet-Lite0 against features of the same photographs that were made elsewhere with the same weights.

    python benchmarks/encoder_check.py --images DIR/pacs160 --features DIR/pacs_efficientnet_lite0.npz \\
        --control DIR/scenes8 --out benchmarks/results/encoder_check.json

``--images``: parquet with `label` and `domain`; ``--features``: `features` (n, 1280), `labels`, `domain`, same rows. The
images we have are compressed (WebP, quality 72), the features seem to be older than that: cosines are near 1, not 1. How
near they can be is measured on ``--control``, images stored without loss: their features before and after the same
compression, and after another resizing filter with it. Means over a domain show what does not come from single images.
"""

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from wildspec.data import load_images, open_source
from wildspec.data.source import SubsetSource
from wildspec.files import write_json
from wildspec.models.encoder import Encoder
from wildspec.provenance import environment

SIZE = 160
QUALITY = 72  # of the images we have


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n, d), (n, d) -> (n,) row by row."""
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def summary(values: np.ndarray) -> dict[str, float]:
    names = {"min": values.min(), "5%": np.quantile(values, 0.05), "median": np.median(values), "mean": values.mean()}
    return {name: round(float(value), 4) for name, value in names.items()}


def control(encoder: Encoder, folder: Path, count: int = 64) -> dict[str, Any]:
    """Cosines of features of ``count`` images stored without loss with those of the same images, compressed."""
    source = open_source(folder)
    pictures = [Image.fromarray(source.load(i)) for i in np.linspace(0, len(source) - 1, count).astype(int).tolist()]
    before = encoder.encode(_stack([picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS) for picture in pictures])).numpy()
    out: dict[str, Any] = {"images": count}
    for name in ("LANCZOS", "BILINEAR"):
        resized = [picture.resize((SIZE, SIZE), Image.Resampling[name]) for picture in pictures]
        after = encoder.encode(_stack([_compressed(picture) for picture in resized])).numpy()
        out[f"{name.lower()}, webp {QUALITY}"] = summary(cosines(before, after))
    return out


def _compressed(picture: Image.Image) -> Image.Image:
    stream = io.BytesIO()
    picture.save(stream, "WEBP", quality=QUALITY)
    return Image.open(stream).convert("RGB")


def _stack(pictures: list[Image.Image]) -> torch.Tensor:
    return torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, type=Path)
    parser.add_argument("--features", required=True, type=Path)
    parser.add_argument("--control", required=True, type=Path)
    parser.add_argument("--each", type=int, default=50, help="images of each domain")
    parser.add_argument("--out", required=True, type=Path)
    given = parser.parse_args()
    with np.load(given.features, allow_pickle=False) as file:
        theirs, labels, domain = file["features"].astype(np.float32), file["labels"], file["domain"]
    source = open_source(given.images)
    if np.asarray(source.labels).tolist() != labels.tolist() or list(source.column("domain")) != domain.tolist():
        raise SystemExit("the rows of images and features are not the same: labels or domains differ")
    rows: list[int] = []
    for name in np.unique(domain):
        places = np.flatnonzero(domain == name)
        rows += places[np.linspace(0, len(places) - 2, given.each).astype(int)].tolist()
    others = [row + 1 for row in rows]  # the next image: nearly always of the same class and domain
    encoder = Encoder("efficientnet_lite0", SIZE)
    pixels = load_images(SubsetSource(source, rows), SIZE).images
    ours = encoder.encode(pixels).numpy()
    found = cosines(ours, theirs[rows])
    nearest = ours @ (theirs / np.linalg.norm(theirs, axis=1, keepdims=True)).T
    record = {
        "images": len(rows), "size": SIZE, "backbone": "efficientnet_lite0", "cosine": summary(found),
        "cosine_by_domain": {str(name): summary(found[domain[rows] == name]) for name in np.unique(domain)},
        "cosine_of_domain_means": {
            str(name): round(float(cosines(ours[domain[rows] == name].mean(0, keepdims=True),
                                           theirs[rows][domain[rows] == name].mean(0, keepdims=True))[0]), 4)
            for name in np.unique(domain)
        },
        "control": control(encoder, given.control),
        "cosine_with_next_image": summary(cosines(ours, theirs[others])),
        "own_row_is_nearest_of_all": round(float((nearest.argmax(1) == np.array(rows)).mean()), 4),
        "environment": environment(), "torch_threads": torch.get_num_threads(),
    }  # fmt: skip
    write_json(given.out, record)
    print({key: value for key, value in record.items() if key != "environment"})


if __name__ == "__main__":
    main()
