"""Detectors and methods from other packages: modules that are imported the first time a list of names is looked into.

Two ways in. An installed package names such a module in the entry-point group ``wildspec.plugins``:

    [project.entry-points."wildspec.plugins"]
    mine = "my_package.scores"

A module that is merely importable is named in the environment: ``WILDSPEC_PLUGINS=my_scores,my_methods``. Importing it
registers what it holds (`wildspec.detectors.register`, `wildspec.methods.register_method`); after that every command and
function knows it by its name, also in other processes. Nothing is imported before somebody asks for a name.
"""

import os
import re
import warnings
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from wildspec.errors import InputError, one_line

GROUP = "wildspec.plugins"
VARIABLE = "WILDSPEC_PLUGINS"
T = TypeVar("T")
_loaded = False


def load_plugins() -> None:
    """Import them, once. One that was named in the environment must work; one that only is installed is warned of."""
    global _loaded
    if _loaded:
        return
    _loaded = True  # before: a plug-in that asks for a name while it is imported must not start over
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            line = one_line(error)
            warnings.warn(f"plug-in {entry.name} ({entry.value}) is left out: {type(error).__name__}: {line}", stacklevel=2)
    for name in filter(None, (part.strip() for part in os.environ.get(VARIABLE, "").split(","))):
        try:
            import_module(name)
        except Exception as error:
            _loaded = False
            line = one_line(error)
            raise InputError(
                f"{VARIABLE} names {name!r}, which cannot be imported ({type(error).__name__}: {line}); mend it, put its "
                f"folder into PYTHONPATH, or take it out of {VARIABLE}"
            ) from error


class Registry(dict[str, T]):
    """Name -> class. Whoever looks into it sees the plug-ins, too."""

    def add(self, kind: str, name: Any, made: T) -> None:
        """Enter a class under its name. It may replace an earlier one of its own kind, never one of wildspec's."""
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise InputError(
                f"a {kind} needs a class attribute name of letters, digits and _ (it is typed on command lines and becomes "
                f"part of file names), {getattr(made, '__name__', made)} has {name!r}"
            )
        before = super().get(name)
        if before is not None and _of_wildspec(before) and not _of_wildspec(made):
            raise InputError(f"the {kind} {name!r} is wildspec's own; records would not say whose it was: take another name")
        self[name] = made

    def __contains__(self, key: object) -> bool:
        load_plugins()
        return super().__contains__(key)

    def __getitem__(self, key: str) -> T:
        load_plugins()
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        load_plugins()
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return super().__iter__()

    def __len__(self) -> int:
        load_plugins()
        return super().__len__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        load_plugins()
        return super().keys()

    def values(self) -> ValuesView[T]:  # type: ignore[override]
        load_plugins()
        return super().values()

    def items(self) -> ItemsView[str, T]:  # type: ignore[override]
        load_plugins()
        return super().items()


def _of_wildspec(made: object) -> bool:
    return str(getattr(made, "__module__", "")).split(".")[0] == "wildspec"
