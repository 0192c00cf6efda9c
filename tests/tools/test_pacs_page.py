"""The tables of PACS say what the records say, recounted by hand."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import pacs_page
from wildspec.bench.pacs_embeddings import PAIRS


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
    ours, other = pacs_page.methods_table(records).splitlines()[2:]
    cell = "85.0 ± 7.1"  # standard deviation of 0.8 and 0.9
    assert ours == "| **SpectralClassifier** | " + " | ".join([f"**{cell}**"] * 3 + [cell] * 4) + " |"
    assert other.startswith("| LabelSpreading, knn (wild) | 75.0 ± 0.0 |")


def test_rank_correlation_is_spearmans_with_ties() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, 30), rng.integers(0, 5, 30)
    assert pacs_page.rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)
