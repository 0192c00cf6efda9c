"""Tables of the embeddings benchmark, from its records: means over pairs, spread over seeds, the bars, pair by pair."""

from collections import defaultdict
from statistics import harmonic_mean
from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import METHODS

Records = list[dict[str, Any]]
SHOWN = {
    "id_acc": "ID-Acc ↑", "ood_acc": "OOD-Acc ↑", "fpr95_id": "FPR95 ↓", "auroc": "AUROC ↑", "fs_fpr95": "fs-FPR95 ↓",
    "fs_auroc": "fs-AUROC ↑", "covariate_acceptance": "cov. accepted ↑", "id_kept": "ID kept ↑",
    "covariate_kept": "cov. kept ↑", "detection_rate": "unknown rejected ↑", "accuracy_kept": "acc. kept ↑",
    "joint": "joint ↑",
}  # fmt: skip
SHORT = {"photo": "photo", "art_painting": "art", "cartoon": "cartoon", "sketch": "sketch"}


def summarize(records: Records, mixture: str) -> dict[str, dict[str, tuple[float, float]]]:
    """method -> metric -> mean over pairs and seeds, standard deviation over seeds of the mean over pairs."""
    values: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records:
        if record["mixture"] == mixture:
            for name in SHOWN:
                values[record["method"]][name][record["seed"]].append(_value(record["metrics"], name))
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for method in METHODS:
        if method in values:
            found[method] = {}
            for name, seeds in values[method].items():
                means = [float(np.mean(entries)) for entries in seeds.values()]
                found[method][name] = (float(np.mean(means)), float(np.std(means, ddof=1)) if len(means) > 1 else 0.0)
    return found


def _value(metrics: dict[str, float], name: str) -> float:
    """A metric of a record; records made before the joint score was kept beside a model's own decision get it here."""
    if name == "joint" and metrics.get(name) is None:
        return harmonic_mean([metrics["ood_acc"], metrics["covariate_kept"], metrics["detection_rate"]])
    return metrics[name]


def by_pair(records: Records, mixture: str, metric: str = "fs_auroc") -> dict[tuple[str, str], dict[str, float]]:
    """(source, target) -> method -> mean over seeds."""
    return {
        pair: {name: float(np.mean(values)) for name, values in methods.items()}
        for pair, methods in _by_pair(records, mixture, metric).items()
    }


def _by_pair(records: Records, mixture: str, metric: str) -> dict[tuple[str, str], dict[str, list[float]]]:
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record["mixture"] == mixture and record["method"] in METHODS:  # variants have a table of their own
            values[record["source"], record["target"]][record["method"]].append(record["metrics"][metric])
    return values


def bars(records: Records, mixture: str, ours: str = "spectral") -> list[dict[str, Any]]:
    """What was asked for, what came, whether it is met; the best baseline is taken for each metric on its own."""
    table = summarize(records, mixture)
    mine = {name: mean for name, (mean, _) in table[ours].items()}
    baselines = {name: row for name, row in table.items() if not METHODS[name].ours}

    def best(metric: str) -> tuple[str, float]:
        name = max(baselines, key=lambda each: baselines[each][metric][0])
        return name, baselines[name][metric][0]

    pairs = by_pair(records, mixture)
    wins = sum(
        row[ours] > max(value for name, value in row.items() if not METHODS[name].ours) for row in pairs.values()
    )
    accuracy, spectrum, clean = best("ood_acc"), best("fs_auroc"), best("id_acc")
    return [
        _bar("FPR95 at most 2 %", mine["fpr95_id"], 0.02, mine["fpr95_id"] <= 0.02, None),
        _bar("OOD accuracy above the best baseline", mine["ood_acc"], *_than(accuracy, mine["ood_acc"] > accuracy[1])),
        _bar(
            "fs-AUROC at least 5 points above the best baseline", mine["fs_auroc"],
            *_than(spectrum, mine["fs_auroc"] >= spectrum[1] + 0.05),
        ),
        _bar(
            "ID accuracy within 1 point of the best baseline", mine["id_acc"],
            *_than(clean, mine["id_acc"] >= clean[1] - 0.01),
        ),
        {
            "bar": f"fs-AUROC above every baseline on at least 10 of {len(pairs)} pairs", "ours": wins, "against": 10,
            "met": wins >= 10, "baseline": None,
        },
    ]  # fmt: skip


def markdown(records: Records, mixture: str) -> str:
    """The three tables of one mixture, in per cent."""
    table = summarize(records, mixture)
    best = {name: _best(table, name) for name in SHOWN}
    lines = ["| method | " + " | ".join(SHOWN.values()) + " |", "|---" + "|---:" * len(SHOWN) + "|"]
    for method, row in table.items():
        title = METHODS[method].title + (" (wild)" if METHODS[method].wild and not METHODS[method].ours else "")
        cells = []
        for name in SHOWN:
            mean, spread = row[name]
            text = f"{100 * mean:.1f} ± {100 * spread:.1f}"
            cells.append(f"**{text}**" if abs(mean - best[name]) < 5e-4 and name in RANKED else text)
        lines.append(f"| {f'**{title}**' if METHODS[method].ours else title} | " + " | ".join(cells) + " |")
    lines += ["", "| bar | ours | best baseline | met |", "|---|---:|---:|---|"]
    for entry in bars(records, mixture):
        count = isinstance(entry["ours"], int)
        ours = str(entry["ours"]) if count else f"{100 * entry['ours']:.1f}"
        against = str(entry["against"]) if count else f"{100 * entry['against']:.1f}"
        who = f" ({METHODS[entry['baseline']].title})" if entry["baseline"] else ""
        lines.append(f"| {entry['bar']} | {ours} | {against}{who} | {'yes' if entry['met'] else '**no**'} |")
    lines += ["", "| source → target | ours, fs-AUROC | best baseline | ours, OOD-Acc | best baseline |"]
    lines += ["|---|---:|---:|---:|---:|"]
    accuracy = _by_pair(records, mixture, "ood_acc")
    for pair, separation in _by_pair(records, mixture, "fs_auroc").items():
        cells = [*_beside(separation), *_beside(accuracy[pair])]
        lines.append(f"| {SHORT[pair[0]]} → {SHORT[pair[1]]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ablation_table(records: list[dict[str, Any]]) -> str:
    """One line per variant, the defaults first."""
    shown = ("id_acc", "ood_acc", "fpr95_id", "fs_fpr95", "fs_auroc", "covariate_kept", "detection_rate")
    lines = ["| changed | " + " | ".join(SHOWN[name] for name in shown) + " |", "|---" + "|---:" * len(shown) + "|"]
    for name in dict.fromkeys(record["method"] for record in records):
        values = [[record["metrics"][key] for key in shown] for record in records if record["method"] == name]
        changed = name.removeprefix("spectral:").replace("+", ", ").replace("=", " = ")
        title = "nothing" if name == "spectral" else changed
        lines.append(f"| {title} | " + " | ".join(f"{100 * value:.1f}" for value in np.mean(values, axis=0)) + " |")
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


def _bar(text: str, ours: float, against: float, met: bool, baseline: str | None) -> dict[str, Any]:
    return {"bar": text, "ours": ours, "against": against, "met": bool(met), "baseline": baseline}


def _than(rival: tuple[str, float], met: bool) -> tuple[float, bool, str]:
    return rival[1], met, rival[0]
