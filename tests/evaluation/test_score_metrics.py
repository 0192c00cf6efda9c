"""Metrics against scikit-learn and against their definitions, ties everywhere."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from wildspec.errors import InputError, InputTypeError
from wildspec.evaluation import aupr_in, aupr_out, auroc, fpr95_id, fpr95_ood, separation, threshold_at
from wildspec.evaluation.metrics import required_count

tied = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=40)  # few values: almost all scores tie


def sklearn_fpr(positive: list[float], negative: list[float]) -> float:
    """First exact ROC point with true-positive rate >= 0.95; high = positive."""
    truth = [1] * len(positive) + [0] * len(negative)
    fpr, tpr, _ = roc_curve(truth, positive + negative, drop_intermediate=False)
    return float(fpr[np.argmax(tpr >= 0.95)])


@settings(deadline=None, max_examples=150)
@given(known=tied, unknown=tied)
def test_all_agree_with_scikit_learn_under_ties(known: list[float], unknown: list[float]) -> None:
    truth, scores = [0] * len(known) + [1] * len(unknown), known + unknown
    assert auroc(known, unknown) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    assert aupr_out(known, unknown) == pytest.approx(average_precision_score(truth, scores), abs=1e-12)
    inverted = [1 - t for t in truth], [-s for s in scores]
    assert aupr_in(known, unknown) == pytest.approx(average_precision_score(*inverted), abs=1e-12)
    assert fpr95_id(known, unknown) == pytest.approx(sklearn_fpr([-s for s in known], [-s for s in unknown]), abs=1e-12)
    assert fpr95_ood(known, unknown) == pytest.approx(sklearn_fpr(unknown, known), abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(known=tied, unknown=tied)
def test_auroc_is_the_share_of_ordered_pairs(known: list[float], unknown: list[float]) -> None:
    pairs = [(u > k) + 0.5 * (u == k) for u in unknown for k in known]
    assert auroc(known, unknown) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert auroc(unknown, known) == pytest.approx(1 - auroc(known, unknown), abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(known=tied, unknown=tied, level=st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.99]))
def test_fpr_by_trying_every_threshold(known: list[float], unknown: list[float], level: float) -> None:
    keeps = [t for t in sorted(known) if sum(k <= t for k in known) / len(known) >= level]
    assert threshold_at(known, level) == keeps[0]
    assert fpr95_id(known, unknown, level) == pytest.approx(sum(u <= keeps[0] for u in unknown) / len(unknown))
    catches = [t for t in sorted(unknown) if sum(u >= t for u in unknown) / len(unknown) >= level]
    assert fpr95_ood(known, unknown, level) == pytest.approx(sum(k >= catches[-1] for k in known) / len(known))


def test_a_hand_made_case() -> None:
    known = [float(i) for i in range(20)]  # 95 % of 20 are 19: the threshold is 18
    unknown = [17.5, 18.0, 18.5, 30.0]
    assert threshold_at(known) == 18.0
    assert fpr95_id(known, unknown) == 0.5  # the tie at 18 is accepted: counted against the detector
    assert fpr95_ood(known, unknown) == 2 / 20  # to catch 95 % of 4 all must be: threshold 17.5 rejects 18 and 19
    assert fpr95_id(known, unknown, 0.5) == 0.0


def test_the_two_fpr95_differ_and_ignore_monotone_maps(rng: np.random.Generator) -> None:
    known, unknown = rng.normal(size=400), rng.normal(size=300) * 3 + 2
    assert fpr95_id(known, unknown) != fpr95_ood(known, unknown)
    for metric in (auroc, aupr_in, aupr_out, fpr95_id, fpr95_ood):
        assert metric(np.exp(known), np.exp(unknown)) == metric(known, unknown)


def test_levels_are_the_decimals_they_are_written_as() -> None:
    wrong = [n for n in range(1, 3000) if required_count(0.95, n) != -(-95 * n // 100)]
    assert wrong == []
    assert any(int(np.ceil(0.07 * n)) != -(-7 * n // 100) for n in range(1, 3000))  # floating point would go wrong
    assert all(required_count(0.07, n) == -(-7 * n // 100) for n in range(1, 3000))


def test_scores_are_compared_in_float64() -> None:
    known, unknown = np.array([1.0, 1.0]), np.array([1.0 + 1e-12, 1.0 + 1e-12])  # equal in single precision
    assert auroc(known, unknown) == 1.0
    assert fpr95_id(known, unknown) == 0.0
    # a float32 and a float64 score: 0.1f > 0.1
    assert auroc(np.array([0.1]), torch.tensor([0.1])) == 1.0


def test_double_precision_tensors_keep_their_digits() -> None:
    """Scores of a tensor that would tie in single precision."""
    known = torch.tensor([1.0, 1.0 + 1e-12], dtype=torch.float64)
    assert auroc(known, known + 1e-9) == 1.0
    assert fpr95_id(known, known + 1e-9) == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_arrays_and_lists_are_the_same(dtype: torch.dtype, rng: np.random.Generator) -> None:
    known, unknown = (torch.from_numpy(rng.normal(size=50)).to(dtype) for _ in range(2))
    expected = separation(known.double().tolist(), unknown.double().numpy())
    assert separation(known, unknown.requires_grad_()) == expected
    assert expected["auroc"] == auroc(known, unknown)
    assert expected["aupr_in"] == aupr_in(known, unknown)
    assert expected["aupr_out"] == aupr_out(known, unknown)
    assert expected["fpr95_id"] == fpr95_id(known, unknown)
    assert expected["fpr95_ood"] == fpr95_ood(known, unknown)


def test_infinite_scores_rank_and_nan_is_an_error() -> None:
    assert auroc([-np.inf, 0.0], [np.inf, np.inf]) == 1.0
    assert fpr95_id([0.0, np.inf], [np.inf]) == 1.0
    with pytest.raises(InputError, match="scores_unknown hold 1 NaN among 2"):
        auroc([1.0], [np.nan, 2.0])


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"scores_known .*at least 1 .*got 0"):
        auroc([], [1.0])
    with pytest.raises(InputError, match=r"scores_known .*shape \(n,\), got \(1, 2\)"):
        fpr95_id([[1.0, 2.0]], [1.0])
    with pytest.raises(InputError, match="level must lie strictly"):
        fpr95_id([1.0], [1.0], 1.0)
    with pytest.raises(InputTypeError, match="must be numbers"):
        auroc(["a"], [1.0])
