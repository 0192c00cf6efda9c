"""From records to tables: mean and spread over seeds, the paper's number and the difference beside each cell.

``summarize`` does the arithmetic and returns plain data; ``render`` writes it as markdown, CSV or LaTeX,
in ``wildspec.bench.render``. Values here are in per cent, as printed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from wildspec.bench.protocols import Row, protocol, protocol_names, rows, rows_of
from wildspec.bench.published import paper_numbers, published
from wildspec.bench.records import LOWER_IS_BETTER, METRICS, PAPER, Record, mean_and_spread
from wildspec.bench.same_recipe import Asked, asked, recipe_names

HEADLINE, SEVERITY, UNSEEN = range(3)
ROUNDING = 0.005 + 1e-9  # the paper prints two digits: half a unit of the last one
BESIDE = {"spectral+": "spectral"}  # a method outside the paper -> the row of the paper it is measured against


@dataclass(frozen=True)
class TableCell:
    """One metric of one row, in per cent. ``paper``: what the paper prints (two numbers where it prints two)."""

    mean: float
    spread: float | None
    paper: tuple[float, ...] = ()
    difference: float | None = None  # mean - paper (the first number); None for stand-ins
    met: bool | None = None  # as good as the paper's number to its printed digits, or better
    runs: int = 1  # how many values the mean is of


@dataclass(frozen=True)
class TableRow:
    """One method and detector under one recipe. ``name``: the paper's name of the pair where it has one."""

    method: str
    detector: str
    recipe: str
    group: str
    name: str
    seeds: tuple[int, ...]
    cells: dict[str, TableCell]
    seconds: float
    views: float
    how: Asked
    newest: str  # when the last of its records was made
    provenance: dict[str, Any] = field(default_factory=dict)  # as that of a `Table`, of this row alone


@dataclass(frozen=True)
class Table:
    """Rows that share protocol, semantic set (in the wild pool), test set and covariate shift."""

    kind: int  # HEADLINE, SEVERITY or UNSEEN
    protocol: str
    semantic: str
    tested_on: str
    covariate: str
    trained: int  # severity in the wild pool
    severity: int  # severity of the test images
    rows: tuple[TableRow, ...]
    stand_in_for: str | None = None
    metrics: tuple[str, ...] = METRICS
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        if self.covariate == "domain":
            return f"{self.protocol}, {self.semantic}"
        text = f"{self.protocol}, {self.semantic} in the wild pool, {self.covariate} severity {self.trained}"
        text += "" if self.severity == self.trained else f", tested at severity {self.severity}"
        return text if self.tested_on == self.semantic else f"{text}, tested on {self.tested_on} (never seen)"

    @property
    def family(self) -> tuple[str, str, str, int]:
        """What a headline table shares with the tables of the other severities and of unseen sets."""
        return self.protocol, self.semantic, self.covariate, self.trained

    @property
    def shown(self) -> list[str]:
        """Columns for people: the validation accuracy is shown where it is what the table is about."""
        return [metric for metric in self.metrics if metric != "id_acc_validation" or self.protocol == "sweep"]

    def sources(self) -> list[str]:
        """Where the numbers come from, a line each."""
        made = self.provenance
        return [
            f"hardware: {'; '.join(made['hardware'])}; training {made['training_seconds'] / 60:.1f} minutes in all",
            *(f"versions: {versions}" for versions in made["versions"]),
            f"commit: {', '.join(made['commits'])}",
            f"images (sha256 of pixels and labels): {short_splits(made)}",
            *(f"command: `{command}`" for command in made["commands"]),
        ]

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, **asdict(self)}


def summarize(records: Iterable[Record], *, unseen: bool = True, severities: bool = True) -> list[Table]:
    """Records -> per semantic set the headline table, then the other severities, then the unseen semantic sets."""
    records = list(records)
    pieces: dict[tuple[Any, ...], list[Piece]] = {}

    def add(kind: int, piece: Piece, tested: str, severity: int) -> None:
        record = piece.record
        key = (kind, record["protocol"], record["semantic"], tested, record["covariate"], record["severity"], severity)
        pieces.setdefault(key, []).append(piece)

    for record, recipe in zip(records, recipe_names(records), strict=True):
        add(HEADLINE, Piece(record, recipe, record), record["semantic"], record["severity"])
        for level, metrics in (record.get("severities") or {}).items() if severities else ():
            if int(level) != record["severity"]:
                add(SEVERITY, Piece(record, recipe, metrics), record["semantic"], int(level))
        for name, metrics in (record.get("unseen") or {}).items() if unseen else ():
            add(UNSEEN, Piece(record, recipe, metrics), name, record["severity"])
    return [_table(key, pieces[key]) for key in sorted(pieces, key=_order)]


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    kind, name, semantic, tested, covariate, trained, severity = key
    names = protocol_names()
    sets = [entry.name for entry in protocol(name).semantic] if name in names else []
    position = {value: index for index, value in enumerate(sets)}
    late = len(sets)
    return (
        names.index(name) if name in names else len(names), position.get(semantic, late), kind,
        position.get(tested, late), semantic, tested, covariate, trained, severity,
    )  # fmt: skip


class Piece(NamedTuple):
    """One result of one record: ``metrics`` are those of the record itself, of another severity or of an unseen set."""

    record: Record
    recipe: str
    metrics: Record


