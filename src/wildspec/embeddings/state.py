"""A fitted `SpectralClassifier` as arrays and JSON, and back: what a bundle holds. No pickle."""

import copy
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from wildspec.decision.calibration import samples_needed
from wildspec.embeddings.evidence import Bank, Ranks, Tail
from wildspec.embeddings.joint import JointModel, JointSettings, Wild
from wildspec.embeddings.linear import LinearProbe
from wildspec.embeddings.shift import Shift
from wildspec.embeddings.thresholds import Thresholds
from wildspec.embeddings.wild_graph import GraphSettings, WildGraph
from wildspec.errors import CheckpointError, InputError
from wildspec.evaluation import calibrate
from wildspec.graph.extension import SpectralExtension
from wildspec.graph.neighbors import NeighborGraph, Part
from wildspec.graph.search import NeighborIndex

GONE = ("tune",)  # parameters that older bundles name
Arrays = dict[str, np.ndarray]
KIND = "embeddings"
TENSORS = "embeddings.safetensors"


def write(estimator: Any, path: str | PathLike[str]) -> None:
    """The estimator as a bundle at ``path``."""
    from wildspec.bundle import write_bundle

    arrays, record = to_state(estimator)
    write_bundle(path, KIND, record, {TENSORS: arrays})


def read(cls: type, stored: Any) -> Any:
    """The estimator in a verified bundle. Where it computes is for whoever loads it to say, not for the bundle. It is tried
    out on one of its own samples: what does not hang together shows now, not at the first decision."""
    arrays = {name: tensor.numpy() for name, tensor in stored.tensors(TENSORS).items()}
    record = copy.deepcopy(stored.model)
    record["params"]["engine"], record["model"]["settings"]["graph"]["engine"] = "auto", "local"
    try:
        found = from_state(cls, arrays, record)
        found._settings()
        score = found.model_.decide(arrays["labelled"][:1]).score
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"bundle {stored.path} is refused: its parts do not fit together ({_line(error)})") from error
    if not np.isfinite(score).all():
        raise CheckpointError(f"bundle {stored.path} is refused: it scores its own samples {score[0]}; fit it again")
    return found


def to_state(estimator: Any) -> tuple[Arrays, dict[str, Any]]:
    """Everything that decisions, explanations and ``partial_fit`` need."""
    model, thresholds = estimator.model_, estimator._thresholds
    arrays, described = model_state(model)
    params = estimator.get_params(deep=False)
    if not isinstance(params["random_state"], (int, type(None))):
        params["random_state"] = None
    classes = estimator.classes_
    record: dict[str, Any] = {
        "estimator": "SpectralClassifier",
        "params": {name: _plain(value) for name, value in params.items()},
        "classes": [_plain(value) for value in classes.tolist()],
        "classes_kind": classes.dtype.kind,
        "n_features": int(estimator.n_features_in_),
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "scale": estimator._scale,
        "seed": estimator._seed,
        "n_wild": estimator.n_wild_,
        "alpha": thresholds.alpha,
        "mode": thresholds.mode,
        "shifted_threshold": thresholds.shifted,
        "unknown": thresholds.unknown,
        "model": described,
    }
    arrays |= {"places": estimator._rows, "held": estimator._held_rows, "held_scores": thresholds.scores}
    if estimator._centre.any():
        arrays["centre"] = estimator._centre
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}, record


def model_state(model: JointModel) -> tuple[Arrays, dict[str, Any]]:
    """The model alone: what decisions need."""
    if not isinstance(model.probe, LinearProbe) or not isinstance(model.naming, LinearProbe):
        raise InputError("only classifier='auto' can be saved or sent: another classifier could travel as pickle alone")
    arrays: Arrays = {
        "labelled": model.labelled, "labels": model.labels,
        "probe.weights": model.probe.weights, "probe.bias": model.probe.bias,
        "naming.weights": model.naming.weights, "naming.bias": model.naming.bias,
    }  # fmt: skip
    record: dict[str, Any] = {
        "n_classes": model.n_classes,
        "far": [model.far.step, model.far.width],
        "settings": _settings(model.settings),
        "index": _index_state("index", model.index, arrays),
    }
    if model.wild is not None:
        record["wild"] = _wild_state(model.wild, arrays)
    return arrays, record


def from_state(cls: type, arrays: Arrays, record: dict[str, Any]) -> Any:
    """The fitted estimator again; a state that does not hang together is a CheckpointError."""
    try:
        return _restore(cls, arrays, record)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the model's state is incomplete or inconsistent ({error}); fit it again") from error


def _restore(cls: type, arrays: Arrays, record: dict[str, Any]) -> Any:
    params = {name: value for name, value in record["params"].items() if name not in GONE}
    estimator = cls(**params)
    classes = np.array(record["classes"])
    kind = record["classes_kind"]
    estimator.classes_ = classes if classes.dtype.kind == kind else classes.astype(np.uint64 if kind == "u" else kind)
    estimator.n_features_in_ = int(record["n_features"])
    if record["feature_names"]:
        estimator.feature_names_in_ = np.array(record["feature_names"], dtype=object)
    estimator._scale, estimator._seed = float(record["scale"]), int(record["seed"])
    estimator._centre = arrays.get("centre", np.zeros(estimator.n_features_in_, np.float32))
    estimator.n_wild_ = int(record["n_wild"])
    estimator._rows, estimator._held_rows = arrays["places"], arrays["held"]
    estimator.model_ = restore_model(arrays, record["model"])
    if estimator.model_.n_classes != len(classes) or estimator.model_.labelled.shape[1] != estimator.n_features_in_:
        raise CheckpointError("the model's classes or features are not those of its samples; fit it again")
    scores, alpha = np.sort(arrays["held_scores"]), float(record["alpha"])
    calibration = calibrate(scores, alpha) if len(scores) >= samples_needed(alpha) else None
    thresholds = Thresholds(
        scores, calibration, alpha, float(record["shifted_threshold"]), float(record["unknown"]), record["mode"]
    )
    estimator._decide_with(thresholds, warn=False)
    return estimator


