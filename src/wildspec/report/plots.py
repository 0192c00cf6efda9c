"""The report's plots: each a function of the facts, each with the numbers behind it."""

import itertools

import numpy as np

from wildspec.decision.verdicts import REJECTED_NAME
from wildspec.evaluation import calibrate
from wildspec.report.facts import FIRM, Facts, Group
from wildspec.report.maps import Maps
from wildspec.report.svg import BOTTOM, HEIGHT, TOP, Plot, number, percent, tag

FEWEST_BINS, MOST_BINS = 12, 40
ROW, ROW_NAMES, LETTER = 52, 124, 8  # height of a group's row; least width of the names before it, and of one letter
ALPHAS = np.round(np.arange(0.01, 0.305, 0.01), 2)
RELIABILITY_BINS = 10
MAP_SIDE = 520
MAP_MARGIN = 16
PALETTE = 10  # class colours in the style sheet; more classes share them


def distributions(facts: Facts) -> str:
    """Share of each group's samples by score, a row for each group on one scale, with the threshold across them. Where
    samples have thresholds of their own: by score less threshold, so that 0 divides kept from rejected in every group."""
    groups, own = list(facts.groups.values()), facts.own_limits
    values = {group.key: group.margins(facts.threshold) if own else group.scores for group in groups}
    threshold = 0.0 if own else facts.threshold
    joined = np.concatenate(list(values.values()))
    low, high = float(joined.min()), float(np.quantile(joined, 0.998))
    low, high = min(low, threshold), max(high, threshold)
    margin = 0.03 * (high - low) or 0.5
    bins = int(np.clip(2 * np.sqrt(min(len(group) for group in groups)), FEWEST_BINS, MOST_BINS))
    edges = np.linspace(low - margin, high + margin, bins + 1)
    middle = np.abs(edges - threshold).argmin()
    edges += threshold - edges[middle]  # no bar lies on both sides of the threshold
    edges[middle] = threshold
    heights = {g.key: _counts(values[g.key], edges) / len(g) for g in groups}
    highest = max(float(h.max()) for h in heights.values())
    plot = Plot(
        (edges[0], edges[-1]), (0, len(groups) + 0.25),
        "OOD score less its own threshold" if own else "OOD score (high = unknown)", "", _say_distributions(facts),
        height=max(HEIGHT, ROW * len(groups) + TOP + BOTTOM), y_ticks=False,
        left=max(ROW_NAMES, 7 + LETTER * max(len(group.title) for group in groups)),
    )  # fmt: skip
    for row, group in enumerate(reversed(groups)):
        plot.row(row, group.title, f"{len(group):,}")
        plot.line(edges[[0, -1]], [row, row], "base")
        plot.steps(edges, heights[group.key] / highest * 0.92, f"g-{group.key}", row)
    plot.vertical(threshold, "threshold" if own else f"threshold {threshold:.3g}")
    said = "score less threshold" if own else "score"
    tips = [
        f"{said} {left:.3g} to {right:.3g}: " + ", ".join(f"{g.title} {percent(heights[g.key][i])}" for g in groups)
        for i, (left, right) in enumerate(itertools.pairwise(edges.tolist()))
    ]
    plot.strips(edges, tips)
    return plot.render()


