"""Which class the shifted test images of each class are given, by kept weights of benchmark runs.

    python benchmarks/noise_by_class.py --run RECORD.json MODEL.safetensors --run RECORD.json MODEL.safetensors \
        --images 2000 --data DIR --cache CACHE --out docs/results/noise-by-class.json

RECORD: of the run that trained the weights; it says the network, the shift and the pool. The table written has a row
for each true class and a column for each class given, both in the order of ``classes``, counts of images.
"""

import argparse
from pathlib import Path

import torch

from measure_weights import load_network
from wildspec.bench.prepare import prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.records import read_record
from wildspec.bench.store import Store
from wildspec.data import Preprocess
from wildspec.evaluation import collect
from wildspec.files import write_json
from wildspec.provenance import environment
from wildspec.training import resolve_device


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", nargs=2, action="append", type=Path, required=True, metavar=("RECORD", "WEIGHTS"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--images", type=int, help="only so many, the first ones: they are in no order of classes")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    runs = []
    for path, weights in given.run:
        record = read_record(path)
        plan = protocol(record["protocol"])
        level, size = record["severity"], plan.in_distribution["size"]
        prepared = prepare(plan, record["semantic"], Store(given.data, given.cache), severity=level, unseen=False)
        model = load_network(record, weights, len(prepared.labelled.classes), size)
        test = prepared.covariate_test[level]
        test = test.subset(range(min(given.images or len(test), len(test))))
        guesses = collect(model, test, Preprocess(size=size), device=resolve_device("auto")).predictions.cpu()
        classes = len(test.classes)
        table = torch.bincount(test.labels.cpu() * classes + guesses, minlength=classes**2).view(classes, classes)
        keys = ("protocol", "semantic", "covariate", "severity", "recipe", "method", "seed")
        runs.append({key: record[key] for key in keys} | {"classes": list(test.classes), "given": table.tolist()})
        print(record["semantic"], record["recipe"], f"{100 * table.diagonal().sum() / table.sum():.2f} % right")
    command = f"python benchmarks/noise_by_class.py --run RECORD.json MODEL.safetensors ... --images {given.images}"
    write_json(given.out, {"command": command, "commit": environment()["commit"], "runs": runs})


if __name__ == "__main__":
    main()
