"""A person in the loop through a table: questions as CSV, answers from it.

    row     of the wild table          class   empty: for the person to fill in (a class, unknown, a new name)
    pool    which wild pool it is of   likely, decision, ood_score, threshold: what the model thinks
"""

import csv
from pathlib import Path

from wildspec.decision.review import Review
from wildspec.errors import InputError
from wildspec.files import replacing
from wildspec.serving.rows import FORMULA

COLUMNS = ("row", "class", "likely", "decision", "ood_score", "threshold", "pool")


def write_questions(review: Review, n: int, rule: str, out: Path) -> int:
    """At most n questions to a CSV file; how many they are."""
    asked = review.about(review.ask(n, rule))
    with replacing(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for one in asked:
            likely = str(one.likely)
            likely = f"'{likely}" if likely.startswith(FORMULA) else likely  # a spreadsheet would compute it
            decision = "rejected" if one.rejected else likely
            writer.writerow([one.name, "", likely, decision, f"{one.score:.6g}", f"{one.threshold:.6g}", review.pool_id])
    return len(asked)


def read_answers(review: Review, path: Path) -> dict[int, str]:
    """Row -> what stands in column class; rows without an answer are passed over."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            lines = list(csv.DictReader(stream))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if lines and not {"row", "class"} <= set(lines[0]):
        columns = ", ".join(map(str, lines[0]))
        raise InputError(f"{path} needs the columns row and class, got {columns}; fill in what --ask wrote")
    name = review.pool_id
    found: dict[int, str] = {}
    for number, line in enumerate(lines, start=2):
        said = (line["class"] or "").strip()
        if not said:
            continue
        if (other := line.get("pool")) and other != name:
            raise InputError(f"{path}, line {number}, is about the pool {other}, this model's is {name}; use its own model")
        try:
            row = int(line["row"])
        except (TypeError, ValueError):
            raise InputError(f"{path}, line {number}: row must be a whole number, got {line['row']!r}") from None
        if found.setdefault(row, said) != said:
            raise InputError(f"{path}, line {number}: row {row} is {found[row]!r} before and {said!r} here; keep one answer")
    if not found:
        raise InputError(f"{path} holds no answers; fill in its column class with a class, unknown or a new name")
    return found
