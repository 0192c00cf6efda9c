"""The paper's experiments as data: which sets, which splits, which mixture, which rows (``protocols.json``).

A protocol says what is measured, never how fast or with which recipe; the runner (``wildspec.bench.run``) reads it.
"""

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from wildspec.bench.published import chosen_etas, sets_with_etas
from wildspec.checks import choice, integer

USUAL_ETAS = (0.5, 2.0)  # of most rows of the paper's table, and the methods' defaults


@dataclass(frozen=True)
class Row:
    """One row of the paper's tables: a training method and the detector that scores it."""

    row: str
    group: str
    method: str
    detector: str


@dataclass(frozen=True)
class Semantic:
    """A semantic OOD set of a protocol, or (kind ``domains``) an ordered pair of domains."""

    name: str
    set: str = ""
    train: str | None = None
    test: str | None = None
    scheme: str = "semantic"
    stand_in_for: str | None = None
    etas_of: str | None = None
    unknown_classes: bool = False  # taken from the unknown classes of the ID set
    corrupted: bool = False  # and put into the domain of the covariate set
    source: str | None = None
    target: str | None = None
    note: str | None = None

    @property
    def published_as(self) -> str:
        """Name under which the paper prints this set, or the set it stands in for."""
        return self.stand_in_for or self.name


@dataclass(frozen=True)
class Protocol:
    """One experiment. ``in_distribution``: set, its train and test splits, image size, number of classes."""

    name: str
    kind: str  # corruption: covariate shift is made by corrupting ID images; domains: it is another domain
    title: str
    paper: str
    in_distribution: dict[str, Any]
    semantic: tuple[Semantic, ...]
    model: str
    neighbours: int  # k of the KNN detector
    validation: str
    published_recipe: dict[str, Any]
    split_seed: int = 0
    labelled: float = 0.5
    unlabelled_scheme: str = "in_distribution"
    covariate: dict[str, Any] = field(default_factory=dict)
    pi_c: float | None = None  # None: as it comes
    pi_s: float | None = None
    pretrained: bool = False
    domains: dict[str, str] = field(default_factory=dict)
    known: int | None = None
    unknown: int | None = None
    id_holdout: float | None = None
    methods: tuple[str, ...] = ("spectral", "spectral+")  # run where none are asked for
    grid: dict[str, list[float]] = field(default_factory=dict)
    default_semantic: str | None = None
    notes: tuple[str, ...] = ()
    base: str | None = None

    def semantic_set(self, name: str) -> Semantic:
        """A semantic set by name; an unknown name is an error that lists the known ones."""
        choice("semantic", name, [entry.name for entry in self.semantic])
        return next(entry for entry in self.semantic if entry.name == name)

    def resized(self, size: int | None) -> "Protocol":
        """The same experiment on images of another size; None: as it is."""
        if size is None:
            return self
        return replace(self, in_distribution={**self.in_distribution, "size": integer("size", size, 4)})

    def etas(self, semantic: str) -> tuple[float, float]:
        """(eta_l, eta_u) from the paper's table for a semantic set or the set it stands in for.

        In a protocol of one's own a set that the table does not have gets the values of most of its rows."""
        entry = self.semantic_set(semantic)
        id_set = "cifar10" if self.in_distribution["set"] == "cifar10" else self.name
        name = entry.etas_of or entry.published_as
        if self.name not in protocol_names() and name not in sets_with_etas(id_set):
            return USUAL_ETAS
        return chosen_etas(id_set, name)

    def hparams(self, method: str, semantic: str) -> list[dict[str, Any]]:
        """Hyper-parameters the protocol fixes, one entry per run: the paper's eta, or every point of a sweep."""
        if method not in ("spectral", "spectral+", "nscl"):
            return [{}]
        if self.grid:
            return [{"eta_l": low, "eta_u": up} for up in self.grid["eta_u"] for low in self.grid["eta_l"]]
        from wildspec.methods.spectral_plus import PHOTOGRAPHS  # here: the list of protocols is read without torch

        eta_l, eta_u = self.etas(semantic)
        return [{"eta_l": eta_l, "eta_u": eta_u, **(PHOTOGRAPHS if method == "spectral+" else {})}]


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    text = files("wildspec.bench").joinpath("protocols.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def rows() -> tuple[Row, ...]:
    """The rows of the paper's CIFAR-10 tables, in the paper's order, ours last."""
    return tuple(Row(**entry) for entry in _document()["rows"])


def domain_rows() -> tuple[Row, ...]:
    """Rows of the paper's Office-Home table that train networks, and two of the same kind beside them."""
    return tuple(Row(**entry) for entry in _document()["domain_rows"])


def protocol_names() -> list[str]:
    return [entry["name"] for entry in _document()["protocols"]]


def entry_of(name: str) -> dict[str, Any]:
    """A protocol as data; one with a ``base`` takes from it whatever it does not say itself."""
    choice("protocol", name, protocol_names())
    entries = {entry["name"]: entry for entry in _document()["protocols"]}
    entry = entries[name]
    return {**entries[entry["base"]], **entry} if "base" in entry else dict(entry)


def from_entry(entry: dict[str, Any]) -> Protocol:
    """Data -> protocol."""
    made = dict(entry)
    made["semantic"] = tuple(Semantic(**item) for item in entry["semantic"])
    for key in ("methods", "notes"):
        if key in entry:
            made[key] = tuple(entry[key])
    return Protocol(**made)


def protocol(name: str) -> Protocol:
    """A protocol by name."""
    return from_entry(entry_of(name))


GROUPS = {"all": rows, "open-set": domain_rows}


def choose_rows(names: list[str]) -> dict[str, list[str]]:
    """Row or method names -> {training method: detectors}, each method once, so one model serves all its detectors.

    ``all``: every row of the paper's CIFAR-10 tables; ``open-set``: `domain_rows`. A detector's name (``msp``) is the
    paper's row of that name: cross-entropy plus that score. ``method+detector`` asks for any other pair. A detector of ""
    is the method's own (a method outside the paper).
    """
    known = {row.row: row for row in (*rows(), *domain_rows())}
    wanted: dict[str, list[str]] = {}
    for name in names:
        if name in GROUPS:
            chosen = [(row.method, row.detector) for row in GROUPS[name]()]
        elif "+" in name.rstrip("+"):  # "spectral+" is a method; "spectral++knn" is that method with that detector
            method, _, detector = name.rpartition("+")
            chosen = [(method, detector)]
        elif name in known:
            chosen = [(known[name].method, known[name].detector)]
        else:
            chosen = [(name, "")]  # the registry knows it or says no
        for method, detector in chosen:
            detectors = wanted.setdefault(method, [])
            if detector not in detectors:
                detectors.append(detector)
    return wanted


def rows_of(method: str, detector: str) -> list[Row]:
    """The paper's rows for a pair, often none; cross-entropy with energy is printed twice, as Energy and as ERM."""
    return [row for row in (*rows(), *domain_rows()) if (row.method, row.detector) == (method, detector)]
