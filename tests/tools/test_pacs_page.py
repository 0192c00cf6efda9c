"""The tables of PACS say what the records say, recounted by hand."""

from typing import Any

import pytest

import pacs_page
from wildspec.bench.pacs_embeddings import PAIRS
from wildspec.bench.pacs_tables import summarize, table


def record(method: str, pair: tuple[str, str], value: float, seed: int = 0) -> dict[str, Any]:
    names = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc", "covariate_acceptance", "id_kept",
             "covariate_kept", "detection_rate", "accuracy_kept", "joint")  # fmt: skip
    return {"mixture": "all", "source": pair[0], "target": pair[1], "seed": seed, "method": method,
            "metrics": dict.fromkeys(names, value)}  # fmt: skip


def test_ours_stands_beside_the_best_baseline_and_pairs_are_counted() -> None:
    records = [record("spectral", pair, 0.8 if i else 0.5) for i, pair in enumerate(PAIRS)]
    records += [record("lr", pair, 0.6) for pair in PAIRS] + [record("vim", pair, 0.7) for pair in PAIRS[:6]]
    text = pacs_page.classes_table({"runs": {"3": {"known": ["a", "b"], "records": records}}})
    # ours: (0.5 + 11 * 0.8) / 12; vim was measured on six pairs and is the better baseline on average
    assert "| a, b | **77.5**, 70.0 (ViM) | 11 of 12 | **77.5**, 70.0 (ViM) | **77.5**, 70.0 (ViM) | 77.5 | 77.5 |" in text


def test_methods_are_means_over_pairs_with_the_spread_over_seeds() -> None:
    records = [record("spectral", pair, 0.8 + 0.1 * seed, seed) for pair in PAIRS for seed in (0, 1)]
    records += [record("label-spreading-knn", pair, 0.75, seed) for pair in PAIRS for seed in (0, 1)]
    ours, other = table(summarize(records, "all"), pacs_page.COLUMNS, pacs_page.RANKED).splitlines()[2:]
    cell = "85.0 ± 7.1"  # standard deviation of 0.8 and 0.9
    assert ours == "| **SpectralClassifier** | " + " | ".join([f"**{cell}**"] * 3 + [cell] * 4) + " |"
    assert other.startswith("| LabelSpreading, knn (wild) | 75.0 ± 0.0 |")


def test_aims_compare_with_the_best_baseline() -> None:
    values = {"spectral": 0.9, "lr": 0.8, "vim": 0.86}
    records = [record(name, pair, value) for pair in PAIRS for name, value in values.items()]
    text = pacs_page.aims_table(records, "all")
    assert "| FPR95 at most 2 % | 90.0 | 2.0 | **no** |" in text
    assert "| OOD accuracy above the best baseline | 90.0 | 86.0 (ViM) | yes |" in text
    assert "| fs-AUROC at least 5 points above the best baseline | 90.0 | 86.0 (ViM) | **no** |" in text
    assert "of 12 pairs | 12 | 10 | yes |" in text


def test_leads_are_points_above_the_best_baseline() -> None:
    worlds = [{"spectral": 0.9, "lr": 0.8, "vim": 0.86}, {"spectral": 0.7, "lr": 0.75, "vim": 0.6}]
    runs = [{"records": [record(name, pair, v) for pair in PAIRS for name, v in values.items()]} for values in worlds]
    assert pacs_page.leads(runs) == pytest.approx([4, -5])
