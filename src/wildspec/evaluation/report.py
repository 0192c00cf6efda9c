"""One row of a results table: the paper's four numbers, the full-spectrum ones, and the decision at a threshold."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from wildspec.checks import number
from wildspec.decision.scores import as_scores
from wildspec.errors import InputError
from wildspec.evaluation.metrics import separation, threshold_at


@dataclass(frozen=True)
class Evaluation:
    """All in [0, 1]; None where the samples it needs were not given. Known = ID + covariate; unknown = semantic OOD.

    The paper's numbers (clean ID against unknown):
      ``id_acc``, ``ood_acc``: accuracy on ID / covariate test samples, none rejected. ``fpr95_id``: share of unknown
      accepted by the threshold that keeps 95 % of ID. ``auroc``, ``aupr_in``, ``aupr_out``: ID against unknown.
      ``fpr95_ood``: the mirror image, share of ID rejected when 95 % of unknown are caught.
    Full spectrum (ID and covariate together against unknown):
      ``fs_fpr95`` (the threshold keeps 95 % of ID + covariate), ``fs_auroc``; ``covariate_acceptance``: share of
      covariate samples accepted by the 95 %-ID threshold.
    The decision at ``threshold`` (score > threshold is rejected; ``threshold_from``: "calibrated" when one was given,
    "id_95" for the 95 % quantile of these very ID test scores):
      ``false_alarm_rate``: ID rejected, ``id_kept`` = 1 - that, ``covariate_kept``, ``detection_rate``: unknown rejected,
      ``accuracy_kept``: share right among accepted known samples, ``joint``: harmonic mean of ``ood_acc``,
      ``covariate_kept`` and ``detection_rate``.
    """

    id_acc: float
    ood_acc: float | None
    fpr95_id: float | None
    auroc: float | None
    aupr_in: float | None
    aupr_out: float | None
    fpr95_ood: float | None
    covariate_acceptance: float | None
    fs_fpr95: float | None
    fs_auroc: float | None
    threshold: float
    threshold_from: str
    false_alarm_rate: float
    id_kept: float
    covariate_kept: float | None
    detection_rate: float | None
    accuracy_kept: float | None
    joint: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Evaluation":
        expected = {field.name for field in fields(cls)}
        if set(value) != expected:
            raise InputError(
                f"an evaluation must hold {len(expected)} fields; missing {sorted(expected - set(value))}, "
                f"unknown {sorted(set(value) - expected)}"
            )
        return cls(**value)

    def row(self, columns: tuple[str, ...] | None = None) -> dict[str, str]:
        """Cells for a table, in per cent with two digits: {"ID-Acc": "94.84", ...}; a dash where there is no number."""
        chosen = COLUMNS if columns is None else columns
        unknown = [name for name in chosen if name not in TITLES]
        if unknown:
            raise InputError(f"unknown column {', '.join(unknown)}; choose from {', '.join(TITLES)}")
        values = {name: getattr(self, name) for name in chosen}
        return {TITLES[name]: "–" if value is None else f"{100 * value:.2f}" for name, value in values.items()}


TITLES = {
    "id_acc": "ID-Acc ↑",
    "ood_acc": "OOD-Acc ↑",
    "fpr95_id": "FPR95 ↓",
    "auroc": "AUROC ↑",
    "aupr_in": "AUPR-in ↑",
    "aupr_out": "AUPR-out ↑",
    "fpr95_ood": "FPR95 (OOD caught) ↓",
    "covariate_acceptance": "Cov. accepted ↑",
    "fs_fpr95": "fs-FPR95 ↓",
    "fs_auroc": "fs-AUROC ↑",
    "false_alarm_rate": "False alarms ↓",
    "id_kept": "ID kept ↑",
    "covariate_kept": "Cov. kept ↑",
    "detection_rate": "Unknown rejected ↑",
    "accuracy_kept": "Acc. kept ↑",
    "joint": "Joint ↑",
}
COLUMNS = (
    "id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc", "covariate_acceptance",
    "id_kept", "covariate_kept", "detection_rate", "accuracy_kept", "joint",
)  # fmt: skip


def evaluate_scores(
    *,
    id_scores: Any,
    id_pred: Any,
    id_labels: Any,
    covariate_scores: Any = None,
    covariate_pred: Any = None,
    covariate_labels: Any = None,
    semantic_scores: Any = None,
    threshold: float | None = None,
    id_rejected: Any = None,
    covariate_rejected: Any = None,
    semantic_rejected: Any = None,
) -> Evaluation:
    """Every metric from scores (high = OOD) and predicted against true classes of the test samples.

    ``threshold``: the calibrated one; without it the decision is taken at the 95 % quantile of ``id_scores`` themselves.
    ``id_rejected`` and so on, (n,) True where rejected: the decision itself, of a model that does not take it by one
    threshold. Covariate and semantic samples may be absent; what needs them is None.
    """
    for name, scores, *beside in (
        ("covariate", covariate_scores, covariate_pred, covariate_labels, covariate_rejected),
        ("semantic", semantic_scores, semantic_rejected),
    ):
        if scores is None and any(value is not None for value in beside):
            raise InputError(f"{name}_scores are missing, so what came with them would not be looked at; give them too")
    known_id = as_scores("id_scores", id_scores)
    right_id = _right("id", id_pred, id_labels, len(known_id))
    at_95 = threshold_at(known_id, 0.95, name="id_scores")
    cut = at_95 if threshold is None else number("threshold", threshold)
    covariate = None if covariate_scores is None else as_scores("covariate_scores", covariate_scores)
    right_cov = None if covariate is None else _right("covariate", covariate_pred, covariate_labels, len(covariate))
    unknown = None if semantic_scores is None else as_scores("semantic_scores", semantic_scores)

    clean = {} if unknown is None else separation(known_id, unknown)
    known = known_id if covariate is None else np.concatenate([known_id, covariate])
    right = right_id if right_cov is None else np.concatenate([right_id, right_cov])
    full = {} if unknown is None or covariate is None else separation(known, unknown)
    out_id = _rejected("id", known_id, cut, id_rejected)
    out_cov = None if covariate is None else _rejected("covariate", covariate, cut, covariate_rejected)
    out_unknown = None if unknown is None else _rejected("semantic", unknown, cut, semantic_rejected)
    kept = ~(out_id if out_cov is None else np.concatenate([out_id, out_cov]))
    ood_acc = None if right_cov is None else float(right_cov.mean())
    detection = None if out_unknown is None else float(np.mean(out_unknown))
    covariate_kept = None if out_cov is None else float(np.mean(~out_cov))
    return Evaluation(
        id_acc=float(right_id.mean()),
        ood_acc=ood_acc,
        fpr95_id=clean.get("fpr95_id"),
        auroc=clean.get("auroc"),
        aupr_in=clean.get("aupr_in"),
        aupr_out=clean.get("aupr_out"),
        fpr95_ood=clean.get("fpr95_ood"),
        covariate_acceptance=None if covariate is None else float(np.mean(covariate <= at_95)),
        fs_fpr95=full.get("fpr95_id"),
        fs_auroc=full.get("auroc"),
        threshold=float(cut),
        threshold_from="id_95" if threshold is None else "calibrated",
        false_alarm_rate=float(np.mean(out_id)),
        id_kept=float(np.mean(~out_id)),
        covariate_kept=covariate_kept,
        detection_rate=detection,
        accuracy_kept=float(right[kept].mean()) if kept.any() else None,
        joint=joint_score(ood_acc, covariate_kept, detection),
    )


def joint_score(ood_acc: float | None, covariate_kept: float | None, detection_rate: float | None) -> float | None:
    """Harmonic mean of the three things asked of a decision: shifted known samples are recognised, they are kept, unknown
    ones are rejected. Whoever fails one fails; None where one of them is not known."""
    if ood_acc is None or covariate_kept is None or detection_rate is None:
        return None
    return harmonic_mean(ood_acc, covariate_kept, detection_rate)


def harmonic_mean(*values: float) -> float:
    """n / sum of 1 / value; 0 when any is 0."""
    return 0.0 if 0 in values else len(values) / sum(1 / value for value in values)


def _rejected(name: str, scores: np.ndarray, threshold: float, given: Any) -> np.ndarray:
    """(n,) True where a sample is rejected: as the model said, or where its score is above the threshold."""
    if given is None:
        return scores > threshold
    out = np.asarray(given)
    if out.dtype != bool or out.shape != scores.shape:
        raise InputError(
            f"{name}_rejected must be {len(scores)} values true or false, one per score, got {out.dtype} {out.shape}"
        )
    return out


def _right(name: str, predicted: Any, labels: Any, n: int) -> np.ndarray:
    """(n,) True where the predicted class is the true one."""
    if predicted is None or labels is None:
        raise InputError(f"{name}_scores need {name}_pred and {name}_labels beside them: one class number per sample")
    pred, true = (_whole(f"{name}_{what}", value) for what, value in (("pred", predicted), ("labels", labels)))
    if pred.shape != (n,) or true.shape != (n,):
        raise InputError(
            f"{name}_pred and {name}_labels must have one entry for each of the {n} scores, "
            f"got {pred.shape} and {true.shape}"
        )
    if (true < 0).any():
        raise InputError(f"{name}_labels hold {int((true < 0).sum())} unlabelled samples (-1); accuracy needs every label")
    return pred == true


def _whole(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must be whole class numbers, got {array.dtype}; give the argmax of the logits")
    return array
