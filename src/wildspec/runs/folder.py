"""The run folder.

    RUN/run.json             method, hyper-parameters, recipe, network, data, seed; and, when done, what it took
    RUN/checkpoints/         of the training loop, and metrics.jsonl
    RUN/model.safetensors    the trained network
    RUN/evaluation.json      the last evaluation
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from wildspec.data import Preprocess
from wildspec.errors import CheckpointError, DataError, InputError
from wildspec.files import read_json, replacing, sha256_file, write_json
from wildspec.models import Classifier
from wildspec.runs.task import DataSpec

SCHEMA = "wildspec.run/1"
RECORD, WEIGHTS, EVALUATION = "run.json", "model.safetensors", "evaluation.json"


@dataclass
class Run:
    """A finished run, its network loaded."""

    path: Path
    record: dict[str, Any]
    model: Classifier

    @property
    def method(self) -> str:
        return str(self.record["method"])

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.record["classes"])

    @property
    def preprocess(self) -> Preprocess:
        return Preprocess.from_json(self.record["preprocess"])

    @property
    def data(self) -> DataSpec:
        return DataSpec(**self.record["data"])


def read_run(path: Path) -> dict[str, Any]:
    """run.json, checked to be one."""
    if not (path / RECORD).is_file():
        raise DataError(f"{path} is no run folder (no {RECORD} in it); make one with: wildspec train --out {path}")
    record = read_json(path / RECORD)
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else type(record).__name__
        raise CheckpointError(f"{path / RECORD} has schema {found!r}, this version of wildspec reads {SCHEMA!r}")
    return record


def write_run(path: Path, record: dict[str, Any]) -> None:
    write_json(path / RECORD, {"schema": SCHEMA, **record})


def save_weights(path: Path, model: Classifier) -> str:
    """Write the network; returns the file's sha256."""
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    with replacing(path / WEIGHTS) as temporary:
        save_file(weights, temporary)
    return sha256_file(path / WEIGHTS)


def load_run(path: str | Path) -> Run:
    """A finished run; a cut one is an error that says how to go on."""
    from wildspec.models.backbones import rebuild

    folder = Path(path)
    record = read_run(folder)
    if record.get("result") is None or not (folder / WEIGHTS).is_file():
        raise InputError(f"{folder} is not finished; go on with: wildspec train --resume --out {folder}")
    if sha256_file(folder / WEIGHTS) != record["result"]["sha256"]:
        raise CheckpointError(f"{folder / WEIGHTS} is damaged: its checksum is not the one in {RECORD}; train again")
    model = rebuild(record["network"])
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (RuntimeError, SafetensorError, OSError) as error:
        raise CheckpointError(f"{folder / WEIGHTS} does not hold the network of {RECORD}: {error}") from error
    return Run(folder, record, model.eval())
