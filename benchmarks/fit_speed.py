"""How long `wildspec fit` takes on folders of 1,000 to 16,000 photographs, from typing to bundle.

    python benchmarks/fit_speed.py --data DIR --out benchmarks/results/fit_speed.json
    python benchmarks/fit_speed.py --data DIR --side 640 --sizes 2000 --out benchmarks/results/fit_speed_large.json
    python benchmarks/fit_speed.py --data DIR --grain 6 --side 3464 --sizes 500 --out benchmarks/results/fit_speed_phone.json

DIR holds ``pacs160`` (parquet). Half of the images are labelled, in seven folders; half are the pool. Beyond the 9,991
images of the set, mirror images follow: other pixels, so nothing is found in a cache; the cache is off all the same. Every
size is one command in a process of its own. ``backbone_seconds``: the network alone on as many images of the same size, on
all cores, in the same run: what no fit can be faster than. ``--side``: photographs enlarged to so many pixels, which `fit`
reads at 224 px instead of 160; 3,464 px are 12 megapixels, a phone's. ``--grain``: deviation of noise in them: without it
enlarged pictures are smoother, and their files smaller, than those of a camera.
"""

import argparse
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image, ImageOps

from wildspec.data import ImageArrays
from wildspec.files import write_json
from wildspec.images.encoding import ImageEncoder
from wildspec.models.encoder import Encoder
from wildspec.provenance import environment

SIZES = (1000, 4000, 16000)
PIXELS = {False: 160, True: 224}  # of the network's input; True: large photographs


def write_folders(file: Path, count: int, folder: Path, side: int | None, grain: float = 0.0) -> tuple[Path, Path]:
    """Photographs as JPEG files: labelled/CLASS/N.jpg and wild/N.jpg."""
    table = pq.read_table(file)
    images, labels = table["image"].to_pylist(), np.array(table["label"])
    order = np.random.default_rng(0).permutation(len(labels))
    labelled, wild = folder / "labelled", folder / "wild"
    wild.mkdir(parents=True)
    for place in range(count):
        row = order[place % len(order)]
        image = Image.open(io.BytesIO(images[row]["bytes"])).convert("RGB")
        image = ImageOps.mirror(image) if place >= len(order) else image
        image = image.resize((side, side), Image.Resampling.BICUBIC) if side else image
        if grain:
            noise = np.random.default_rng(place).normal(0, grain, (image.height, image.width, 1))
            image = Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))
        target = wild if place % 2 else labelled / f"class{labels[row]}"
        target.mkdir(parents=True, exist_ok=True)
        image.save(target / f"{place}.jpg", quality=90)
    return labelled, wild


def network_alone(count: int, pixels: int) -> float:
    """Seconds for ``count`` images that are in memory; measured on a thousand of them."""
    some = torch.randint(0, 256, (1000, 3, pixels, pixels), dtype=torch.uint8)
    encoder = ImageEncoder(Encoder("efficientnet_lite0", pixels), keep=None)
    began = time.perf_counter()
    for _ in encoder.encode(ImageArrays(some)):
        pass
    return (time.perf_counter() - began) * count / len(some)


def measure(file: Path, count: int, side: int | None, grain: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        labelled, wild = write_folders(file, count, Path(name), side, grain)
        words = ["fit", "--labelled", str(labelled), "--wild", str(wild), "--out", str(Path(name) / "model"), "--no-cache"]
        bytes_each = sum(path.stat().st_size for path in Path(name).rglob("*.jpg")) / count
        alone = network_alone(count, PIXELS[side is not None])
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "wildspec", *words], check=True, capture_output=True)
        seconds = time.perf_counter() - began
    return {
        "images": count, "seconds": round(seconds, 1), "backbone_seconds": round(alone, 1),
        "ratio": round(seconds / alone, 2), "images_per_second": round(count / seconds, 1),
        "megabytes_each": round(bytes_each / 1e6, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--side", type=int, help="enlarge the photographs to this many pixels")
    parser.add_argument("--grain", type=float, default=0.0, help="deviation of noise in them, of 255")
    given = parser.parse_args()
    file = next((given.data / "pacs160").glob("*.parquet"))
    made = environment()
    options = f" --side {given.side} --sizes {given.sizes}" if given.side else ""
    options = f" --grain {given.grain:g}{options}" if given.grain else options
    made["command"] = f"python benchmarks/fit_speed.py --data DIR{options} --out benchmarks/results/{given.out.name}"
    records = []
    for count in map(int, given.sizes.split(",")):
        records.append(measure(file, count, given.side, given.grain))
        print(records[-1], flush=True)
        write_json(given.out, {"schema": "wildspec.fit-speed/1", "environment": made, "records": records})


if __name__ == "__main__":
    main()
