"""The tasks of own_images.py with a network that is taken as it is: what `wildspec fit` does by itself.

    python benchmarks/own_images_frozen.py --data DIR --out benchmarks/results/own_images_frozen.json

DIR holds ``cifar10`` and ``pacs160``. One seed; judged as own_images.py does.
"""

import argparse
import os
import tempfile
from pathlib import Path

from own_images import TASKS, judge, make_folders, type_in
from wildspec.files import write_json
from wildspec.provenance import environment

LINES = (
    "wildspec fit --labelled labelled --wild incoming --frozen --out model",
    "wildspec score model test --out scores.csv",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    made, runs = environment(), []
    made["command"] = "python benchmarks/own_images_frozen.py --data DIR --out benchmarks/results/own_images_frozen.json"
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            make_folders(task, given.data / ("pacs160" if task == "pacs" else "cifar10"), root, 0)
            seconds = [round(type_in(line, root)[0], 1) for line in LINES]
            sets = judge(root / "scores.csv")
        runs.append({
            "task": task, "seed": 0, "commands": list(LINES), "seconds": seconds, "sets": sets,
            "threads": os.environ.get("OMP_NUM_THREADS"), "load_after": round(os.getloadavg()[0], 2),
        })  # fmt: skip
        write_json(given.out, {"schema": "wildspec.own-images-frozen/1", "environment": made, "runs": runs})


if __name__ == "__main__":
    main()
