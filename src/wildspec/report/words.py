"""The report in plain words: what the model found, what it promises, what to do next."""

from typing import Any

import numpy as np

from wildspec.evaluation.report import harmonic_mean
from wildspec.report.facts import Facts
from wildspec.report.svg import percent


def headline(facts: Facts) -> str:
    """One sentence about the wild pool, or about the model where there is none."""
    classes = len(facts.model.fitted_.classes)
    wild = facts.groups.get("wild")
    if wild is None:
        return f"A model of {classes} classes, fitted without wild images."
    rejected = int(wild.rejected.sum())
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
    kept = float(np.mean(~known.rejected))
    alpha = facts.model.fitted_.decision.alpha
    said.append(
        f"Of {len(known):,} labelled images that nothing was learned from, {percent(kept)} were kept "
        f"(promised on average: at least {percent(1 - alpha)})."
    )
    if known.labels is not None:
        right = known.likely == known.labels
        if kept:
            said.append(f"Among those kept, {percent(float(right[~known.rejected].mean()))} were given the right class.")
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
    known = facts.known
    kept = ~known.rejected
    rows: list[tuple[str, str, str]] = []
    if known.labels is not None:
        right = known.likely == known.labels
        rows.append(("Accuracy", percent(float(right.mean())), f"{known.title} ({len(known):,}), nothing rejected"))
        if kept.any():
            rows.append(("Accuracy among kept", percent(float(right[kept].mean())), "right class, of those kept"))
    rows.append(("Kept", percent(float(kept.mean())), f"{known.title}: taken for one of the classes"))
    wild = facts.groups.get("wild")
    if wild is not None:
        share = percent(float(wild.rejected.mean()))
        rows.append(("Wild rejected", share, f"of {len(wild):,} wild images of unknown composition"))
    return rows + _evaluation_rows(facts)


def _evaluation_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """What labelled test sets add: first the decisions as they were taken, then the ranking at any threshold."""
    found: Any = facts.evaluation
    if found is None:
        return []
    shifted, unknown = facts.groups.get("covariate"), facts.groups.get("semantic")
    kept = None if shifted is None else float(np.mean(~shifted.rejected))
    caught = None if unknown is None else float(np.mean(unknown.rejected))
    joint = None if found.ood_acc is None or caught is None else harmonic_mean(found.ood_acc, caught)
    rows = [
        ("Accuracy under shift", found.ood_acc, "known, shifted; nothing rejected"),
        ("Shifted kept", kept, "known, shifted: taken for one of the classes"),
        ("Unknown rejected", caught, "unknown: taken for none of the classes"),
        ("Joint", joint, "harmonic mean of accuracy under shift and unknown rejected"),
        ("FPR95", found.fpr95_id, "unknown accepted when 95 % of clean known are kept; lower is better"),
        ("AUROC", found.auroc, "clean known against unknown"),
        ("FPR95, full spectrum", found.fs_fpr95, "the same with shifted known images counted as known"),
        ("AUROC, full spectrum", found.fs_auroc, "clean and shifted known against unknown"),
    ]
    return [(name, percent(value), meaning) for name, value, meaning in rows if value is not None]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
