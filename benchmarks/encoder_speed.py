"""Images a second through the frozen encoder: one CPU thread, and a GPU where there is one.

    python benchmarks/encoder_speed.py --out benchmarks/results/encoder_speed.json

Pixels lie where the network is; decoding is not part of it. ``images_per_second`` is by the clock, the best of ``--repeats``
short runs; ``images_per_cpu_second`` by the time this process had the processor, for machines where others are busy, too
(``load``: processes that wanted a core in the last minute). ``folded against plain``: the largest difference of features,
relative to the largest feature.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

from wildspec.files import write_json
from wildspec.models.encoder import Encoder
from wildspec.models.registry import find_backbone
from wildspec.provenance import environment


def speed(encoder: Encoder, seconds: float = 1.0) -> tuple[float, float]:
    """Images a second by the clock and by the processor's time."""
    pixels = torch.randint(0, 256, (encoder.batch, 3, encoder.size, encoder.size), dtype=torch.uint8, device=encoder.device)
    encoder.encode(pixels)[0, 0].item()
    done, began, processor = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        encoder.encode(pixels)[0, 0].item()  # waits for a GPU
        done += len(pixels)
    return done / (time.perf_counter() - began), done / (time.process_time() - processor)


def agreement(name: str, device: torch.device) -> float:
    """Encoder (folded, channels last, batches) against the plain network in double precision."""
    known = find_backbone(name)
    assert known.scaling is not None
    encoder = Encoder(known, device=device)
    pixels = torch.randint(0, 256, (8, 3, encoder.size, encoder.size), dtype=torch.uint8).to(device)
    mean, std = (torch.tensor(value, dtype=torch.float64, device=device).view(3, 1, 1) for value in known.scaling)
    with torch.no_grad():
        plain = known.build().eval().double().to(device)((pixels.double() / 255 - mean) / std)
    return float((encoder.encode(pixels).double() - plain).abs().max() / plain.abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--sizes", default="128,160,224")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", required=True, type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for where in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        device = torch.device(where)
        for size in map(int, given.sizes.split(",")):
            encoder = Encoder(given.backbone, size, device=device)
            runs = [speed(encoder) for _ in range(given.repeats)]
            best = [round(max(rates), 1) for rates in zip(*runs, strict=True)]
            rows.append({"device": where, "threads": 1, "size": size, "batch": encoder.batch, "images_per_second": best[0]})
            rows[-1] |= {"images_per_cpu_second": best[1]} if where == "cpu" else {}
            print(rows[-1], flush=True)
        rows.append({"device": where, "folded against plain": agreement(given.backbone, device)})
        print(rows[-1], flush=True)
    load = round(os.getloadavg()[0], 1)
    write_json(given.out, {"backbone": given.backbone, "load": load, "rows": rows, "environment": environment()})


if __name__ == "__main__":
    main()
