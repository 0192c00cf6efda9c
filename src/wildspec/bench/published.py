"""The numbers the paper printed, as data: every cell with the label of the table it stands in, in per cent.

``published("main", "spectral", "svhn")`` -> the rows that match; ``None`` matches everything. Method names are those of
``wildspec.methods`` and ``wildspec.detectors`` (a detector's row is cross-entropy training plus that score).
"""

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from wildspec.checks import choice

PAPER_METRICS = ("id_acc", "ood_acc", "fpr95_id", "auroc")
OPEN_SET = ("os_star", "unk", "hos")  # of rows at a system's own decision


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    text = files("wildspec.bench").joinpath("published.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def tables() -> dict[str, dict[str, Any]]:
    """Name -> label in the paper, title, notes, number of rows."""
    return {
        table["table"]: {key: value for key, value in table.items() if key != "rows"} | {"rows": len(table["rows"])}
        for table in _document()["tables"]
    }


def published(
    table: str | None = None, method: str | None = None, semantic: str | None = None
) -> list[dict[str, Any]]:
    """Rows that match, each a dict with ``table``, ``label``, ``method``, ``semantic`` and its numbers in per cent."""
    found = _document()["tables"]
    if table is not None:
        choice("table", table, [entry["table"] for entry in found])
        found = [entry for entry in found if entry["table"] == table]
    return [
        {"table": entry["table"], "label": entry["label"], **row}
        for entry in found
        for row in entry["rows"]
        if method in (None, row["method"]) and semantic in (None, row["semantic"])
    ]


def paper_numbers(row: str, semantic: str) -> dict[str, list[tuple[float, str]]]:
    """Metric -> every number the paper prints for that row of its CIFAR-10 tables, each with its table's label.

    Nearly always one; ours on LSUN-R has two OOD accuracies (79.38 and 79.68), and both are given, first the main table's.
    """
    wanted = ("main", "main_more", "spectral_methods", "spectral_methods_more", "imagenet100", "office_home")
    found: dict[str, list[tuple[float, str]]] = {}
    for name in wanted:
        for entry in map(_with_own_decision, published(name, row, semantic)):
            for metric in (*PAPER_METRICS, *OPEN_SET):
                value = entry.get(metric)
                if value is not None and value not in [seen for seen, _ in found.get(metric, [])]:
                    found.setdefault(metric, []).append((value, entry["label"]))
    return found


def _with_own_decision(entry: dict[str, Any]) -> dict[str, Any]:
    """A row of Office-Home that prints 100 - UNK (``fpr_own``): OS*, UNK and HOS, and no accuracy without rejection."""
    if "fpr_own" not in entry:
        return entry
    star, unk = entry["ood_acc"], round(100 - entry["fpr_own"], 1)
    rest = {key: value for key, value in entry.items() if key != "ood_acc"}
    return {**rest, "os_star": star, "unk": unk, "hos": round(2 * star * unk / (star + unk), 1)}


def chosen_etas(protocol: str, semantic: str) -> tuple[float, float]:
    """(eta_l, eta_u) that the paper chose for a data set (tab:hyper_select)."""
    rows = [row for row in published("etas", semantic=semantic) if row["id"] == protocol]
    choice("semantic", semantic, sets_with_etas(protocol))
    return rows[0]["eta_l"], rows[0]["eta_u"]


def sets_with_etas(protocol: str) -> list[str]:
    """Semantic sets that the paper chose values for."""
    return [row["semantic"] for row in published("etas") if row["id"] == protocol]
