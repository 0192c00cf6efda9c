"""A person in the loop through a table: questions as CSV, answers from it.

    image   name in the wild pool; of a table of embeddings: row, and where its table is given the row's name
    class   empty: for the person to fill in (a class, unknown, a new name); left empty above others: passed over
    likely, decision, ood_score, threshold      what the model thinks
    pool    which wild pool it is of

The page's own table (`wildspec.serving.answer_log`) is read as well: answers that were taken back or replaced do not count.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.decision.review import Review
from wildspec.errors import InputError
from wildspec.files import plain, replacing
from wildspec.serving.answer_log import is_log, log_table
from wildspec.serving.review_words import Tally, tally
from wildspec.serving.rows import guarded, unguarded

NAMED = ("image", "row")  # the column that says which sample
THINKS = ("likely", "decision", "ood_score", "threshold", "pool")
SEPARATORS = ",;\t"  # spreadsheets of some countries write the others


@dataclass(frozen=True)
class Line:
    """An answer as it stands in a file: ``number`` of its line, ``name`` and ``said`` as text, ``pool`` or empty."""

    number: int
    name: str
    said: str
    pool: str


def check_questions(out: Path) -> None:
    """Questions may take the place of questions, but not of what a person has filled in."""
    if not out.is_file():
        return
    try:
        said = sum(bool(line.said) for line in read_lines(out)[0])
    except InputError:  # no table, or one without answers
        return
    many = f"{said:,} answers" if said > 1 else "1 answer"
    raise InputError(f"{out} has {many}, which would be lost; choose another --out")


def write_questions(review: Review, n: int, rule: str, out: Path, names: Sequence[str] | None = None) -> int:
    """At most n questions to a CSV file; how many they are. ``names``: what the rows of the pool's table are called."""
    check_questions(out)
    asked = review.about(review.ask(n, rule))
    if names is not None and asked and max(int(one.name) for one in asked) >= len(names):
        raise InputError(f"the table given has {len(names):,} rows, the model was fitted on a longer one; give that one")
    with replacing(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([_column(review), *(() if names is None else ("name",)), "class", *THINKS])
        for one in asked:
            likely = guarded(str(one.likely))
            decision = "rejected" if one.rejected else likely
            numbers = f"{one.score:.6g}", f"{one.threshold:.6g}"
            called = () if names is None else (guarded(names[int(one.name)]),)
            writer.writerow([guarded(str(one.name)), *called, "", likely, decision, *numbers, review.pool_id])
    return len(asked)


def read_answers(review: Review, path: Path) -> tuple[dict[Any, str], list[Any]]:
    """Name -> what stands in column class, for this pool; and names of lines above the last answer that have none."""
    lines, column = read_lines(path)
    _check_column(review, column, path)
    if (other := _of_another(review, lines)) is not None:
        raise InputError(
            f"{path}, line {other.number}, is about the pool {other.pool}, this model's is {review.pool_id}; use its own "
            "model, or give the file to a new fit (--answers)"
        )
    given = by_name(lines, column, path)
    named = {str(name): name for name in review.names.tolist()}
    passed = [named[line.name] for line in lines if not line.said and line.name in named]
    return given, [name for name in dict.fromkeys(passed) if name not in given]


def use_answers(estimator: Any, lines: Sequence[Line], column: str, path: Path) -> tuple[int, list[Any]]:
    """Answers of an earlier review for a model that was just fitted: how many were learned from, and names that are not in
    its pool. Images go by name; rows are the same only in the same table."""
    review = estimator.review()
    _check_column(review, column, path)
    if column == "row" and (other := _of_another(review, lines)) is not None:
        raise InputError(
            f"{path}, line {other.number}, is about the pool {other.pool}, this table's is {review.pool_id}: its rows may "
            "be others; give the wild table that was asked about"
        )
    given = by_name(lines, column, path)
    there = set(review.names.tolist())
    missing = [name for name in given if name not in there]
    if len(missing) == len(given):
        raise InputError(f"{path}: none of its {len(given)} answers is about a sample of this pool, first {missing[0]!r}")
    review.answer({name: said for name, said in given.items() if name in there})
    review.refit()
    estimator.take(review)
    return len(given) - len(missing), missing


def read_lines(path: Path) -> tuple[list[Line], str]:
    """The lines of a table down to the last answer, and the column by which they name samples, image or row."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            head = stream.readline()
            stream.seek(0)
            separator = max(SEPARATORS, key=head.count)
            if is_log(head):
                table = log_table(stream.read(), separator)
            else:
                table = list(csv.reader(stream, delimiter=separator))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    columns = [name.strip().casefold() for name in table[0]] if table else []
    named = next((name for name in NAMED if name in columns), None)
    if named is None or "class" not in columns:
        got = plain(", ".join(columns)[:80]) or "nothing"
        raise InputError(f"{path} needs the columns image (or row) and class, got {got}; fill in what --ask wrote")
    place = {name: columns.index(name) if name in columns else len(columns) for name in (named, "class", "pool")}

    def cell(row: Sequence[str], name: str) -> str:
        found = row[place[name]] if place[name] < len(row) else ""
        return unguarded(found)

    lines = [
        Line(number, cell(row, named), cell(row, "class").strip(), cell(row, "pool").strip())
        for number, row in enumerate(table[1:], start=2)
    ]
    last = max((i for i, line in enumerate(lines) if line.said), default=None)
    if last is None:
        raise InputError(f"{path} holds no answers; fill in its column class with a class, unknown or a new name")
    return lines[: last + 1], named


def by_name(lines: Sequence[Line], column: str, path: Path) -> dict[Any, str]:
    """Name (a whole number in a column row) -> what was said; two answers for one sample are an error."""
    found: dict[Any, str] = {}
    for line in (line for line in lines if line.said):
        name: Any = line.name
        if column == "row":
            try:
                name = int(line.name)
            except ValueError:
                raise InputError(f"{path}, line {line.number}: row must be a whole number, got {line.name!r}") from None
        before = found.setdefault(name, line.said)
        if before != line.said:
            raise InputError(
                f"{path}, line {line.number}: {column} {name} is {before!r} before and {line.said!r} here; keep one answer"
            )
    return found


def tallies(review: Review, given: Mapping[Any, Any], before: np.ndarray) -> tuple[Tally, Tally]:
    """Of the samples answered: by the model as it was and as it is. ``before``: (m,) which samples were rejected."""
    place = {sample: i for i, sample in enumerate(review.learned.rule.reference.tolist())}
    answers = review.answers
    samples = zip(review.places(given), given, strict=True)
    known = {place[at]: answers[name] in review.learned.classes for at, name in samples if at in place}
    return tally(before, known), tally(review.learned.rejected, known)


def new_names(review: Review) -> dict[str, int]:
    """Names in the answers that are no class, and of how many samples: a new thing, or a class misspelt."""
    said = [one for one in review.answers.values() if one is not None and one not in review.learned.classes]
    return {str(name): said.count(name) for name in dict.fromkeys(said)}


def drawn_in_words(review: Review) -> list[str]:
    """What answers drawn at random say of the pool and promise; nothing where none was drawn or asked for."""
    shares, facts = review.shares(), review.promise_facts()
    said = [] if shares is None else [shares.describe()]
    if promised := promise_in_words(review, " (--ask N --rule random)"):
        said.append(promised)
    elif facts["drawn"] and not facts["missing"]:
        said.append(f"enough was drawn for a promise about shifted samples of known classes: --promise {facts['alpha']:g}")
    return said


def promise_in_words(review: Review, how: str = "") -> str:
    """The promise for shifted samples, or what it takes; nothing where none was asked for. ``how``: to answer more."""
    promise, facts = review.learned.thresholds.promise, review.promise_facts()
    if promise is not None:
        return promise.describe()
    if review.promise is None:
        return ""
    left = len(review.learned.rule.reference) - facts["drawn"]
    enough = facts["missing"] <= left
    more = f"answer about {facts['missing']} more{how}" if enough else f"the pool has only {left} more to ask about"
    return (
        f"No promise of {100 * facts['alpha']:.3g} % for shifted samples of known classes yet: {facts['needed']} such "
        f"samples must be among those drawn at random, {facts['known']} of {facts['drawn']} are; {more}; all answers were "
        "learned from."
    )


def _check_column(review: Review, column: str, path: Path) -> None:
    if column != _column(review):
        raise InputError(
            f"{path} names its samples by {column}, this model's pool by {_column(review)}; fill in what --ask wrote of it"
        )


def _of_another(review: Review, lines: Sequence[Line]) -> Line | None:
    return next((line for line in lines if line.pool and line.pool != review.pool_id), None)


def _column(review: Review) -> str:
    return "image" if isinstance(review.names.tolist()[0], str) else "row"
