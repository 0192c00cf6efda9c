"""Starting a backbone from a weights file: safetensors, every weight there, the classifier left out."""

import json
from os import PathLike
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from wildspec.errors import DataError, InputError
from wildspec.models.scaling import Scaling


def check_init(path: str | PathLike[str]) -> Path:
    """Initial weights are a file that is there: better known before all images are read than after."""
    file = Path(path)
    if file.is_dir():
        raise DataError(f"initial weights {file} are a folder; of a bundle give {file / 'weights.safetensors'}")
    if not file.is_file():
        raise DataError(f"initial weights {file} do not exist; expected a .safetensors file of the backbone")
    return file


def load_init(backbone: nn.Module, path: str | PathLike[str]) -> None:
    """Start the backbone from a safetensors file: all of its weights must be there; a classifier in the file is left out."""
    file = check_init(path)
    try:
        given = load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"initial weights {file} are not readable safetensors ({error}); pickles are not read") from error
    own = backbone.state_dict()
    found = _matching(given, own)
    missing = [name for name in own if name not in found and not name.endswith("num_batches_tracked")]
    if missing:
        raise InputError(
            f"initial weights {file} do not fit the backbone: {len(missing)} of {len(own)} tensors are missing or have "
            f"another shape, first {missing[0]} {tuple(own[missing[0]].shape)}; choose the backbone they were made for"
        )
    backbone.load_state_dict(found, strict=False)


def trained_with(path: str | PathLike[str]) -> Scaling | None:
    """The pixel scaling in the record beside weights of ours (a bundle, a run of ``wildspec train``); None for others."""
    weights = Path(path)
    record = {"weights.safetensors": "model.json", "model.safetensors": "run.json"}.get(weights.name)
    if record is None:
        return None
    try:
        found = json.loads(weights.with_name(record).read_text(encoding="utf-8"))["preprocess"]
        mean, std = (tuple(float(value) for value in found[name]) for name in ("mean", "std"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0 or min(mean) < 0 or max(mean + std) > 1:
        return None
    return Scaling((mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))


def _matching(given: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the file under the backbone's names, same shape. Where none has the name, a prefix ``model.`` (checkpoints
    of ``wildspec train``, the best model of a run) and one ``backbone.`` (weights of a bundle) are taken off."""
    outer = {name.removeprefix("model."): value for name, value in given.items()}
    named = {name.removeprefix("backbone."): value for name, value in outer.items()} | outer | given
    return {name: named[name] for name, value in own.items() if name in named and named[name].shape == value.shape}
