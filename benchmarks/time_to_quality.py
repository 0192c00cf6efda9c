"""How long from the command to the record that holds the paper's four numbers?

    python benchmarks/time_to_quality.py --data DIR --cache CACHE --run RUN --seed 10 \\
        --out benchmarks/results/time_to_quality.json

Trains and measures one model (`spectral+`, preset ``fast``, detector ``wild_linear``, mirror images, SVHN in the pool) by
the command that a user would type, in a process of its own, and writes down the seconds on the clock, start-up and
compilation included. Images are decoded beforehand (``wildspec bench prepare``): that is done once, not for every model.
One seed a call; each call adds its row to the file. Options it does not know go to ``wildspec bench``.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from wildspec.bench.published import published
from wildspec.bench.records import load_records
from wildspec.files import read_json, write_json
from wildspec.provenance import environment

WHAT = [
    "cifar10", "--semantic", "svhn", "--methods", "spectral++wild_linear", "--preset", "fast", "--mirror", "--no-unseen",
    "--seeds", "1",
]  # fmt: skip
NUMBERS = ("id_acc", "ood_acc", "fpr95_id", "auroc")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("data", "cache", "run", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given, more = parser.parse_known_args()
    wildspec = [sys.executable, "-m", "wildspec", "bench"]
    places = ["--data", str(given.data), "--cache", str(given.cache)]
    subprocess.run([*wildspec, "prepare", "cifar10", "--semantic", "svhn", *places], check=True)
    began = time.monotonic()
    subprocess.run([*wildspec, *WHAT, "--first-seed", str(given.seed), *places, "--out", str(given.run), *more], check=True)
    seconds = time.monotonic() - began
    (record,) = (r for r in load_records([given.run]) if r["config"].get("mirror") and r["seed"] == given.seed)
    (paper,) = published("main", "spectral", "svhn")
    row = {
        "seed": given.seed, "seconds": round(seconds, 1), "training_seconds": record["seconds"], "views": record["views"],
        **{name: record[name] for name in NUMBERS}, "hardware": record["environment"]["hardware"],
    }  # fmt: skip
    rows = read_json(given.out)["rows"] if given.out.exists() else []
    command = f"wildspec bench {' '.join(WHAT)} --first-seed SEED --data DIR --cache CACHE --out RUN"
    made = {"environment": environment() | {"command": "python benchmarks/time_to_quality.py ..."}, "command": command}
    write_json(given.out, {
        "schema": "wildspec.time-to-quality/1", **made, "paper": {name: paper[name] for name in NUMBERS},
        "rows": [*(r for r in rows if r["seed"] != given.seed), row],
    })  # fmt: skip
    print(row)


if __name__ == "__main__":
    main()
