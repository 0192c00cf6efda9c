"""Data sets of the Hugging Face hub by name, with the extra [hub]: "hf:NAME", "hf:NAME:SPLIT" (default: train)."""

from wildspec.checks import require
from wildspec.data import ImageSource, open_source
from wildspec.data.dataset import DatasetSource
from wildspec.errors import DataError


def open_hub(name: str, *, labelled: bool) -> ImageSource:
    """Load a data set with the ``datasets`` package and open it as an image source."""
    _, _, rest = name.partition("hf:")
    where, _, split = rest.partition(":")
    datasets = require("datasets", "hub", f"reading {name}")
    try:
        found = datasets.load_dataset(where, split=split or "train")
    except Exception as error:  # the hub's client raises many kinds; the user needs the reason, not the kind
        raise DataError(f"cannot load data set {where!r} from the hub: {' '.join(str(error).split())}") from error
    return open_source(DatasetSource(found), labelled=labelled)
