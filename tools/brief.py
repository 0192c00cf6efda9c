"""The first screen of the results page: what of the bars holds, then ours and each method of the paper beside its numbers.

Which recipe stands for a method is a rule that does not look at test numbers (`RULE`, `representative`, `ours`).
"""

from collections.abc import Sequence

import bars
from bars import JOINT, MINUTES, SEEDS, Judged, judge
from wildspec.bench.names import Names
from wildspec.bench.records import PAPER, Record
from wildspec.bench.render import HEADINGS, SPACE, STACKED, markdown_table, stacked_cell
from wildspec.bench.tables import Cell, Table, TableRow, not_run, order_of, printed_numbers, summarize

METHOD = "spectral+"  # ours; every other row is the paper's
BEYOND_DEFAULT = "wild_linear"  # the detector that docs/detectors.md advises for pools like these
RULE = (
    "One recipe stands for each method, chosen by a rule that does not look at test numbers: the published recipe (`paper`, "
    "nothing changed) before `fast` as it is, before any other; then the one with most seeds; the protocol's half of the "
    "labels before all labels; today's definition of a preset before an earlier one; the newest. Of ours "
    f"({METHOD}) the one with most seeds, of several one of today's definition, of these the one that trains for the "
    f"shortest time, with its default detector and with `{BEYOND_DEFAULT}` ([which is for what](../detectors.md)), each "
    "without and with mirror images (*mirrored*: a test image is scored together with its mirror image). All other rows are "
    "in the tables below."
)
OTHERS = (
    "These stand in for the paper's sets, which are other images; names and numbers of those are in brackets, for "
    "orientation. The recipe is chosen by the same rule; first with the default detector, then with "
    f"`{BEYOND_DEFAULT}` and mirror images, which holds the most on SVHN."
)


def seeds_of(row: TableRow) -> int:
    return len(set(row.seeds))


def representative(rows: Sequence[TableRow]) -> TableRow:
    """The row that stands for a method of the paper, by `RULE`."""

    def rank(row: TableRow) -> tuple[int, int, bool, bool, bool]:
        how = row.how
        length = ("paper", "fast").index(how.preset) if how.as_it_is and how.preset in ("paper", "fast") else 2
        return length, -seeds_of(row), how.all_labels, how.earlier, how.mirrored

    newest_first = sorted(rows, key=lambda row: row.newest, reverse=True)
    return min(newest_first, key=rank)


def ours(rows: Sequence[TableRow]) -> TableRow:
    """The row that stands for our method under one detector, measured in one way."""
    return min(rows, key=lambda row: (-seeds_of(row), row.how.earlier, row.seconds, row.how.short))


def chosen(rows: Sequence[TableRow]) -> list[TableRow]:
    """Ours, then one row per method of the paper, in its order."""
    from wildspec.methods import METHODS

    found = []
    for detector in dict.fromkeys((METHODS[METHOD].default_detector, BEYOND_DEFAULT)):
        for mirrored in (False, True):
            mine = [row for row in rows if (row.method, row.detector, row.how.mirrored) == (METHOD, detector, mirrored)]
            found += [ours(mine)] if mine else []
    named: dict[str, list[TableRow]] = {}
    for row in rows:
        if row.method != METHOD and order_of(row.name) < order_of(""):  # a row that the paper has
            named.setdefault(row.name, []).append(row)
    return found + [representative(named[name]) for name in sorted(named, key=order_of)]


def table(head: Table, rows: Sequence[TableRow], more: Sequence[str] = (), *, absent: bool = False) -> str:
    """The chosen rows beside the paper's numbers. ``more``: other metrics; ``absent``: also rows that were not run."""
    metrics = [*PAPER, *more]
    titles = ["method", "detector", "recipe", *(" ".join(HEADINGS[m]) for m in metrics), "met", "seeds", "minutes"]
    lines = [(-1 if row.method == METHOD else order_of(row.name), _line(row, metrics)) for row in rows]
    for row in not_run(head) if absent else ():
        paper = printed_numbers(head, row)
        cells = [f"not run<br>{paper[m][0]:.2f}" if m in paper else "–" for m in metrics]
        lines.append((order_of(row.row), [row.row, row.detector, "–", *cells, "–", "0", "–"]))
    return markdown_table(titles, [line for _, line in sorted(lines, key=lambda pair: pair[0])])


def page_block(records: Sequence[Record], names: Names) -> list[str]:
    """Everything that stands before the details."""
    mine = bars.main_records(records)
    heads = summarize(mine, unseen=False, severities=False, names=names)
    if not heads:
        return ["No record on the main set yet: every bar is open."]
    rows = chosen(heads[0].rows)
    told = "\n".join(f"- {line}" for line in [*_ours(mine, rows, names), _others(heads[0], rows)])
    return [told, STACKED, table(heads[0], rows, absent=True), RULE, *elsewhere(records, names)]


def elsewhere(records: Sequence[Record], names: Names) -> list[str]:
    """Ours with another set in the wild pool: with the default detector, and with the other one and mirror images."""
    from wildspec.methods import METHODS

    here = [record for record in records if record["protocol"] == bars.MAIN[0] and record["semantic"] != bars.MAIN[1]]
    lines = []
    for other in summarize(here, unseen=False, severities=False, names=names):
        for how in ((METHODS[METHOD].default_detector, False), (BEYOND_DEFAULT, True)):
            mine = [row for row in other.rows if row.method == METHOD and (row.detector, row.how.mirrored) == how]
            if mine:
                row = ours(mine)
                cells = [stacked_cell(row.cells.get(metric)) for metric in PAPER]
                named = f"{other.semantic}<br>({other.stand_in_for})" if other.stand_in_for else other.semantic
                lines.append([named, row.detector, row.how.short, *cells, str(seeds_of(row)), f"{row.seconds / 60:.1f}"])
    if not lines:
        return []
    titles = ["in the pool", "detector", "recipe", *(" ".join(HEADINGS[m]) for m in PAPER), "seeds", "minutes"]
    return [f"{METHOD} with other sets in the wild pool. {OTHERS}", markdown_table(titles, lines)]


