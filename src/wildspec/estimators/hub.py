"""Data sets in Hugging Face's form, with the extra [hub]: "hf:NAME" or "hf:PATH", with ":SPLIT" behind it (default: train).

A path is a folder that the ``datasets`` package can read, or one that it wrote with ``save_to_disk``.
"""

from pathlib import Path
from typing import Any

from wildspec.checks import require
from wildspec.data import ImageSource, open_source
from wildspec.data.dataset import DatasetSource
from wildspec.errors import DataError


def open_hub(name: str, *, labelled: bool) -> ImageSource:
    """Load a data set with the ``datasets`` package and open it as an image source."""
    _, _, rest = name.partition("hf:")
    where, _, split = rest.partition(":")
    if not where:
        raise DataError(f"{name!r} names no data set; write hf:NAME, hf:PATH or hf:NAME:SPLIT")
    datasets = require("datasets", "hub", f"reading {name}")
    place = f"{where!r}" if Path(where).exists() else f"{where!r} from the hub"
    try:
        found = _load(datasets, where, split or "train")
    except Exception as error:  # the package raises many kinds; the user needs the reason, not the kind
        raise DataError(f"cannot load data set {place}: {' '.join(str(error).split())}") from error
    return open_source(DatasetSource(found), labelled=labelled)


def _load(datasets: Any, where: str, split: str) -> Any:
    if (Path(where) / "dataset_dict.json").is_file():  # several splits, as save_to_disk writes them
        saved = datasets.load_from_disk(where)
        if split not in saved:
            raise ValueError(f"it has no split {split!r} but {', '.join(map(str, saved))}")
        return saved[split]
    if (Path(where) / "state.json").is_file():  # one split; it has no name
        return datasets.load_from_disk(where)
    return datasets.load_dataset(where, split=split)
