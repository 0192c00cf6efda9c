"""What a single changed setting did to a method: records that differ from the recipe as it is in one setting, beside those
of the recipe as it is, at the seeds that both were run with."""

from collections.abc import Sequence
from statistics import fmean

from wildspec.bench.records import Record

METRICS = {"ood_acc": "accuracy, shifted", "fpr95_id": "FPR95"}


def one_change(records: Sequence[Record], plain: Sequence[Record]) -> list[str]:
    """One entry for each setting: its value, the means with it, in brackets those of ``plain`` at the same seeds.

    ``records``: of any recipe. Looked at are those with one change and with ``plain``'s preset, labels, method, detector,
    set in the pool and network. Means in per cent. A setting that shares no seed with ``plain`` is left out.
    """
    usual = {record["seed"]: record for record in plain}
    changed: dict[tuple[str, object], dict[int, Record]] = {}
    for record in records:
        changes = record["config"]["recipe"]["changes"]
        if len(changes) == 1 and record["seed"] in usual and _kind(record) == _kind(usual[record["seed"]]):
            (setting,) = changes.items()
            changed.setdefault(setting, {})[record["seed"]] = record
    return [_said(f"{name}={value}", found, usual) for (name, value), found in sorted(changed.items(), key=str)]


def _kind(record: Record) -> tuple[object, ...]:
    recipe = {key: value for key, value in record["config"]["recipe"].items() if key not in ("changes", "name")}
    fields = ("method", "detector", "semantic", "covariate", "severity")
    return *(record[field] for field in fields), record["config"].get("mirror", False), tuple(recipe.items())


def _said(setting: str, found: dict[int, Record], usual: dict[int, Record]) -> str:
    parts = []
    for metric, title in METRICS.items():
        with_it, without = (100 * fmean(runs[seed][metric] for seed in found) for runs in (found, usual))
        parts.append(f"{title} {with_it:.2f} ({without:.2f})")
    seeds = ", ".join(map(str, sorted(found)))
    return f"`{setting}`: {', '.join(parts)}, seed{'s' if len(found) > 1 else ''} {seeds}"
