"""A fitted `SpectralClassifier` as arrays and JSON, and back: what a bundle holds. No pickle."""

import copy
from os import PathLike
from typing import Any

import numpy as np

from wildspec.bundle.gallery import Gallery
from wildspec.decision.learned_state import learned_state, restore_learned
from wildspec.decision.rule_state import Arrays
from wildspec.errors import CheckpointError, kind_and_line

KIND = "embeddings"
TENSORS = "embeddings.safetensors"
NAMES, PICTURES = "names.json", "pictures.safetensors"  # of samples that came from a table with names, thumbnails


def write(estimator: Any, path: str | PathLike[str]) -> None:
    """The estimator as a bundle at ``path``."""
    from wildspec.bundle import write_bundle

    arrays, record = to_state(estimator)
    files: dict[str, Any] = {TENSORS: arrays}
    if estimator._pictures is not None and len(estimator._pictures):
        files[PICTURES] = estimator._pictures.to_tensors("labelled")
    write_bundle(path, KIND, record, files, {} if estimator._names is None else {NAMES: {"labelled": estimator._names}})


def read(cls: type, stored: Any) -> Any:
    """The estimator in a verified bundle. Where it computes is for whoever loads it to say, not for the bundle. It is tried
    out on one of its own samples: what does not hang together shows now, not at the first decision."""
    arrays = {name: tensor.numpy() for name, tensor in stored.tensors(TENSORS).items()}
    record = copy.deepcopy(stored.model)
    record["params"]["engine"] = "auto"
    record["rule"]["settings"]["graph"]["engine"] = "local"
    try:
        found = from_state(cls, arrays, record)
        found._settings(found._seed)
        if NAMES in stored:
            found._names = list(stored.json(NAMES)["labelled"])
        if PICTURES in stored:
            found._pictures = Gallery.from_tensors(stored.tensors(PICTURES), "labelled")
        score = found.model_.decide(arrays["labelled"][:1]).score
    except CheckpointError:
        raise
    except Exception as error:
        line = kind_and_line(error)
        raise CheckpointError(f"bundle {stored.path} is refused: its parts do not fit together ({line})") from error
    if not np.isfinite(score).all():
        raise CheckpointError(f"bundle {stored.path} is refused: it scores its own samples {score[0]}; fit it again")
    return found


def to_state(estimator: Any) -> tuple[Arrays, dict[str, Any]]:
    """Everything that decisions, explanations and ``partial_fit`` need."""
    arrays, learned = learned_state(estimator.model_, estimator.thresholds_, estimator.temperature_)
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
        "rows_seen": estimator._rows_seen,
        "pool": estimator._pool,
        **learned,
    }
    arrays |= {"places": estimator._rows, "held": estimator._held_rows, "held.labels": estimator._held_labels}
    if len(estimator._wild_rows):
        arrays["wild.rows"] = estimator._wild_rows
    if estimator._centre.any():
        arrays["origin"] = estimator._centre
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}, record


def from_state(cls: type, arrays: Arrays, record: dict[str, Any]) -> Any:
    """The fitted estimator again; a state that does not hang together is a CheckpointError."""
    try:
        return _restore(cls, arrays, record)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the model's state is incomplete or inconsistent ({error}); fit it again") from error


def _restore(cls: type, arrays: Arrays, record: dict[str, Any]) -> Any:
    estimator = cls(**record["params"])
    classes = np.array(record["classes"])
    kind = record["classes_kind"]
    estimator.classes_ = classes if classes.dtype.kind == kind else classes.astype(np.uint64 if kind == "u" else kind)
    estimator.n_features_in_ = int(record["n_features"])
    if record["feature_names"]:
        estimator.feature_names_in_ = np.array(record["feature_names"], dtype=object)
    estimator._scale, estimator._seed = float(record["scale"]), int(record["seed"])
    estimator.n_wild_, estimator._pool = int(record["n_wild"]), str(record.get("pool", ""))
    estimator._rows, estimator._held_rows = arrays["places"], arrays["held"]
    estimator._held_labels = arrays.get("held.labels", np.full(len(arrays["held"]), -1))
    estimator._names, estimator._pictures = None, None
    wild = len(arrays["graph.rows"]) if "graph.rows" in arrays and estimator.n_wild_ else 0
    estimator._wild_rows = arrays.get("wild.rows", np.arange(wild))
    seen = int(estimator._wild_rows.max(initial=-1)) + 1
    estimator._rows_seen = max(int(record.get("rows_seen", 0)), seen)  # bundles of 0.2.0 lack it
    estimator._centre = arrays.get("origin", np.zeros(estimator.n_features_in_, np.float32))
    model, thresholds, temperature = restore_learned(arrays, record)
    if model.n_classes != len(classes) or model.labelled.shape[1] != estimator.n_features_in_:
        raise CheckpointError("the model's classes or features are not those of its samples; fit it again")
    estimator._take(model, thresholds, warn=False)
    estimator.temperature_ = temperature
    return estimator


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
