"""``--answers`` of fit and embed-fit: what an earlier review was told is used in a new fit."""

from pathlib import Path
from shlex import quote
from typing import Any

from wildspec.errors import InputError


class EarlierAnswers:
    """A table of answers: read before anything is learned, used after. None: there is none, nothing happens."""

    def __init__(self, path: Path | None, column: str, wild: object) -> None:
        self.path, self.used, self.missing = path, 0, list[Any]()
        if path is None:
            return
        from wildspec.serving.review import read_lines

        if wild is None:
            raise InputError("--answers are about wild samples; give them with --wild")
        self.lines, found = read_lines(path)
        self.column = column
        if found != column:
            kind = "images" if column == "image" else "tables of embeddings"
            raise InputError(f"{path} names its samples by {found}, answers about {kind} name them by {column}")

    def teach(self, model: Any, out: Path, save: Any) -> str | None:
        """Learn from them; a line about it. What does not fit costs no fit: the model is kept without them (``save``)."""
        if self.path is None:
            return None
        from wildspec.serving.review import use_answers

        try:
            self.used, self.missing = use_answers(model, self.lines, self.column, self.path)
        except InputError as error:
            save()
            then = f"wildspec review {quote(str(out))} --answers FILE --out MODEL2"
            raise InputError(f"{error}; {out} is written without answers, to give them to it:  {then}") from error
        told = f"learned from {self.used:,} answers of {self.path}"
        if not self.missing:
            return told
        many = f"{len(self.missing):,} more are" if len(self.missing) > 1 else "1 more is"
        return f"{told}; {many} about samples that are not in this pool, first {self.missing[0]}"

    def counts(self) -> dict[str, int]:
        """For JSON."""
        return {} if self.path is None else {"answers": self.used, "answers_missing": len(self.missing)}
