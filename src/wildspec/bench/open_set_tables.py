"""Tables of `wildspec bench pacs-open-set`, from its records: means over pairs and choices, spread over seeds."""

from collections import defaultdict
from typing import Any

import numpy as np

from wildspec.bench.open_set_networks import TaskTrainer, network_systems
from wildspec.bench.open_set_systems import SYSTEMS

Records = list[dict[str, Any]]
ALL = {**SYSTEMS, **network_systems(TaskTrainer())}
SHOWN = {
    "os_star": "OS* ↑", "unk": "UNK ↑", "unk_macro": "UNK macro ↑", "os": "OS ↑", "hos": "HOS ↑", "hos_macro": "HOS macro ↑",
    "auroc": "AUROC ↑", "fpr95": "FPR95 ↓", "id_auroc": "ID-AUROC ↑", "id_acc": "ID kept and right ↑",
}  # fmt: skip


def summarize(records: Records, setting: str) -> dict[str, dict[str, tuple[float, float]]]:
    """system -> metric -> mean over pairs, choices and seeds, standard deviation over seeds of the mean over the others."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name in ALL:
        own = [record for record in records if record["system"] == name and record["setting"] == setting]
        if own:
            found[name] = {metric: _over_seeds(own, metric) for metric in SHOWN}
    return found


def _over_seeds(records: Records, metric: str) -> tuple[float, float]:
    seeds: dict[int, list[float]] = defaultdict(list)
    for record in records:
        seeds[record["seed"]].append(record["metrics"][metric])
    means = [float(np.mean(values)) for values in seeds.values()]
    return float(np.mean(means)), float(np.std(means, ddof=1)) if len(means) > 1 else 0.0


def by(records: Records, setting: str, *names: str, metric: str = "hos") -> dict[tuple[str, ...], dict[str, float]]:
    """Values of the record's entries ``names`` -> system -> mean of the metric over all else."""
    values: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record["setting"] == setting:
            key = tuple(", ".join(record[name]) if name == "known" else str(record[name]) for name in names)
            values[key][record["system"]].append(record["metrics"][metric])
    return {key: {name: float(np.mean(each)) for name, each in systems.items()} for key, systems in values.items()}


def markdown(records: Records, setting: str) -> str:
    """One line a system, in per cent; the best HOS bold."""
    table = summarize(records, setting)
    best = max(row["hos"][0] for row in table.values())
    lines = ["| system | " + " | ".join(SHOWN.values()) + " |", "|---" + "|---:" * len(SHOWN) + "|"]
    for name, row in table.items():
        cells = [_cell(*row[metric]) for metric in SHOWN]
        if row["hos"][0] == best:
            cells[list(SHOWN).index("hos")] = f"**{cells[list(SHOWN).index('hos')]}**"
        lines.append(f"| {title(name)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def title(name: str) -> str:
    system = ALL[name]
    return f"**{system.title}**" if system.ours else system.title + ("" if system.wild else " (source only)")


def _cell(mean: float, spread: float) -> str:
    return f"{100 * mean:.1f}" + (f" ± {100 * spread:.1f}" if spread else "")