def _table(key: tuple[Any, ...], pieces: Sequence[Piece]) -> Table:
    kind, name, semantic, tested, covariate, trained, severity = key
    stand_in = _stand_in(name, semantic)
    groups: dict[tuple[str, str, str], list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.record["method"], piece.record["detector"], piece.recipe), []).append(piece)
    made = []
    for (method, detector, _), members in groups.items():
        printed = rows_of(method, detector) if name in protocol_names() else []
        for known in printed or [_own_row(method, detector)]:
            paper = _paper(name, known, stand_in or semantic, members[0].record) if kind == HEADLINE else {}
            made.append(_row(known, members, paper, comparable=stand_in is None))
    made.sort(key=lambda row: (order_of(row.name), row.name, row.recipe))
    present = tuple(metric for metric in METRICS if any(metric in row.cells for row in made))
    return Table(
        kind, name, semantic, tested, covariate, trained, severity, tuple(made), stand_in, present,
        _provenance([piece.record for piece in pieces]),
    )  # fmt: skip


def _own_row(method: str, detector: str) -> Row:
    """A row that the paper does not have; the detector stands in the next column for methods set beside one of its rows."""
    return Row(method if method in BESIDE else f"{method}+{detector}", "", method, detector)


def _row(known: Row, members: Sequence[Piece], paper: dict[str, tuple[float, ...]], comparable: bool) -> TableRow:
    cells = {}
    records = [piece.record for piece in members]
    for metric in METRICS:
        values = [100 * piece.metrics[metric] for piece in members if piece.metrics.get(metric) is not None]
        if values:
            cells[metric] = _cell(metric, values, paper.get(metric, ()), comparable)
    return TableRow(
        known.method, known.detector, members[0].recipe, known.group, known.row,
        seeds=tuple(sorted(record["seed"] for record in records)),
        cells=cells,
        seconds=mean_and_spread([record["seconds"] for record in records])[0],
        views=mean_and_spread([record["views"] for record in records])[0],
        provenance=_provenance(records),
        how=asked(records[0]),
        newest=max(str(record["environment"].get("created", "")) for record in records),
    )  # fmt: skip


def _cell(metric: str, values: list[float], printed: tuple[float, ...], comparable: bool) -> TableCell:
    mean, spread = mean_and_spread(values)
    if not printed or not comparable:
        return TableCell(mean, spread, printed, runs=len(values))
    return TableCell(mean, spread, printed, mean - printed[0], as_good(metric, mean, printed[0]), len(values))


def as_good(metric: str, value: float, printed: float) -> bool:
    """Is a value, in per cent, as good as the paper's number to its printed digits, or better?"""
    gain = printed - value if metric in LOWER_IS_BETTER else value - printed
    return gain >= -ROUNDING


def _paper(protocol_name: str, known: Row, semantic: str, record: Record) -> dict[str, tuple[float, ...]]:
    """The paper's numbers for this row; the sweep and the impact table have their own, a user's protocol has none."""
    if protocol_name not in protocol_names():
        return {}
    if protocol_name not in ("sweep", "impact"):
        numbers = paper_numbers(BESIDE.get(known.method, known.row), semantic)
        return {metric: tuple(value for value, _ in entries) for metric, entries in numbers.items()}
    found = published(protocol_name, known.row, semantic)
    if protocol_name == "sweep":
        hparams = record["config"].get("hparams", {})
        found = [row for row in found if all(row[eta] == hparams.get(eta) for eta in ("eta_l", "eta_u"))]
    return {metric: (row[metric],) for row in found for metric in (*PAPER, "id_acc_validation") if metric in row}


def _stand_in(name: str, semantic: str) -> str | None:
    if name not in protocol_names():
        return None
    return next((entry.stand_in_for for entry in protocol(name).semantic if entry.name == semantic), None)


def order_of(name: str) -> int:
    """Place of a row in the paper's tables; rows it does not have come last."""
    order = [entry.row for entry in rows()]
    return order.index(name) if name in order else len(order)


def _provenance(records: Sequence[Record]) -> dict[str, Any]:
    """Everything a reader needs to make the table again, each distinct value once, in order of appearance."""

    def each(values: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(values))

    made = [record["environment"] for record in records]
    machines = [one["hardware"] for one in made]
    names = each(name for record in records for name in record["splits"])
    # a trained model counts once, whatever scored it; the same seed trained again counts again
    trained = {(r["method"], r["seed"], r["semantic"], r["seconds"], r["views"]) for r in records}
    return {
        "splits": {name: each(r["splits"][name] for r in records if name in r["splits"]) for name in names},
        "hardware": each(one.get("gpu") or f"{one.get('cpu')}, {one.get('cores')} cores" for one in machines),
        "versions": each(", ".join(f"{key} {value}" for key, value in one["versions"].items()) for one in made),
        "commits": each(str(one.get("commit")) for one in made),
        "commands": each(record["command"] for record in records),
        "training_seconds": math.fsum(seconds for *_, seconds, _ in trained),
    }


def short_splits(made: dict[str, Any]) -> str:
    """The hashes of a provenance, twelve digits each."""
    return "; ".join(f"{name} {', '.join(v[:12] for v in values)}" for name, values in sorted(made["splits"].items()))
