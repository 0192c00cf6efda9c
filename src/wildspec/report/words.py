"""The report in plain words: what the model found, what it promises, what to do next."""

from typing import Any

import numpy as np

from wildspec.report.facts import Facts
from wildspec.report.svg import percent


def headline(facts: Facts) -> str:
    """One sentence about the wild pool, or about the model where there is none."""
    classes = len(facts.model.fitted_.classes)
    wild = facts.groups.get("wild")
    if wild is None:
        return f"A model of {classes} classes, fitted without wild images."
    rejected = int(np.sum(wild.scores > facts.threshold))
    if rejected == 0:
        return f"All {len(wild):,} wild images look like one of your {classes} classes."
    look = "looks" if rejected == 1 else "look"
    return f"Of {len(wild):,} wild images {rejected:,} {look} like none of your {classes} classes."


def advice(facts: Facts) -> list[str]:
    """A few sentences that follow from the numbers."""
    said = []
    if facts.review:
        these = "this one" if len(facts.review) == 1 else f"these {len(facts.review)}"
        said.append(f"Review {these} first, the furthest from everything the model knows.")
    if facts.borderline:
        said.append(f"Then the {len(facts.borderline)} borderline ones: a small change of the threshold decides them.")
    known = facts.known
    kept = float(np.mean(known.scores <= facts.threshold))
    alpha = facts.model.fitted_.decision.alpha
    said.append(
        f"Of {len(known):,} labelled images that nothing was learned from, {percent(kept)} were kept "
        f"(promised on average: at least {percent(1 - alpha)})."
    )
    if known.labels is not None:
        right = known.likely == known.labels
        inside = known.scores <= facts.threshold
        if inside.any():
            said.append(f"Among those kept, {percent(float(right[inside].mean()))} were given the right class.")
    if len(known) < 100:
        said.append(
            f"{len(known)} images are few: such shares are uncertain by some points. "
            "More labelled images, or --held-out, make them firmer."
        )
    return said


def model_rows(facts: Facts) -> list[tuple[str, str]]:
    """What the model is: name and value."""
    fitted, record = facts.model.fitted_, facts.model.record_
    data, training, made = record["data"], record["training"], record["provenance"]
    parts = data["labelled"]["split"]["parts"]
    weights = sum(p.numel() for p in fitted.model.parameters())
    network = fitted.network.get("name") or fitted.network.get("foreign")
    stages = ", ".join(f"{s['name']} {s['epochs']:.3g} epochs" for s in training["stages"])
    rows = [
        ("Classes", ", ".join(f"{name} ({count:,})" for name, count in data["labelled"]["per_class"].items())),
        ("Labelled images", f"{data['labelled']['count']:,}: " + ", ".join(f"{p['count']:,} {n}" for n, p in parts.items())),
        ("Wild images", f"{data['wild']['count']:,}" if data["wild"] else "none"),
        ("Network", f"{network}, {weights:,} weights, {fitted.preprocess.size} px input"),
        ("Training", f"{training['method']} ({stages}), {_duration(training['seconds'])}, seed {training['seed']}"),
        ("Detector", f"{fitted.decision.detector!r}"),
        ("Threshold", fitted.decision.calibration.describe()),
        ("Made", f"{made['created']}, wildspec {made['versions']['wildspec']}, torch {made['versions'].get('torch', '?')}"),
    ]
    unreadable = data["labelled"]["unreadable"] + (data["wild"]["unreadable"] if data["wild"] else 0)
    if unreadable:
        rows.insert(3, ("Unreadable", f"{unreadable:,} files were left out"))
    return rows


def metric_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """Name, value, what it means."""
    known, threshold = facts.known, facts.threshold
    kept = known.scores <= threshold
    rows: list[tuple[str, str, str]] = []
    if known.labels is not None:
        right = known.likely == known.labels
        rows.append(("Accuracy", percent(float(right.mean())), f"{known.title} ({len(known):,}), nothing rejected"))
        if kept.any():
            rows.append(("Accuracy among kept", percent(float(right[kept].mean())), "right class, of those kept"))
    rows.append(("Kept", percent(float(kept.mean())), f"{known.title}: score at or below the threshold"))
    wild = facts.groups.get("wild")
    if wild is not None:
        share = float(np.mean(wild.scores > threshold))
        rows.append(("Wild rejected", percent(share), f"of {len(wild):,} wild images of unknown composition"))
    return rows + _evaluation_rows(facts)


def _evaluation_rows(facts: Facts) -> list[tuple[str, str, str]]:
    found: Any = facts.evaluation
    if found is None:
        return []
    meanings = {
        "ood_acc": ("Accuracy under shift", "known, shifted; nothing rejected"),
        "covariate_kept": ("Shifted kept", "known, shifted: score at or below the threshold"),
        "detection_rate": ("Unknown rejected", "unknown: score above the threshold"),
        "fpr95_id": ("FPR95", "unknown accepted when 95 % of clean known are kept; lower is better"),
        "auroc": ("AUROC", "clean known against unknown"),
        "fs_fpr95": ("FPR95, full spectrum", "the same with shifted known images counted as known"),
        "fs_auroc": ("AUROC, full spectrum", "clean and shifted known against unknown"),
        "joint": ("Joint", "harmonic mean of accuracy under shift and unknown rejected"),
    }
    return [
        (name, percent(getattr(found, key)), meaning)
        for key, (name, meaning) in meanings.items()
        if getattr(found, key) is not None
    ]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
