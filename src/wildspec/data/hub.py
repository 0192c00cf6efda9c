"""Data sets in Hugging Face's form, with the extra [hub]: hf:NAME, hf:NAME:SPLIT, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT.

NAME is one of the hub, a folder that the ``datasets`` package can read, or one that it wrote with ``save_to_disk``. A word
alone behind it is the configuration of that name; where there is none, a split of the configuration that needs no name: the
only one, or the one that the data set calls its default. Without a split: ``train``, or the only one there is. SPLIT may be
an expression of that package, as train[:1000] or train+test. What is left open, or is not there, is an error that lists what
there is, in the package's own words.
"""

import re
import sys
from pathlib import Path
from typing import Any

from wildspec.checks import require
from wildspec.data import ImageSource, open_source
from wildspec.data.dataset import DatasetSource
from wildspec.errors import DataError, one_line

FORMS = "hf:NAME, hf:NAME:SPLIT, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"


def open_hub(name: str, *, labelled: bool) -> ImageSource:
    """Load a data set with the ``datasets`` package and open it as an image source."""
    where, words = parse_name(name)
    datasets = require("datasets", "hub", f"reading {name}")
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()  # in a log every step of them would be a line
    try:
        found = _load(datasets, where, words)
    except DataError:
        raise
    except Exception as error:  # the package raises many kinds; the user needs the reason, not the kind
        place = f"{where!r}" if Path(where).exists() else f"{where!r} from the hub"
        raise DataError(f"cannot load data set {place}: {one_line(error)}") from error
    return open_source(DatasetSource(found, labelled=labelled), labelled=labelled)


def parse_name(name: str) -> tuple[str, tuple[str, ...]]:
    """hf:NAME and up to two words behind it; a colon within brackets belongs to a split: train[:50%]."""
    where, *words = re.split(r":(?![^\[]*\])", name.removeprefix("hf:"))
    words = [word for word in words if word]
    if not where or len(words) > 2:
        raise DataError(f"{name!r} is no name of a data set; write {FORMS}")
    return where, tuple(words)


def _load(datasets: Any, where: str, words: tuple[str, ...]) -> Any:
    if any((Path(where) / name).is_file() for name in ("dataset_dict.json", "state.json")):  # as save_to_disk writes them
        saved = datasets.load_from_disk(where)
        saved = saved if isinstance(saved, dict) else {str(saved.split): saved}
        if len(words) > 1 or (words and words[0] not in saved):
            raise DataError(f"data set {where!r} has no {':'.join(words)} but the splits {', '.join(saved)}")
        return saved[words[0]] if words else _usual(where, saved)
    if len(words) == 2:
        return datasets.load_dataset(where, words[0], split=words[1])
    if words and words[0] not in datasets.get_dataset_config_names(where):
        return datasets.load_dataset(where, split=words[0])
    return _usual(":".join([where, *words]), datasets.load_dataset(where, *words))


def _usual(name: str, splits: dict[str, Any]) -> Any:
    """``train``, or the only split."""
    if "train" in splits or len(splits) == 1:
        return splits["train"] if "train" in splits else next(iter(splits.values()))
    names = list(map(str, splits))
    raise DataError(f"data set {name!r} has the splits {', '.join(names)}; name one: hf:{name}:{names[0]}")
