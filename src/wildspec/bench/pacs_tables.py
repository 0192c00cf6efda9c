"""Tables of `wildspec bench pacs-embeddings` and `pacs-open-set` from their records: means over pairs, spread over seeds.

A record of the first is of a ``method`` under a ``mixture``, one of the second of a ``system`` in a ``setting``; where its
recipes were scaled, that is a part of its own. A row with fewer records than the fullest one says how many it has.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import METHODS, RowMethod, method
from wildspec.bench.open_set_networks import TaskTrainer, network_systems
from wildspec.bench.open_set_systems import SYSTEMS
from wildspec.bench.pacs_embeddings import Records
from wildspec.bench.records import mean_and_spread
from wildspec.bench.render import markdown_table, per_cent

SHOWN = {
    "id_acc": "ID-Acc ↑", "ood_acc": "OOD-Acc ↑", "fpr95_id": "FPR95 ↓", "auroc": "AUROC ↑", "fs_fpr95": "fs-FPR95 ↓",
    "fs_auroc": "fs-AUROC ↑", "covariate_acceptance": "cov. accepted ↑", "id_kept": "ID kept ↑",
    "covariate_kept": "cov. kept ↑", "detection_rate": "unknown rejected ↑", "accuracy_kept": "acc. kept ↑",
    "joint": "joint ↑",
}  # fmt: skip
OPEN_SET = {
    "os_star": "OS* ↑", "unk": "UNK ↑", "unk_macro": "UNK macro ↑", "os": "OS ↑", "hos": "HOS ↑", "hos_macro": "HOS macro ↑",
    "auroc": "AUROC ↑", "fpr95": "FPR95 ↓", "id_auroc": "ID-AUROC ↑", "id_acc": "ID kept and right ↑",
}  # fmt: skip
RANKED = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc")  # columns in which one value is the best
ALL_SYSTEMS = {**SYSTEMS, **network_systems(TaskTrainer())}
SHORT = {"photo": "photo", "art_painting": "art", "cartoon": "cartoon", "sketch": "sketch"}
Means = dict[str, dict[str, tuple[float, float | None]]]


def parts(records: Records) -> list[str]:
    """The mixtures or settings, those of scaled recipes apart, in order of appearance."""
    return list(dict.fromkeys(map(_part, records)))


def summarize(records: Records, part: str) -> Means:
    """method or system -> metric -> mean over all, standard deviation over seeds of the mean over the others; in the order
    of `METHODS` or `ALL_SYSTEMS`."""
    values: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records:
        if _part(record) == part:
            for metric in SHOWN if "method" in record else OPEN_SET:
                values[_name(record)][metric][record["seed"]].append(record["metrics"][metric])
    order = ALL_SYSTEMS if records and "system" in records[0] else METHODS
    found: Means = {}
    for name in dict.fromkeys([*(name for name in order if name in values), *values]):
        means = {metric: [float(np.mean(each)) for each in seeds.values()] for metric, seeds in values[name].items()}
        found[name] = {metric: mean_and_spread(over_seeds) for metric, over_seeds in means.items()}
    return found


def by(records: Records, part: str, *keys: str, metric: str) -> dict[tuple[str, ...], dict[str, list[float]]]:
    """Values of the record's entries ``keys`` -> method or system -> the metric in all records of those that are known."""
    values: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if _part(record) == part and _name(record) in (METHODS if "method" in record else ALL_SYSTEMS):
            key = tuple(", ".join(record[name]) if name == "known" else str(record[name]) for name in keys)
            values[key][_name(record)].append(record["metrics"][metric])
    return values


def mean_by(records: Records, part: str, *keys: str, metric: str) -> dict[tuple[str, ...], dict[str, float]]:
    """The same, as means."""
    found = by(records, part, *keys, metric=metric)
    return {key: {name: float(np.mean(values)) for name, values in row.items()} for key, row in found.items()}


def title(name: str, kind: str = "method") -> str:
    """As a table calls a method or a system, with what it learns from."""
    one: RowMethod = method(name) if kind == "method" else ALL_SYSTEMS[name]
    if one.ours:
        return f"**{one.title}**"
    if kind == "system":
        return one.title if one.wild else f"{one.title} (source only)"
    return f"{one.title} (wild)" if one.wild else one.title


def table(
    means: Means, columns: dict[str, str], ranked: Sequence[str] = RANKED, kind: str = "method",
    counts: Mapping[str, int] | None = None,
) -> str:  # fmt: skip
    """One line a method or system, in per cent, the best of a ranked column bold. ``counts``: how many records each has;
    "[n of m]" where they are fewer than the most."""
    counts = counts or dict.fromkeys(means, 0)
    most = max(counts.values(), default=0)
    told = {name: f" [{counts[name]} of {most}]" if counts[name] < most else "" for name in means}
    lines = [[f"{title(name, kind)}{told[name]}"] for name in means]
    for metric, heading in columns.items():
        values = [row[metric][0] for row in means.values()]
        best = min(values) if heading.endswith("↓") else max(values)
        for line, row in zip(lines, means.values(), strict=True):
            line.append(per_cent(*row[metric], bold=metric in ranked and abs(row[metric][0] - best) < 5e-4))
    return markdown_table([kind, *columns.values()], lines, 1)


def markdown(records: Records, part: str) -> str:
    """All methods or systems; of methods also ours beside the best baseline pair by pair."""
    means = summarize(records, part)
    counts = Counter(_name(record) for record in records if _part(record) == part)
    if "system" in records[0]:
        return table(means, OPEN_SET, ("hos",), "system", counts) + "\n"
    text = table(means, SHOWN, counts=counts) + "\n"
    if "spectral" not in means or all(method(name).ours for name in means):
        return text
    accuracy = by(records, part, "source", "target", metric="ood_acc")
    lines = [
        [" → ".join(SHORT[domain] for domain in pair), *_beside(separation), *_beside(accuracy[pair])]
        for pair, separation in by(records, part, "source", "target", metric="fs_auroc").items()
    ]
    titles = ["source → target", "ours, fs-AUROC", "best baseline", "ours, OOD-Acc", "best baseline"]
    return f"{text}\n{markdown_table(titles, lines, 1)}\n"


def _part(record: dict[str, Any]) -> str:
    name = str(record["mixture"] if "mixture" in record else record["setting"])
    return f"{name}, scale {record['scale']:g}" if record.get("scale", 1) != 1 else name


def _name(record: dict[str, Any]) -> str:
    return str(record["method"] if "method" in record else record["system"])


def _beside(row: dict[str, list[float]]) -> list[str]:
    """Ours, in bold where it is above the best baseline, and that."""
    cells = {name: mean_and_spread(values) for name, values in row.items()}
    rival = max((name for name in row if not METHODS[name].ours), key=lambda name: cells[name][0])
    ours, other = cells["spectral"], cells[rival]
    return [per_cent(*ours, bold=ours[0] > other[0]), f"{per_cent(*other)} ({METHODS[rival].title})"]
