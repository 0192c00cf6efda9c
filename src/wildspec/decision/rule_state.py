"""A fitted `Rule` and its `Thresholds` as arrays and JSON, and back: what a bundle holds. No pickle."""

from typing import Any

import numpy as np
from scipy import sparse

from wildspec.decision.bank import NEIGHBOR, ClassBank
from wildspec.decision.calibration import calibrate, samples_needed
from wildspec.decision.drawn import ShiftedPromise
from wildspec.decision.probe import LinearProbe
from wildspec.decision.rule import Rule, RuleSettings
from wildspec.decision.shift import Shift
from wildspec.decision.thresholds import Thresholds
from wildspec.errors import CheckpointError, InputError
from wildspec.graph.extension import SpectralExtension
from wildspec.graph.neighbors import NeighborGraph
from wildspec.graph.search import NeighborIndex
from wildspec.graph.wild_graph import GraphSettings, WildGraph

Arrays = dict[str, np.ndarray]


def rule_state(rule: Rule) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and a record from which `restore_rule` makes it again."""
    if not isinstance(rule.probe, LinearProbe) or not isinstance(rule.naming, LinearProbe):
        raise InputError("only classifier='auto' can be saved or sent: another classifier could travel as pickle alone")
    arrays: Arrays = {
        "labelled": rule.labelled, "labels": rule.labels, "bank.rows": rule.bank.rows, "bank.labels": rule.bank.labels,
        "probe.weights": rule.probe.weights, "probe.bias": rule.probe.bias,
        "naming.weights": rule.naming.weights, "naming.bias": rule.naming.bias,
        "shift.direction": rule.shift.direction, "shift.means": rule.shift.means,
        "centre": rule.centre, "spread": rule.spread, "usual": rule.usual,
        "reference": rule.reference, "wild.score": rule.wild_score, "wild.shifted": rule.wild_shifted,
    }  # fmt: skip
    settings = {name: getattr(rule.settings, name) for name in ("shift", "most", "seed")}
    record: dict[str, Any] = {
        "n_classes": rule.n_classes,
        "strength": rule.strength,
        "nearest": rule.bank.nearest,
        "settings": {**settings, "graph": dict(vars(rule.settings.graph))},
        "shift": {"offset": rule.shift.offset, "share": rule.shift.share, "p_value": rule.shift.p_value},
        "index": index_state("index", rule.index, arrays),
    }
    if rule.graph is not None:
        record["graph"] = graph_state(rule.graph, arrays)
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}, record


def restore_rule(arrays: Arrays, record: dict[str, Any]) -> Rule:
    """The rule that `rule_state` described; one that does not hang together is a CheckpointError."""
    graph_settings = GraphSettings.of(record["settings"]["graph"])
    rest = {name: record["settings"][name] for name in ("shift", "most", "seed")}
    settings = RuleSettings(graph=graph_settings, **rest)
    labelled, labels, n_classes = arrays["labelled"], arrays["labels"], int(record["n_classes"])
    if len(labelled) != len(labels) or len(labels) == 0 or labels.min() < 0 or labels.max() >= n_classes:
        raise CheckpointError("the model's labelled samples and their labels do not fit together; fit it again")
    width = labelled.shape[1]
    if arrays["bank.rows"].shape[1] != width or arrays["shift.means"].shape != (2, width):
        raise CheckpointError("the model's samples are not of one width; fit it again")
    whole = all(arrays[name].shape == (3,) for name in ("centre", "spread"))
    if not whole or len(arrays["bank.rows"]) != len(arrays["bank.labels"]):
        raise CheckpointError("the model's evidence or bank is incomplete; fit it again")
    shift = Shift(
        arrays["shift.direction"], float(record["shift"]["offset"]), arrays["shift.means"],
        float(record["shift"]["share"]), float(record["shift"]["p_value"]),
    )  # fmt: skip
    return Rule(
        labelled=labelled,
        labels=labels,
        n_classes=n_classes,
        index=restore_index(labelled, "index", record["index"], arrays, settings.seed),
        shift=shift,
        bank=ClassBank(arrays["bank.rows"], arrays["bank.labels"], n_classes, int(record.get("nearest", NEIGHBOR))),
        probe=LinearProbe(arrays["probe.weights"], arrays["probe.bias"]),
        naming=LinearProbe(arrays["naming.weights"], arrays["naming.bias"]),
        graph=restore_graph(record["graph"], arrays, graph_settings) if "graph" in record else None,
        centre=arrays["centre"],
        spread=arrays["spread"],
        usual=arrays["usual"],
        reference=arrays["reference"],
        wild_score=arrays["wild.score"],
        wild_shifted=arrays["wild.shifted"],
        settings=settings,
        strength=float(record.get("strength", 1.0)),
    )


def thresholds_state(thresholds: Thresholds) -> tuple[Arrays, dict[str, Any]]:
    """The calibration scores, and a record."""
    shifted = thresholds.shifted if np.isfinite(thresholds.shifted) else None
    record: dict[str, Any] = {
        "alpha": thresholds.alpha, "shifted": shifted, "unknown": thresholds.unknown,
        "interval": list(thresholds.interval), "per_class": thresholds.per_class,
        "apart": thresholds.apart, "in_turns": thresholds.in_turns,
    }  # fmt: skip
    arrays: Arrays = {"held.scores": thresholds.scores}
    if thresholds.labels is not None and thresholds.alarms is not None:
        arrays |= {"held.classes": thresholds.labels, "held.alarms": thresholds.alarms}
    if (promise := thresholds.promise) is not None:
        arrays |= {"promise.rows": np.array(list(promise.given), np.int64), "promise.scores": promise.scores}
        given = list(promise.given.values())
        record["promise"] = {
            "alpha": promise.alpha, "everywhere": promise.everywhere, "given": given, "skipped": list(promise.skipped),
        }  # fmt: skip
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}, record


def restore_thresholds(arrays: Arrays, record: dict[str, Any]) -> Thresholds:
    """The thresholds that `thresholds_state` described."""
    order = np.argsort(arrays["held.scores"], kind="stable")
    scores, alpha = arrays["held.scores"][order], float(record["alpha"])
    labels, alarms = (arrays[name][order] if name in arrays else None for name in ("held.classes", "held.alarms"))
    per_class = bool(record.get("per_class", False))
    if per_class and labels is None:
        raise CheckpointError("the model promises class by class and has no classes of its held-out samples; fit it again")
    calibration = None
    if len(scores) >= samples_needed(alpha):
        calibration = calibrate(scores, alpha, labels if per_class else None)
    shifted = -np.inf if record["shifted"] is None else float(record["shifted"])
    low, high = record["interval"]
    made = Thresholds(
        scores, calibration, alpha, shifted, float(record["unknown"]), (float(low), float(high)), labels, alarms,
        apart=bool(record.get("apart", False)), in_turns=bool(record.get("in_turns", False)),
    )
    return made.promising(_restore_promise(arrays, record["promise"])) if "promise" in record else made


def _restore_promise(arrays: Arrays, record: dict[str, Any]) -> ShiftedPromise:
    rows, values, alpha = arrays["promise.rows"].tolist(), np.sort(arrays["promise.scores"]), float(record["alpha"])
    skipped = tuple(record.get("skipped", ()))
    if len(values) < samples_needed(alpha, len(skipped)) or len({*rows, *skipped}) != len(record["given"]) + len(skipped):
        raise CheckpointError("the model's promise for shifted samples does not fit its answers; answer again")
    return ShiftedPromise(
        alpha, values, bool(record["everywhere"]), dict(zip(rows, record["given"], strict=True)), skipped
    )


def graph_state(graph: WildGraph, arrays: Arrays) -> dict[str, Any]:
    """Arrays of the graph go to ``arrays``; the rest is returned."""
    arrays |= {
        "graph.rows": graph.rows, "graph.scales": graph.neighbors.scales, "graph.radii": graph.neighbors.radii,
        "graph.mass": graph.neighbors.mass, "graph.coordinates": graph.extension.coordinates,
        "graph.source_mass": graph.extension.mass, "graph.filter": graph.filter_, "graph.embedding": graph.embedding,
        "graph.values": graph.values,
    }  # fmt: skip
    return {
        "recall": graph.neighbors.recall, "n_neighbors": graph.neighbors.n_neighbors,
        "index": index_state("graph.index", graph.neighbors.index, arrays),
    }  # fmt: skip


def restore_graph(record: dict[str, Any], arrays: Arrays, settings: GraphSettings) -> WildGraph:
    """A graph that places new points; it has no edges."""
    rows = arrays["graph.rows"]
    count = len(rows)
    index = restore_index(rows, "graph.index", record["index"], arrays, settings.seed)
    neighbors = NeighborGraph(
        kernel=sparse.csr_array((count, count), dtype=np.float64),
        mass=arrays["graph.mass"],
        scales=arrays["graph.scales"],
        radii=arrays["graph.radii"],
        n_neighbors=int(record["n_neighbors"]),
        mutual=False,
        index=index,
        recall=float(record["recall"]),
    )
    return WildGraph(
        rows=rows,
        neighbors=neighbors,
        extension=SpectralExtension(arrays["graph.coordinates"], arrays["graph.source_mass"], count),
        filter_=arrays["graph.filter"],
        embedding=arrays["graph.embedding"],
        values=arrays["graph.values"],
        settings=settings,
    )


def index_state(name: str, index: NeighborIndex, arrays: Arrays) -> dict[str, Any]:
    state = index.state()
    if "centroids" in state:
        arrays[f"{name}.centroids"] = state.pop("centroids")
    return state


def restore_index(rows: np.ndarray, name: str, record: dict[str, Any], arrays: Arrays, seed: int) -> NeighborIndex:
    built = dict(record)
    if f"{name}.centroids" in arrays:
        built["centroids"] = arrays[f"{name}.centroids"]
    return NeighborIndex(rows, metric="euclidean", method=built.pop("method"), seed=seed, built=built)
