"""A fitted image model as one ONNX graph: pixels in, decision out. No torch is needed to run it.

    pixels        uint8 (n, 3, S, S), n free       class          int64 (n,), the most likely one
    probabilities float (n, C)                     score          float (n,), high = OOD
    p_value       float (n,)                       reject         bool (n,), score > threshold
    threshold     float (n,), of models on a frozen network alone: it is not one for all
    neighbours    int64 (n, K) rows of the labelled part of the bank, nearest first; distances float (n, K)

Classes, threshold, names of the bank and the model's facts travel in the graph's metadata under ``wildspec`` (JSON).
"""

import io
import json
import logging
import warnings
from os import PathLike
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import require
from wildspec.detectors.graphs import closeness, exact_distance
from wildspec.errors import InputError, MissingDependencyError
from wildspec.files import replacing
from wildspec.models.encoder import Encoder
from wildspec.models.onnx_backbone import OnnxBackbone

OUTPUTS = ("class", "probabilities", "score", "p_value", "reject", "neighbours", "distances")
THRESHOLD = "threshold"  # of each sample, where it is not one for all
NEIGHBOURS = 5
METADATA = "wildspec"


class ModelGraph(nn.Module):
    """Preprocessing, network, decision and the nearest labelled samples as one module."""

    mean: Tensor
    std: Tensor
    own_bank: Tensor

    def __init__(self, fitted: Any) -> None:
        super().__init__()
        self.network = fitted.model
        self.decision = fitted.decision.graph()
        self.labelled = len(fitted.bank.names)
        self.shown = min(NEIGHBOURS, self.labelled)
        self.register_buffer("mean", torch.tensor(fitted.preprocess.mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(fitted.preprocess.std).view(1, 3, 1, 1))
        bank, theirs = fitted.bank.features.detach().cpu().float(), getattr(self.decision.scoring, "bank", None)
        self.shared = theirs is not None and torch.equal(theirs[: self.labelled], bank)  # then it is not stored twice
        self.register_buffer("own_bank", bank[:0] if self.shared else bank)

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        inputs = (pixels.to(torch.float32) / 255 - self.mean) / self.std
        features = self.network.features(inputs)
        logits = self.network.head(features)
        probabilities = logits.softmax(1)
        score, p_value, reject = self.decision(features, logits)
        bank = self.decision.scoring.bank if self.shared else self.own_bank
        queries = F.normalize(features, dim=1)
        near = closeness(queries, bank)[:, : self.labelled].topk(self.shown, dim=1).indices
        return probabilities.argmax(1), probabilities, score, p_value, reject, near, exact_distance(queries, bank, near)


class FrozenGraph(nn.Module):
    """Encoder, rule and the nearest labelled samples of a model on a frozen network as one module."""

    bank: Tensor

    def __init__(self, fitted: Any) -> None:
        super().__init__()
        self.network, self.decision = fitted.model, fitted.decision.graph()
        self.shown = min(NEIGHBOURS, len(fitted.bank.names))
        self.register_buffer("bank", fitted.bank.features.detach().cpu().float())

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        rows = F.normalize(self.network(pixels), dim=1)
        likely, probabilities, score, p_value, reject, threshold = self.decision(rows)
        near = closeness(rows, self.bank).topk(self.shown, dim=1).indices
        return likely, probabilities, score, p_value, reject, near, exact_distance(rows, self.bank, near), threshold


def export_onnx(fitted: Any, path: str | PathLike[str], facts: dict[str, Any]) -> None:
    """Write the graph of what a `WildClassifier` learned (``fitted_``), whole or absent; ``facts`` go into its metadata."""
    onnx = require("onnx", "onnx", "ONNX export")
    require("onnxscript", "onnx", "ONNX export")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7):  # 2.5: batches of 2 only; 2.6: none at all
        raise MissingDependencyError(f"ONNX export needs torch 2.7 or newer, this is {torch.__version__}; upgrade torch")
    if any(isinstance(part, OnnxBackbone) for part in fitted.model.modules()):
        raise InputError("the backbone of this model is an ONNX graph already; it cannot be put into another: serve it")
    graph = FrozenGraph(fitted) if isinstance(fitted.model, Encoder) else ModelGraph(fitted)
    where = next(fitted.model.parameters()).device
    size = fitted.preprocess.size
    sample = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    try:
        graph.to("cpu").eval()
        document = onnx.load_from_string(_export(graph, sample))
    finally:
        fitted.model.to(where)
    if document.graph.input[0].type.tensor_type.shape.dim[0].dim_value:
        raise InputError("the backbone's code fixes how many images a batch has and cannot be exported; serve the bundle")
    _forget_origin(document)
    bank = {"names": fitted.bank.names, "labels": fitted.bank.labels.tolist()}
    entry = document.metadata_props.add()
    entry.key, entry.value = METADATA, json.dumps({**facts, "bank": bank})
    onnx.checker.check_model(document)
    with replacing(path) as temporary:
        onnx.save(document, str(temporary))


def _forget_origin(document: Any) -> None:
    """Take out what the exporter notes about where code came from: paths of this machine, in notes on every node."""
    graph = document.graph
    for thing in (document, graph, *graph.node, *graph.value_info, *graph.initializer, *graph.input, *graph.output):
        thing.doc_string = ""
        del thing.metadata_props[:]


def _export(graph: nn.Module, sample: Tensor) -> bytes:
    """The serialized graph, with a free batch size."""
    batch = torch.export.Dim("batch", min=1, max=1 << 20)  # torch 2.7 refuses one without an end; the graph has none
    stream, names = io.BytesIO(), [*OUTPUTS, *((THRESHOLD,) if isinstance(graph, FrozenGraph) else ())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes of the exporter about itself
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(
            graph, (sample,), input_names=["pixels"], output_names=names, dynamic_shapes={"pixels": {0: batch}},
            dynamo=True, verbose=False,
        )  # fmt: skip
    assert program is not None
    program.save(stream)  # type: ignore[arg-type]
    return stream.getvalue()
