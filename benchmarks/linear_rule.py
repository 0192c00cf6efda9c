"""A linear rule or a distance for a trained network? Worlds made of training images alone, on a CPU.

    python benchmarks/linear_rule.py --data DIR --out benchmarks/results/linear_rule.json

DIR holds ``cifar10`` and ``svhn``; only their first training files are read, no test image. Five classes of CIFAR-10 are
known: 2,400 images are labelled; the pool holds 800 others clean, 1,000 under Gaussian noise, and 700 unknown ones: house
numbers, or the five other classes. `spectral+` trains a small network for some minutes. Then the same network is judged by
three detectors, each with its own threshold (from 600 further images), on 900 images of each kind; ``elsewhere``: on unknown
images of the kind that the pool does not hold.
"""

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image

from wildspec import Training, WildClassifier
from wildspec.data import corrupt
from wildspec.detectors import build_detector
from wildspec.evaluation import collect, decide, evaluate_outputs
from wildspec.files import write_json
from wildspec.provenance import environment

KNOWN = (0, 1, 3, 5, 8)
PARTS = {"labelled": 2400, "calibration": 600, "pool": 800, "noisy pool": 1000, "id": 900, "covariate": 900}
DETECTORS = ("knn", "wild_knn", "wild_linear")
SHOWN = ("fpr95_id", "auroc", "fs_fpr95", "fs_auroc", "id_kept", "covariate_kept", "detection_rate", "ood_acc")
UNKNOWN = 700  # in the pool; 900 more are asked about


def read(path: Path, count: int) -> tuple[torch.Tensor, np.ndarray]:
    """The first images of a file, uint8 (n, 3, 32, 32), and their labels."""
    table = pq.read_table(path).slice(0, count)
    pixels = [np.array(Image.open(io.BytesIO(item["bytes"])).convert("RGB")) for item in table["image"].to_pylist()]
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous(), np.array(table["label"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    images, labels = read(given.data / "cifar10" / "train-00000-of-00003.parquet", 16_000)
    strange, _ = read(given.data / "svhn" / "train-00000-of-00001.parquet", 1600)
    rng, known = np.random.default_rng(0), np.isin(labels, KNOWN)
    drawn = np.split(rng.permutation(np.flatnonzero(known)), np.cumsum(list(PARTS.values())))[: len(PARTS)]
    part = {name: (images[rows], torch.from_numpy(np.searchsorted(KNOWN, labels[rows])))
            for name, rows in zip(PARTS, drawn, strict=True)}  # fmt: skip
    for seed, name in enumerate(("noisy pool", "covariate")):
        part[name] = (corrupt(part[name][0], "gaussian_noise", 1, seed), part[name][1])
    unknown = {"house numbers": strange, "other classes": images[rng.permutation(np.flatnonzero(~known))[:1600]]}
    records: list[dict[str, Any]] = []
    for title, kind in unknown.items():
        wild = torch.cat([part["pool"][0], part["noisy pool"][0], kind[:UNKNOWN]])
        model = WildClassifier(training=Training("spectral+"), minutes=given.minutes, device="cpu")
        fitted = model.fit((part["labelled"][0].numpy(), part["labelled"][1].numpy()), wild.numpy()).fitted_
        seen = {name: collect(fitted.model, pair, fitted.preprocess) for name, pair in part.items()}
        pool = collect(fitted.model, wild, fitted.preprocess)
        asked = {other: collect(fitted.model, pixels[UNKNOWN:], fitted.preprocess) for other, pixels in unknown.items()}
        for name in DETECTORS:
            made = decide(build_detector(name), seen["labelled"], pool, seen["calibration"])
            for other, outputs in asked.items():
                found = evaluate_outputs(
                    made.detector, made.threshold, id=seen["id"], covariate=seen["covariate"], semantic=outputs
                )
                metrics = {metric: getattr(found, metric) for metric in SHOWN}
                records.append({"pool": title, "elsewhere": other != title, "detector": name, **metrics})
                print(title, other, name, {metric: round(100 * value, 1) for metric, value in metrics.items()}, flush=True)
        command = "python benchmarks/linear_rule.py --data DIR --out benchmarks/results/linear_rule.json"
        made_by = environment() | {"command": command, "minutes": given.minutes}
        write_json(given.out, {"schema": "wildspec.linear-rule/1", "environment": made_by, "records": records})


if __name__ == "__main__":
    main()
