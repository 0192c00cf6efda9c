"""Measure kept weights of a benchmark run once more: by other detectors, or with every image beside its mirror image.

    python benchmarks/measure_weights.py --record RECORD.json --weights MODEL.safetensors --data DIR --cache CACHE \
        --detectors knn,wild_knn --mirror --out FOLDER

RECORD: a record of the run that trained them; what was trained, and how long it took, is taken from it. WEIGHTS: the tensors
``model.*`` of its last checkpoint. Only the protocol's own severity and semantic set are measured, which a CPU can do; with
``--everything`` the other severities and the unseen semantic sets too.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from wildspec.bench.measure import measure
from wildspec.bench.prepare import prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.records import PAPER, read_record, write_record
from wildspec.bench.run import detector_of, preprocess_of
from wildspec.bench.store import Store
from wildspec.methods import build_method
from wildspec.models import Classifier, build_model, mirrored
from wildspec.provenance import environment
from wildspec.training import resolve_device

TRAINED = ("protocol", "method", "semantic", "covariate", "severity", "recipe", "seed", "splits", "sources", "config",
           "seconds", "views", "steps")  # fmt: skip


def load_network(record: dict[str, Any], weights: Path, classes: int, size: int) -> Classifier:
    """The network that ``record`` names, with its method's outputs and the tensors ``model.*`` of a checkpoint."""
    model = build_model(record["config"]["model"], classes, size=size)
    build_method(record["method"], classes, **record["config"].get("hparams", {})).adapt(model)
    tensors = load_file(weights)
    model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--detectors", default="knn,wild_knn")
    parser.add_argument("--mirror", action="store_true")
    parser.add_argument("--everything", action="store_true", help="all severities and the unseen semantic sets too")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    before = read_record(given.record)
    if before["config"].get("mirror"):
        raise SystemExit(f"{given.record} was measured with mirror images; give the record of the run without them")
    recipe = before["config"]["recipe"]
    plan = protocol(before["protocol"]).resized(recipe.get("size"))
    prepared = prepare(
        plan, before["semantic"], Store(given.data, given.cache), severity=before["severity"], unseen=given.everything,
        all_labels=recipe.get("all_labels", False),
    )  # fmt: skip
    if not given.everything:
        prepared.covariate_test = {before["severity"]: prepared.covariate_test[before["severity"]]}
    if prepared.hashes() != before["splits"]:
        raise SystemExit(f"the images in {given.data} are not those that {given.record} was measured on")
    model = load_network(before, given.weights, len(prepared.labelled.classes), plan.in_distribution["size"])
    detectors = {name: detector_of(name, plan, len(prepared.labelled)) for name in given.detectors.split(",")}
    device = resolve_device("auto")
    start = time.monotonic()
    judged = mirrored(model) if given.mirror else model
    measured = measure(judged, prepared, detectors, preprocess_of(plan), device=device)
    if measured.refused:
        raise SystemExit("\n".join(f"{name} cannot be used: {why}" for name, why in measured.refused.items()))
    took = round(time.monotonic() - start, 2)
    made = environment()
    for name, result in measured.detectors.items():
        record: dict[str, Any] = {key: before[key] for key in TRAINED}
        if given.mirror:
            record["recipe"] += ", mirrored"
            record["config"] = {**before["config"], "mirror": True}
        record |= {
            "detector": name, "command": made["command"], "environment": made, "trained_by": before["command"],
            "trained_on": before["environment"]["hardware"], "evaluation_seconds": took, **result.headline.to_json(),
            "id_acc_validation": result.validation_id_acc, "detector_config": detectors[name].config(),
            **({} if result.pool is None else {"pool": result.pool}),
            **(result.open_set or {}),
            "severities": {str(level): e.to_json() for level, e in result.severities.items()} if given.everything else {},
            "unseen": {other: e.to_json() for other, e in result.unseen.items()},
        }  # fmt: skip
        path = given.out / f"{given.record.stem.rsplit('-', 1)[0]}-{name}{'-mirror' if given.mirror else ''}.json"
        write_record(path, record)
        print(name, {key: round(100 * record[key], 2) for key in (*PAPER, "fs_fpr95", "covariate_kept", "detection_rate")})


if __name__ == "__main__":
    main()
