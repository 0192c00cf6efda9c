"""Tables of the embeddings benchmark, from its records: means over pairs, spread over seeds, pair by pair."""

from collections import defaultdict
from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import METHODS, method

Records = list[dict[str, Any]]
SHOWN = {
    "id_acc": "ID-Acc ↑", "ood_acc": "OOD-Acc ↑", "fpr95_id": "FPR95 ↓", "auroc": "AUROC ↑", "fs_fpr95": "fs-FPR95 ↓",
    "fs_auroc": "fs-AUROC ↑", "covariate_acceptance": "cov. accepted ↑", "id_kept": "ID kept ↑",
    "covariate_kept": "cov. kept ↑", "detection_rate": "unknown rejected ↑", "accuracy_kept": "acc. kept ↑",
    "joint": "joint ↑",
}  # fmt: skip
SHORT = {"photo": "photo", "art_painting": "art", "cartoon": "cartoon", "sketch": "sketch"}


def summarize(records: Records, mixture: str) -> dict[str, dict[str, tuple[float, float]]]:
    """method -> metric -> mean over pairs and seeds, standard deviation over seeds of the mean over pairs; variants last."""
    values: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records:
        if record["mixture"] == mixture:
            for name in SHOWN:
                values[record["method"]][name][record["seed"]].append(record["metrics"][name])
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for one in sorted(values, key=lambda name: list(METHODS).index(name) if name in METHODS else len(METHODS)):
        found[one] = {}
        for name, seeds in values[one].items():
            means = [float(np.mean(entries)) for entries in seeds.values()]
            found[one][name] = (float(np.mean(means)), float(np.std(means, ddof=1)) if len(means) > 1 else 0.0)
    return found


def by_pair(records: Records, mixture: str, metric: str = "fs_auroc") -> dict[tuple[str, str], dict[str, float]]:
    """(source, target) -> method -> mean over seeds."""
    return {
        pair: {name: float(np.mean(values)) for name, values in methods.items()}
        for pair, methods in _by_pair(records, mixture, metric).items()
    }


def _by_pair(records: Records, mixture: str, metric: str) -> dict[tuple[str, str], dict[str, list[float]]]:
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record["mixture"] == mixture and record["method"] in METHODS:  # variants are in the first table only
            values[record["source"], record["target"]][record["method"]].append(record["metrics"][metric])
    return values


def markdown(records: Records, mixture: str) -> str:
    """All methods, and ours beside the best baseline pair by pair, of one mixture, in per cent."""
    table = summarize(records, mixture)
    best = {name: _best(table, name) for name in SHOWN}
    lines = ["| method | " + " | ".join(SHOWN.values()) + " |", "|---" + "|---:" * len(SHOWN) + "|"]
    for one, row in ((method(name), row) for name, row in table.items()):
        title = one.title + (" (wild)" if one.wild and not one.ours else "")
        cells = []
        for name in SHOWN:
            mean, spread = row[name]
            text = f"{100 * mean:.1f} ± {100 * spread:.1f}"
            cells.append(f"**{text}**" if abs(mean - best[name]) < 5e-4 and name in RANKED else text)
        lines.append(f"| {f'**{title}**' if one.ours else title} | " + " | ".join(cells) + " |")
    if "spectral" not in table or all(method(name).ours for name in table):
        return "\n".join(lines) + "\n"
    lines += ["", "| source → target | ours, fs-AUROC | best baseline | ours, OOD-Acc | best baseline |"]
    lines += ["|---|---:|---:|---:|---:|"]
    accuracy = _by_pair(records, mixture, "ood_acc")
    for pair, separation in _by_pair(records, mixture, "fs_auroc").items():
        cells = [*_beside(separation), *_beside(accuracy[pair])]
        lines.append(f"| {SHORT[pair[0]]} → {SHORT[pair[1]]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


RANKED = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc")  # columns in which one value is the best


def _best(table: dict[str, dict[str, tuple[float, float]]], name: str) -> float:
    values = [row[name][0] for row in table.values()]
    return min(values) if SHOWN[name].endswith("↓") else max(values)


def _beside(row: dict[str, list[float]], ours: str = "spectral") -> list[str]:
    means = {name: float(np.mean(values)) for name, values in row.items()}
    rival = max((name for name in row if not METHODS[name].ours), key=lambda name: means[name])
    mine = spread(row[ours])
    return [f"**{mine}**" if means[ours] > means[rival] else mine, f"{spread(row[rival])} ({METHODS[rival].title})"]


def spread(values: list[float]) -> str:
    """Mean and standard deviation in per cent; the mean alone where there is one value."""
    text = f"{100 * np.mean(values):.1f}"
    return text if len(values) < 2 else f"{text} ± {100 * np.std(values, ddof=1):.1f}"
