"""ASH at other shares of removed activations, in its three variants, on one trained network of the benchmark.

    python benchmarks/ash_percentiles.py --weights RUN/.../checkpoints/step-N/tensors.safetensors --data DIR --cache CACHE \\
        --out docs/dev/ash-percentiles.json

The network is WRN-40-2 of `wildspec bench cifar10 --semantic svhn --methods ash --preset paper --all-labels`. Looks at the
test images: it is to explain a row, not to choose a setting.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from wildspec.bench.measure import measure
from wildspec.bench.prepare import prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.store import Store
from wildspec.data import Preprocess
from wildspec.detectors import build_detector
from wildspec.files import write_json
from wildspec.models import build_model
from wildspec.training import resolve_device

SHARES, VARIANTS = (50, 65, 75, 80, 90), ("s", "b", "p")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    device = resolve_device(given.device)
    prepared = prepare(protocol("cifar10"), "svhn", Store(given.data, given.cache), unseen=False, all_labels=True)
    model = build_model("wrn40_2", 10, dropout=0.3)
    saved = load_file(given.weights)
    model.load_state_dict({name.removeprefix("model."): v for name, v in saved.items() if name.startswith("model.")})
    detectors = {f"ash-{v} {p} %": build_detector("ash", percent=float(p), variant=v) for v in VARIANTS for p in SHARES}
    detectors["energy"] = build_detector("energy")
    found = measure(model.to(device).eval(), prepared, detectors, Preprocess(size=32), device=torch.device(device)).detectors
    rows = {name: {"fpr95_id": m.headline.fpr95_id, "auroc": m.headline.auroc} for name, m in found.items()}
    write_json(given.out, {"benchmark": "ash_percentiles", "semantic": "svhn", "seed": 0, "rows": rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
