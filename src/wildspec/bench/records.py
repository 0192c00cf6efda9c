"""One result = one JSON file: what was trained and scored, on which images, what came out, how to make it again.

Metrics stand at the top level under the names of ``wildspec.evaluation.Evaluation``, in [0, 1]; ``severities`` and
``unseen`` hold the same metrics at the other corruption severities and on semantic sets that were not in the wild pool.
``pool``, of the joint decision alone: both thresholds, the estimated shares of the wild pool and, for comparison, the true
counts (in-distribution, covariate, semantic) in the pool and among what was attributed to a known class. ``curve``, where
it was asked for: the paper's four metrics on the way (``wildspec.bench.quality_curve``), with stage, epoch, seconds, views.
"""

import json
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wildspec.errors import DataError
from wildspec.files import read_json, write_json

SCHEMA = "wildspec.bench/1"
PAPER = ("id_acc", "ood_acc", "fpr95_id", "auroc")
FULL_SPECTRUM = ("covariate_acceptance", "fs_fpr95", "fs_auroc")
DECISION = ("id_kept", "covariate_kept", "detection_rate", "accuracy_kept", "joint")
OPEN_SET = ("os_star", "unk", "hos")  # where the shift is another domain: at a system's own decision
METRICS = (*PAPER, *FULL_SPECTRUM, *DECISION, *OPEN_SET, "id_acc_validation")  # the last: what the paper chooses by
HEADINGS = {  # as tables call them, and which way is better
    "id_acc": ("ID-Acc", "↑"),
    "ood_acc": ("OOD-Acc", "↑"),
    "fpr95_id": ("FPR95", "↓"),
    "auroc": ("AUROC", "↑"),
    "covariate_acceptance": ("cov. accepted", "↑"),
    "fs_fpr95": ("fs-FPR95", "↓"),
    "fs_auroc": ("fs-AUROC", "↑"),
    "id_kept": ("ID kept", "↑"),
    "covariate_kept": ("cov. kept", "↑"),
    "detection_rate": ("unknown rejected", "↑"),
    "accuracy_kept": ("acc. kept", "↑"),
    "joint": ("joint", "↑"),
    "os_star": ("OS*", "↑"),
    "unk": ("UNK", "↑"),
    "hos": ("HOS", "↑"),
    "id_acc_validation": ("ID-Acc (validation)", "↑"),
}
LOWER_IS_BETTER = frozenset({"fpr95_id", "fs_fpr95", "fpr95_ood", "false_alarm_rate"})

Record = dict[str, Any]
FORM = {  # place -> what must be there
    **dict.fromkeys(("protocol", "method", "detector", "semantic", "covariate", "recipe", "command"), "text"),
    **dict.fromkeys(("severity", "seed"), "a whole number"),
    **dict.fromkeys(("seconds", "views"), "a number from 0 on"),
    **dict.fromkeys(("splits", "environment", "config", "environment.versions", "environment.hardware"), "a table"),
}
MAYBE = {  # what may be there, or be null
    **dict.fromkeys(("severities", "unseen", "detector_config", "sources"), "a table"),
    **dict.fromkeys(("config.hparams", "config.recipe", "config.wild"), "a table"),
    "config.recipe.changes": "a table", "config.recipe.init": "text", "config.stages": "a list", "curve": "a list",
}  # fmt: skip


def write_record(path: str | os.PathLike[str], record: Record) -> None:
    """Check and write; a record that would not be read back is never written."""
    whole = {"schema": SCHEMA, **record}
    check_record(whole, str(path))
    write_json(path, whole)


def read_record(path: str | os.PathLike[str]) -> Record:
    record = read_json(path)
    check_record(record, str(path))
    return record  # type: ignore[no-any-return]


def check_record(record: Any, name: str) -> None:
    """Every key there, text is text, metrics in [0, 1] or absent (null)."""
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else type(record).__name__
        raise DataError(f"{name} is no benchmark record: its schema must be {SCHEMA!r}, got {found!r}")
    missing = [key for key in (*FORM, *PAPER, *FULL_SPECTRUM) if "." not in key and key not in record]
    if missing:
        raise DataError(f"{name} lacks {', '.join(missing)}; write it again with: wildspec bench")
    for place, kind in FORM.items():
        _must_be(kind, _at(record, place), f"{name}: {place}")
    for place, kind in MAYBE.items():
        if (value := _at(record, place)) is not None:
            _must_be(kind, value, f"{name}: {place}")
    for key, digest in record["splits"].items():
        _must_be("text", digest, f"{name}: splits.{key}")
    for stage in record["config"].get("stages") or []:
        _must_be("a table", stage, f"{name}: a stage of config.stages")
        _must_be("text", stage.get("name", ""), f"{name}: a stage's name")
    for look in record.get("curve") or []:
        _must_be("a table", look, f"{name}: a look of curve")
        _must_be("a number from 0 on", look.get("seconds"), f"{name}: seconds of a look of curve")
        _check_metrics(look, f"{name}, a look of curve")
    _check_metrics(record, name)
    for part in ("severities", "unseen"):
        for key, metrics in (record.get(part) or {}).items():
            _must_be("a table", metrics, f"{name}: {part}.{key}")
            _check_metrics(metrics, f"{name}, {part} {key}")
            if part == "severities" and not key.isdecimal():
                raise DataError(f"{name}: severities are numbered, got {key!r}")


def _at(record: Record, place: str) -> Any:
    """What stands at a place such as config.recipe.init; None where there is nothing."""
    value: Any = record
    for key in place.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _must_be(kind: str, value: Any, where: str) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = {
        "text": isinstance(value, str), "a table": isinstance(value, dict), "a list": isinstance(value, list),
        "a whole number": number and isinstance(value, int), "a number from 0 on": number and 0 <= value < math.inf,
        "a fraction in [0, 1]": number and 0 <= value <= 1,
    }  # fmt: skip
    if not fits[kind]:
        raise DataError(f"{where} must be {kind}, got {value!r}")


def _check_metrics(values: Any, name: str) -> None:
    for metric in METRICS:
        if values.get(metric) is not None:
            _must_be("a fraction in [0, 1]", values[metric], f"{name}: {metric}")


def find_records(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Record files among the given files and below the given folders, sorted; other JSON in a folder is passed over."""
    found: list[Path] = []
    for given in map(Path, paths):
        if given.is_dir():
            inside = [path for path in sorted(given.rglob("*.json")) if _is_record(path)]
            if not inside:
                raise DataError(f"{given} holds no benchmark records; make some with: wildspec bench cifar10 --out {given}")
            found += inside
        elif given.exists():
            found.append(given)
        else:
            raise DataError(f"{given} does not exist; give a record file or a run folder of wildspec bench")
    return list(dict.fromkeys(found))


def load_records(paths: Iterable[str | os.PathLike[str]]) -> list[Record]:
    """All records; the same result reached by two paths counts once, two results of one seed count twice."""
    records = [read_record(path) for path in find_records(paths)]
    unique = {json.dumps(record, sort_keys=True): record for record in records}
    return list(unique.values())


def _is_record(path: Path) -> bool:
    try:
        with open(path, encoding="utf-8") as stream:
            start = stream.read(200)
    except (OSError, UnicodeDecodeError):
        return False
    return f'"{SCHEMA}"' in start


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and the sample standard deviation (n - 1) where there are two values or more."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