def restore_model(arrays: Arrays, record: dict[str, Any]) -> JointModel:
    """The model that ``model_state`` described."""
    settings = _restore_settings(record["settings"])
    labelled, labels, n_classes = arrays["labelled"], arrays["labels"], int(record["n_classes"])
    if len(labelled) != len(labels) or len(labels) == 0 or labels.min() < 0 or labels.max() >= n_classes:
        raise CheckpointError("the model's labelled samples and their labels do not fit together; fit it again")
    return JointModel(
        labelled=labelled,
        labels=labels,
        n_classes=n_classes,
        index=_restore_index(labelled, "index", record["index"], arrays, settings.seed),
        probe=LinearProbe(arrays["probe.weights"], arrays["probe.bias"]),
        naming=LinearProbe(arrays["naming.weights"], arrays["naming.bias"]),
        far=Tail(*record["far"]),
        wild=_restore_wild(record["wild"], arrays, settings, n_classes) if "wild" in record else None,
        settings=settings,
    )


def _wild_state(wild: Wild, arrays: Arrays) -> dict[str, Any]:
    graph = wild.graph
    arrays |= {
        "shift.direction": wild.shift.direction, "shift.means": wild.shift.means,
        "shift.deviations": wild.shift.deviations, "graph.rows": graph.rows, "graph.scales": graph.neighbors.scales,
        "graph.radii": graph.neighbors.radii, "graph.mass": graph.neighbors.mass,
        "graph.coordinates": graph.extension.coordinates, "graph.source_mass": graph.extension.mass,
        "graph.filter": graph.filter_, "graph.embedding": graph.embedding, "graph.values": graph.values,
        "bank.rows": wild.bank.rows, "bank.labels": wild.bank.labels, "ranks.singles": wild.ranks.singles,
        "ranks.sums": wild.ranks.sums, "adapted.weights": wild.probe.weights, "adapted.bias": wild.probe.bias,  # type: ignore[union-attr]
        "attributed": wild.attributed, "reference": wild.reference,
    }  # fmt: skip
    return {
        "offset": wild.shift.offset, "share": wild.shift.share, "stray": wild.shift.stray,
        "kappa": wild.shift.kappa,
        "far": [wild.far.step, wild.far.width], "long": [wild.long.step, wild.long.width],
        "known": wild.known, "recall": graph.neighbors.recall,
        "n_neighbors": graph.neighbors.n_neighbors, "scaling": graph.neighbors.scaling, "mutual": graph.neighbors.mutual,
        "index": _index_state("graph.index", graph.neighbors.parts[0].index, arrays),
    }  # fmt: skip


def _restore_wild(record: dict[str, Any], arrays: Arrays, settings: JointSettings, n_classes: int) -> Wild:
    rows = arrays["graph.rows"]
    count = len(rows)
    neighbors = NeighborGraph(
        kernel=sparse.csr_array((count, count), dtype=np.float64),  # a loaded graph places new points; it has no edges
        mass=arrays["graph.mass"],
        scales=arrays["graph.scales"],
        radii=arrays["graph.radii"],
        n_neighbors=int(record["n_neighbors"]),
        scaling=record["scaling"],
        mutual=bool(record["mutual"]),
        parts=(Part(None, np.arange(count), _restore_index(rows, "graph.index", record["index"], arrays, settings.seed)),),
        recall=float(record["recall"]),
    )
    graph = WildGraph(
        rows=rows,
        neighbors=neighbors,
        extension=SpectralExtension(arrays["graph.coordinates"], arrays["graph.source_mass"], count),
        filter_=arrays["graph.filter"],
        embedding=arrays["graph.embedding"],
        values=arrays["graph.values"],
        settings=settings.graph,
    )
    return Wild(
        shift=Shift(
            arrays["shift.direction"], float(record["offset"]), arrays["shift.means"], arrays["shift.deviations"],
            float(record["share"]), float(record["stray"]), float(record.get("kappa", 0.0)),
        ),
        graph=graph,
        bank=Bank(arrays["bank.rows"], arrays["bank.labels"], n_classes),
        ranks=Ranks(arrays["ranks.singles"], arrays["ranks.sums"]),
        probe=LinearProbe(arrays["adapted.weights"], arrays["adapted.bias"]),
        far=Tail(*record["far"]),
        long=Tail(*record["long"]),
        attributed=arrays["attributed"],
        reference=arrays["reference"],
        known=float(record["known"]),
    )  # fmt: skip


def _index_state(name: str, index: NeighborIndex, arrays: Arrays) -> dict[str, Any]:
    state = index.state()
    if "centroids" in state:
        arrays[f"{name}.centroids"] = state.pop("centroids")
    return state


def _restore_index(rows: np.ndarray, name: str, record: dict[str, Any], arrays: Arrays, seed: int) -> NeighborIndex:
    built = dict(record)
    if f"{name}.centroids" in arrays:
        built["centroids"] = arrays[f"{name}.centroids"]
    return NeighborIndex(rows, metric="euclidean", method=built.pop("method"), seed=seed, built=built)


def _settings(settings: JointSettings) -> dict[str, Any]:
    plain = {name: getattr(settings, name) for name in ("attribute", "rounds", "most", "seed")}
    return {**plain, "graph": dict(vars(settings.graph))}


def _restore_settings(record: dict[str, Any]) -> JointSettings:
    rest = {name: value for name, value in record.items() if name != "graph"}
    return JointSettings(graph=GraphSettings(**record["graph"]), **rest)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