def _counts(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values lie in each (edge, next edge]: a sample at the threshold is kept. The outer ones hold all beyond."""
    return np.histogram(-np.clip(values, edges[0], edges[-1]), -edges[::-1])[0][::-1]


def trade_off(facts: Facts) -> tuple[str, str]:
    """(title, drawing): the ROC curve of the score where unknown samples were given, else how much of the wild pool is
    rejected with each threshold; where samples have thresholds of their own, with all of them moved by as much. The dot:
    the decisions as they were taken."""
    known = facts.known
    against = facts.groups.get("semantic") or facts.groups.get("wild")
    if against is None:
        return "", ""
    is_roc = against.key == "semantic"
    plot = _shares(
        f"{known.title}: rejected", f"{against.title}: rejected",
        f"Share of {against.title} samples rejected against share of {known.title} samples rejected, for every threshold",
    )  # fmt: skip
    pairs = [(known, "g-wild" if not is_roc else "g-semantic")]
    if is_roc and "covariate" in facts.groups:
        pairs.append((facts.groups["covariate"], "g-covariate"))
    for group, cls in pairs:
        some, others = (one.scores if is_roc else one.margins(facts.threshold) for one in (group, against))
        plot.line(*_curve(some, others), cls)
    x, y = _rejected(known), _rejected(against)
    plot.dot(x, y, "here", f"as decided: {percent(x)} of {known.title}, {percent(y)} of {against.title} rejected", 6.0)
    return ("ROC: unknown against known" if is_roc else "What each threshold would reject"), plot.render()


def calibration_plot(facts: Facts) -> str:
    """Realized false alarms among known samples against the nominal rate, with the exact 95 % band. Counted are scores
    above the conformal threshold, which is what was promised: a threshold of a sample's own is never below it."""
    calibration, known = facts.about.calibration, facts.known
    if calibration is None or not facts.fresh:  # on its own calibration set a threshold is right by construction
        return ""
    usable = [a for a in ALPHAS.tolist() if a * (calibration.n + 1) >= 1]
    if not usable:
        return ""
    ready = [calibrate(calibration.scores, alpha, calibration.labels) for alpha in usable]
    realized = np.array([np.mean(known.scores > one.threshold) for one in ready])
    bands = np.array([one.interval(test_size=len(known)) for one in ready])
    top = max(0.32, float(realized.max()) * 1.1, float(bands.max()) * 1.02)
    plot = Plot(
        (0, 0.3), (0, min(1.0, top)), "false alarms asked for", "false alarms found",
        f"Realized against nominal false alarms among {len(known)} {known.title} samples",
        x_format=percent, y_format=percent,
    )  # fmt: skip
    xs = np.array(usable)
    plot.band(xs, bands[:, 0], bands[:, 1], "g-validation")
    plot.line([0, 0.3], [0, 0.3], "guide")
    plot.line(xs, realized, "g-validation")
    for alpha, rate, (low, high) in zip(usable, realized.tolist(), bands.tolist(), strict=True):
        mine = abs(alpha - calibration.alpha) < 1e-9
        expected = f"95 % of calibration sets give {percent(low)} to {percent(high)}"
        tip = f"nominal {percent(alpha)}: realized {percent(rate)}; {expected}"
        plot.dot(alpha, rate, "here" if mine else "small g-validation", tip, 6.0 if mine else 2.5)
    return plot.render()


def reliability(facts: Facts) -> tuple[str, float]:
    """(drawing, expected calibration error): share of right classes against the probability given, in ten bins; nothing
    where no probability of samples that nothing was learned from is at hand, or of too few to fill the bins."""
    known = facts.known
    if known.confidence is None or known.labels is None or len(known) < FIRM or not facts.fresh:
        return "", 0.0
    right = known.labels == known.likely
    places = np.minimum((known.confidence * RELIABILITY_BINS).astype(np.int64), RELIABILITY_BINS - 1)
    plot = _shares(
        "probability of the class given", "had that class",
        f"Share of right classes against the probability given, {len(known)} {known.title} samples",
    )  # fmt: skip
    error, marks = 0.0, []
    for place in np.unique(places).tolist():
        inside = places == place
        sure, share, count = float(known.confidence[inside].mean()), float(right[inside].mean()), int(inside.sum())
        error += count / len(known) * abs(share - sure)
        marks.append((sure, share, f"{count:,} samples, {percent(sure)} sure on average: {percent(share)} right"))
    plot.line([x for x, _, _ in marks], [y for _, y, _ in marks], "g-validation")
    for x, y, tip in marks:
        plot.dot(x, y, "small g-validation", tip, 4.0)
    return plot.render(), error


def _shares(x_label: str, y_label: str, label: str) -> Plot:
    """One share against another, with the line on which they are equal."""
    plot = Plot((0, 1), (0, 1), x_label, y_label, label, x_format=percent, y_format=percent)
    plot.line([0, 1], [0, 1], "guide")
    return plot


def spectrum(maps: Maps, classes: int) -> str:
    """Eigenvalues of the neighbour graph, largest first; the first C marked."""
    values = maps.spectrum
    plot = Plot(
        (0.25, len(values) + 0.75), (0, 1.05), "number", "eigenvalue",
        "Largest eigenvalues of the neighbour graph: " + ", ".join(f"{v:.2f}" for v in values[:10]),
        x_format=lambda v: f"{v:g}" if v == int(v) else "",
    )  # fmt: skip
    for i, value in enumerate(values.tolist(), start=1):
        plot.bar(i, 0.7, value, "bar first" if i <= classes else "bar", f"eigenvalue {i}: {value:.3f}")
    return plot.render()


def sample_map(facts: Facts, maps: Maps) -> str:
    """All shown samples on the plane; both maps' places travel with each mark."""
    classes = facts.about.classes
    order = {name: i % PALETTE for i, name in enumerate(classes)}
    marks = []
    span = MAP_SIDE - 2 * MAP_MARGIN
    places = {key: MAP_MARGIN + span * np.column_stack([xy[:, 0], 1 - xy[:, 1]])
              for key, xy in (("tsne", maps.tsne), ("spectral", maps.spectral))}  # fmt: skip
    # Labelled samples lie below, rejected ones on top.
    depth = {"labelled": 0, "kept": 1, "rejected": 2}
    for i in sorted(range(len(facts.samples)), key=lambda i: depth[facts.samples[i].kind]):
        sample = facts.samples[i]
        colour = "rejected" if sample.kind == "rejected" else f"c{order[sample.likely]}"
        (x, y), (sx, sy) = places["tsne"][i], places["spectral"][i]
        marks.append(
            tag("circle", cx=float(x), cy=float(y), r=4.0 if sample.kind == "labelled" else 4.5,
                class_=f"pt {sample.kind} {colour}", data_i=i, data_s=f"{number(sx)} {number(sy)}")
        )  # fmt: skip
    return tag(
        "svg", "".join(marks), viewBox=f"0 0 {MAP_SIDE} {MAP_SIDE}", class_="map", role="application", tabindex="0",
        id="map",
        aria_label=f"Map of {len(facts.samples)} samples. Arrow keys move between samples, Enter opens one.",
    )  # fmt: skip


def confusion(facts: Facts) -> list[list[int]]:
    """Rows: true class; columns: predicted class among kept samples, then rejected."""
    known = facts.known
    assert known.labels is not None
    classes = len(facts.about.classes)
    table = np.zeros((classes, classes + 1), dtype=int)
    column = np.where(known.rejected, classes, known.likely)
    np.add.at(table, (known.labels, column), 1)
    return table.tolist()


def confusion_columns(facts: Facts) -> list[str]:
    return [*facts.about.classes, REJECTED_NAME]


def _curve(known: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rejected shares (known, other) for every threshold, at most some hundred points, corners included."""
    from sklearn.metrics import roc_curve

    x, y, _ = roc_curve(np.repeat([0, 1], [len(known), len(other)]), np.concatenate([known, other]), drop_intermediate=False)
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), 300)).astype(int))
    return x[some], y[some]


def _rejected(group: Group) -> float:
    return float(np.mean(group.rejected))


def _say_distributions(facts: Facts) -> str:
    parts = [f"{group.title}: {percent(_rejected(group))} rejected" for group in facts.groups.values()]
    where = "each sample at its own threshold" if facts.own_limits else f"the threshold at {facts.threshold:.3g}"
    return f"Score distributions with {where}; " + "; ".join(parts)
