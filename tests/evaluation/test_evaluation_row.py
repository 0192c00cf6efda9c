"""One hand-made data set where every number of the table can be counted on fingers."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, roc_auc_score

from wildspec.errors import InputError
from wildspec.evaluation import Evaluation, evaluate_scores
from wildspec.evaluation.report import COLUMNS, TITLES, harmonic_mean, joint_score

# 20 ID scores 1..20 (95 % -> 19 are kept: threshold 19); 4 covariate; 5 unknown
ID = [float(i) for i in range(1, 21)]
COVARIATE = [18.0, 19.0, 22.0, 40.0]
UNKNOWN = [5.0, 19.0, 23.0, 50.0, 60.0]
LABELLED = {
    "id_scores": ID,
    "id_pred": [0] * 18 + [1, 1],
    "id_labels": [0] * 20,
    "covariate_scores": COVARIATE,
    "covariate_pred": [2, 1, 2, 2],
    "covariate_labels": [2, 2, 2, 2],
}


@pytest.mark.parametrize("given", [
    {"covariate_pred": [0]}, {"covariate_labels": [0]}, {"covariate_rejected": [True]}, {"semantic_rejected": [True]},
])  # fmt: skip
def test_what_belongs_to_scores_that_were_not_given_is_not_passed_over(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(given)).split('_')[0]}_scores"):
        evaluate_scores(id_scores=[1.0, 2.0], id_pred=[0, 1], id_labels=[0, 1], **given)


def test_every_number_by_hand() -> None:
    result = evaluate_scores(**LABELLED, semantic_scores=UNKNOWN)
    assert result.id_acc == 0.9
    assert result.ood_acc == 0.75
    assert result.fpr95_id == 2 / 5  # 5 and the tie at 19
    assert result.fpr95_ood == 16 / 20  # all 5 must be caught: threshold 5 rejects 5..20
    assert result.covariate_acceptance == 2 / 4  # 18 and 19
    # known = 24 samples, 95 % -> 23 of them: threshold 22; accepted unknown: 5 and 19
    assert result.fs_fpr95 == 2 / 5
    assert result.threshold == 19.0
    assert result.threshold_from == "id_95"
    assert result.id_kept == 0.95
    assert result.false_alarm_rate == pytest.approx(0.05)
    assert result.covariate_kept == 0.5
    assert result.detection_rate == 3 / 5
    # accepted known: ID 1..19 (18 right), covariate 18 (right) and 19 (wrong): 19 of 21
    assert result.accuracy_kept == pytest.approx(19 / 21)
    assert result.joint == pytest.approx(3 / (1 / 0.75 + 1 / 0.5 + 1 / 0.6))


def test_full_spectrum_differs_from_clean_and_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    known, covariate, unknown = rng.normal(size=80), rng.normal(size=60) + 1, rng.normal(size=40) + 2
    result = evaluate_scores(
        id_scores=known, id_pred=np.zeros(80, int), id_labels=np.zeros(80, int), covariate_scores=covariate,
        covariate_pred=np.zeros(60, int), covariate_labels=np.ones(60, int), semantic_scores=unknown,
    )  # fmt: skip
    assert result.auroc == pytest.approx(roc_auc_score([0] * 80 + [1] * 40, np.r_[known, unknown]))
    assert result.fs_auroc == pytest.approx(roc_auc_score([0] * 140 + [1] * 40, np.r_[known, covariate, unknown]))
    assert result.fs_auroc != result.auroc
    assert result.fs_fpr95 != result.fpr95_id
    assert result.ood_acc == 0.0
    assert result.joint == 0.0


def test_a_calibrated_threshold_moves_only_the_decision() -> None:
    plain = evaluate_scores(**LABELLED, semantic_scores=UNKNOWN)
    result = evaluate_scores(**LABELLED, semantic_scores=UNKNOWN, threshold=22.0)
    assert result.threshold_from == "calibrated"
    assert (result.id_kept, result.covariate_kept, result.detection_rate) == (1.0, 0.75, 0.6)
    assert result.accuracy_kept == pytest.approx(20 / 23)
    for name in ("id_acc", "ood_acc", "fpr95_id", "auroc", "aupr_in", "aupr_out", "fs_fpr95", "fs_auroc",
                 "covariate_acceptance"):  # fmt: skip
        assert getattr(result, name) == getattr(plain, name)


def test_nothing_accepted_has_no_accuracy() -> None:
    result = evaluate_scores(**LABELLED, semantic_scores=UNKNOWN, threshold=-1.0)
    assert result.accuracy_kept is None
    assert result.detection_rate == 1.0
    assert result.row()["Acc. kept ↑"] == "–"


def test_absent_sets_leave_none_behind() -> None:
    only_id = {key: value for key, value in LABELLED.items() if key.startswith("id")}
    result = evaluate_scores(**only_id)
    assert result.id_acc == 0.9
    empty = [name for name, value in result.to_json().items() if value is None]
    assert sorted(empty) == sorted([
        "ood_acc", "fpr95_id", "auroc", "aupr_in", "aupr_out", "fpr95_ood", "covariate_acceptance", "fs_fpr95",
        "fs_auroc", "covariate_kept", "detection_rate", "joint",
    ])  # fmt: skip
    with_unknown = evaluate_scores(**only_id, semantic_scores=UNKNOWN)
    assert with_unknown.fpr95_id == 0.4
    assert with_unknown.fs_fpr95 is None


def test_row_and_json() -> None:
    result = evaluate_scores(**LABELLED, semantic_scores=UNKNOWN)
    row = result.row()
    assert list(row) == [TITLES[name] for name in COLUMNS]
    assert row["ID-Acc ↑"] == "90.00"
    assert row["Joint ↑"] == "60.00"
    assert result.row(("auroc",)) == {"AUROC ↑": f"{100 * result.auroc:.2f}"}
    with pytest.raises(InputError, match="unknown column fpr"):
        result.row(("fpr",))
    assert Evaluation.from_json(json.loads(json.dumps(result.to_json()))) == result
    with pytest.raises(InputError, match=r"missing \['auroc'\]"):
        Evaluation.from_json({k: v for k, v in result.to_json().items() if k != "auroc"})


def test_predictions_and_labels_are_checked() -> None:
    def broken(**change: object) -> None:
        evaluate_scores(**(LABELLED | change), semantic_scores=UNKNOWN)  # type: ignore[arg-type]

    with pytest.raises(InputError, match="each of the 20 scores"):
        broken(id_pred=[0])
    with pytest.raises(InputError, match="covariate_scores need covariate_pred"):
        broken(covariate_pred=None)
    with pytest.raises(InputError, match="id_labels hold 20 unlabelled"):
        broken(id_labels=[-1] * 20)
    with pytest.raises(InputError, match="whole class numbers"):
        broken(id_pred=torch.zeros(20))


def test_accuracy_agrees_with_scikit_learn_for_tensors(rng: np.random.Generator) -> None:
    pred, true = (torch.from_numpy(rng.integers(0, 3, 50)) for _ in range(2))
    result = evaluate_scores(id_scores=torch.rand(50), id_pred=pred, id_labels=true)
    assert result.id_acc == pytest.approx(accuracy_score(true, pred))


def test_harmonic_mean() -> None:
    assert harmonic_mean(0.5, 1.0) == pytest.approx(2 / 3)
    assert harmonic_mean(0.0, 1.0) == 0.0
    assert harmonic_mean(0.5, 1.0, 0.25) == pytest.approx(3 / (2 + 1 + 4))
    assert joint_score(0.5, 1.0, 0.25) == pytest.approx(3 / 7)
    assert joint_score(0.5, None, 0.25) is None
