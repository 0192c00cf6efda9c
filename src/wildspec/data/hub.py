"""Data sets in Hugging Face's form, with the extra [hub]: hf:NAME, hf:NAME:SPLIT, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT.

NAME is one of the hub, a folder that the ``datasets`` package can read, or one that it wrote with ``save_to_disk``. A word
alone behind it is the configuration of that name, or a split of the configuration that needs no name: the only one, or the
one that the data set calls its default. Without a split: ``train``, or the only one there is. SPLIT may be an expression of
that package, as train[:1000] or train+test. What is left open is an error that lists what there is.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wildspec.checks import require
from wildspec.data import ImageSource, open_source
from wildspec.data.dataset import DatasetSource
from wildspec.errors import DataError, one_line

FORMS = "hf:NAME, hf:NAME:SPLIT, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"
LISTED = 10  # names in a message
EVERY_SPLIT = "all"  # what the package calls all splits together


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
    return open_source(DatasetSource(found), labelled=labelled)


def parse_name(name: str) -> tuple[str, tuple[str, ...]]:
    """hf:NAME and up to two words behind it; a colon within brackets belongs to a split: train[:50%]."""
    where, *words = re.split(r":(?![^\[]*\])", name.removeprefix("hf:"))
    words = [word for word in words if word]
    if not where or len(words) > 2:
        raise DataError(f"{name!r} is no name of a data set; write {FORMS}")
    return where, tuple(words)


def _load(datasets: Any, where: str, words: tuple[str, ...]) -> Any:
    if (Path(where) / "dataset_dict.json").is_file():  # several splits, as save_to_disk writes them
        saved = datasets.load_from_disk(where)
        return saved[_saved_split(where, words, list(map(str, saved)))]
    if (Path(where) / "state.json").is_file():  # one split
        saved = datasets.load_from_disk(where)
        if words and words != (str(saved.split),):
            raise DataError(f"data set {where!r} was saved as one set, without {':'.join(words)}; write hf:{where}")
        return saved
    if len(words) == 2:  # nothing to find out, unless it fails
        try:
            return datasets.load_dataset(where, words[0], split=words[1])
        except ValueError:  # what the package raises for names that are not there; not where it cannot reach the hub
            HubChoices.of(datasets, where).choose(words)
            raise
    config, split = HubChoices.of(datasets, where).choose(words)
    return datasets.load_dataset(where, config, split=split)


class HubChoices:
    """What there is to choose from: the configurations of a data set, the one that needs no name, the splits of each."""

    def __init__(self, datasets: Any, where: str, configs: list[str], default: str | None) -> None:
        self.datasets, self.where, self.configs, self.default = datasets, where, configs, default

    @classmethod
    def of(cls, datasets: Any, where: str) -> "HubChoices":
        """Asked of the hub; without a network the package answers from what it has loaded before."""
        names = list(map(str, datasets.get_dataset_config_names(where)))
        default = names[0] if len(names) == 1 else datasets.get_dataset_default_config_name(where)
        return cls(datasets, where, names, default)

    def splits(self, config: str) -> list[str]:
        """Empty where it cannot be found out."""
        try:
            return list(map(str, self.datasets.get_dataset_split_names(self.where, config)))
        except Exception:
            return []

    def choose(self, words: tuple[str, ...]) -> tuple[str, str]:
        """Configuration and split; DataError where the words leave it open or name what is not there."""
        if len(words) == 2:
            config, split = words
            self._check_config(config)
            self._check_split(config, split, self.splits(config))
            return config, split
        if not words:
            if self.default is None:
                raise DataError(
                    f"data set {self.where!r} has the configurations {listed(self.configs)}; "
                    f"name one: hf:{self.where}:{self.configs[0]}"
                )
            return self.default, self._usual_split(self.default)
        return self._one_word(words[0])

    def _one_word(self, word: str) -> tuple[str, str]:
        default, is_config = self.default, word in self.configs
        if default is None:
            self._check_config(word)
            return word, self._usual_split(word)
        splits = self.splits(default)
        is_split = not missing(word, splits)
        if is_config and is_split and len(self.configs) > 1:
            raise DataError(
                f"data set {self.where!r} has a configuration {word!r} and, in {default!r}, a split of that name; "
                f"write hf:{self.where}:{word}:SPLIT or hf:{self.where}:{default}:{word}"
            )
        if is_config and not is_split:
            return word, self._usual_split(word)
        if not is_split and splits and len(self.configs) > 1:
            raise DataError(
                f"data set {self.where!r} has neither a configuration {word!r} (but {listed(self.configs)}) "
                f"nor, in {default!r}, such a split (but {listed(splits)})"
            )
        self._check_split(default, word, splits)
        return default, word

    def _check_config(self, config: str) -> None:
        if config not in self.configs:
            raise DataError(f"data set {self.where!r} has no configuration {config!r} but {listed(self.configs)}")

    def _check_split(self, config: str, split: str, splits: list[str]) -> None:
        absent = missing(split, splits)
        if splits and absent:
            raise DataError(f"{self._called(config)} has no split {absent[0]!r} but {listed(splits)}")

    def _usual_split(self, config: str) -> str:
        return _usual(self._called(config), f"hf:{self.where}:{config}", self.splits(config))

    def _called(self, config: str) -> str:
        return f"data set {self.where!r}" + (f", configuration {config!r}," if len(self.configs) > 1 else "")


def _saved_split(where: str, words: tuple[str, ...], splits: list[str]) -> str:
    """Of a folder that save_to_disk wrote: it has splits and no configurations."""
    called = f"data set {where!r}"
    if len(words) == 2:
        raise DataError(f"{called} was saved without configurations; write hf:{where}:{words[1]}")
    if not words:
        return _usual(called, f"hf:{where}", splits)
    if words[0] not in splits:
        raise DataError(f"{called} has no split {words[0]!r} but {listed(splits)}")
    return words[0]


def _usual(called: str, name: str, splits: list[str]) -> str:
    """``train``, or the only split."""
    if len(splits) == 1:
        return splits[0]
    if "train" in splits or not splits:
        return "train"
    raise DataError(f"{called} has the splits {listed(splits)}; name one: {name}:{splits[0]}")


def missing(split: str, splits: Sequence[str]) -> list[str]:
    """Names in a split expression, as in train[:50%]+test, that are no splits."""
    names = [part.partition("[")[0].partition("(")[0].strip() for part in split.split("+")]
    return [name for name in names if name not in (*splits, EVERY_SPLIT)]


def listed(names: Sequence[str]) -> str:
    """Names in a row, the first of many."""
    more = [f"and {len(names) - LISTED:,} more"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more])