def _ours(records: Sequence[Record], rows: Sequence[TableRow], names: Names) -> list[str]:
    """The bars, for rows with enough seeds; then with the default detector."""
    judged = [judge(row) for row in bars.headline_rows(records, names) if row.method in bars.OURS]
    if not judged:
        return ["**Open**: no record of ours yet."]
    single = [judge(row) for record in records for row in bars.headline_rows([record], names) if row.method in bars.OURS]
    plain = [_by_default(judge(row)) for row in rows if row.method == METHOD and row.detector != BEYOND_DEFAULT][:1]
    lines = [_four(judged, single), *plain, _joint(judged)]
    seen = "Our recipes and detectors were chosen while looking at these test images ([log](../dev/log.md))"
    return [*lines, f"{seen}: other seeds are the check."]


def _four(judged: Sequence[Judged], single: Sequence[Judged]) -> str:
    numbers = ", ".join(f"{HEADINGS[metric][0]} {bar}" for metric, bar in bars.four_bars().items())
    title = f"the paper's four numbers on SVHN ({numbers}) by one model within {MINUTES:g} minutes of training"
    enough = [entry for entry in judged if seeds_of(entry.row) >= SEEDS]
    held = sorted((entry for entry in enough if entry.all_four and entry.in_time), key=lambda entry: entry.row.seconds)
    if not held:
        best = min(enough or judged, key=lambda entry: entry.rank)
        why = f"as means over {SEEDS} seeds or more" if enough else f"no recipe of ours has {SEEDS} seeds"
        return f"**Missed**, {why}: {title}. Nearest: {_name(best)}, {best.met} of 4{_but(best)}."
    shown = "; ".join(f"{_name(entry)}, {_each(entry, single)}" for entry in held)
    return f"**Held**, as means over {min(seeds_of(entry.row) for entry in held)} seeds: {title}. By {shown}."


def _each(entry: Judged, single: Sequence[Judged]) -> str:
    """A mean can hide one run that is above and one that is below."""
    each = sorted((other for other in single if other.name == entry.name), key=lambda other: other.row.seeds)
    met = ", ".join(str(other.met) for other in each)
    return f"in {entry.row.seconds / 60:.1f} minutes (its runs one by one: {met} of 4)"


def _by_default(entry: Judged) -> str:
    verdict = "Held" if entry.all_four and entry.in_time else "Missed"
    measured = "mirror images" if entry.row.how.mirrored else "no mirror images"
    return f"**{verdict}** with the default detector and {measured}: {_name(entry)}, {entry.met} of 4{_but(entry)}."


def _joint(judged: Sequence[Judged]) -> str:
    wanted = ", ".join(f"{HEADINGS[m][0]} {bars.asked(m, bar, 0)}" for m, bar in JOINT.items())
    enough = [entry for entry in judged if seeds_of(entry.row) >= SEEDS]
    held = [entry for entry in enough if entry.all_joint]
    both = [entry for entry in held if entry.all_four and entry.in_time]
    title = f"the joint decision ({wanted}), as means over {SEEDS} seeds or more"
    if not held:
        return f"**Missed** by {f'each of our {len(enough)} rows' if enough else 'want of seeds'}: {title}."
    return f"**Held** by {len(held)} of our {len(enough)} rows: {title}; by {len(both)} together with the four numbers."


def _others(head: Table, rows: Sequence[TableRow]) -> str:
    """How near our runs of the paper's own rows come."""
    others = [row for row in rows if row.method != METHOD]
    cells = [row.cells[metric] for row in others for metric in PAPER if metric in row.cells and row.cells[metric].paper]
    met, near = sum(bool(cell.met) for cell in cells), sum(_within(row.cells.get("id_acc"), 1.0) for row in others)
    published = [row for row in others if row.how.preset == "paper" and row.how.as_it_is]
    generous = sum(row.how.all_labels for row in published)
    note = f" ({generous} of these with all labels, not the protocol's half)" if generous else ""
    return (
        f"The paper's own rows: {len(others)} of {len(others) + len(not_run(head))} run, {len(published)} by the published "
        f"recipe{note}, {sum(seeds_of(row) >= SEEDS for row in others)} with {SEEDS} seeds or more. They meet {met} "
        f"of the paper's {len(cells)} numbers, and come to one point of its ID-Acc, or above, in {near} rows."
    )


def _within(cell: Cell | None, points: float) -> bool:
    return cell is not None and cell.difference is not None and cell.difference >= -points


def _but(entry: Judged) -> str:
    return "" if entry.all_four and entry.in_time else f"; it misses {bars.lacking(entry)}"


def _name(entry: Judged) -> str:
    return f"`{entry.row.method}` with `{entry.row.detector}`, recipe {entry.row.how.short}"


def _line(row: TableRow, metrics: Sequence[str]) -> list[str]:
    count = seeds_of(row)
    seeds = str(count) if len(row.seeds) == count else f"{count} ({len(row.seeds)} runs)"
    compared = [row.cells[m] for m in PAPER if m in row.cells and row.cells[m].paper]
    met = f"{sum(bool(cell.met) for cell in compared)}{SPACE}of{SPACE}{len(compared)}" if compared else "–"
    name = f"**{row.name}**" if row.method == METHOD else row.name
    cells = [stacked_cell(row.cells.get(metric)) for metric in metrics]
    return [name, row.detector, row.how.short, *cells, met, seeds, f"{row.seconds / 60:.1f}"]
