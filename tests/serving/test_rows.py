"""Cells of scores.csv that a table calculator would run are text."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from wildspec.serving.rows import COLUMNS, error_row, row_writer

NAMES = ["=1+2", "+1", "-2.png", "@SUM(A1)", "\t=1", "plain.png", "a=b", "it's"]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_no_cell_is_a_formula(tmp_path: Path, kind: str) -> None:
    rows = [{**error_row(name, "why"), "decision": name, "neighbours": [name, "x"], "ood_score": -1.5} for name in NAMES]
    with row_writer(tmp_path / f"s{kind}") as writer:
        writer.write(rows)
    if kind == ".parquet":
        assert pq.read_table(tmp_path / "s.parquet").column("decision").to_pylist() == NAMES
        return
    with open(tmp_path / "s.csv", newline="", encoding="utf-8") as stream:
        head, *found = list(csv.reader(stream))
    assert tuple(head) == COLUMNS
    for name, row in zip(NAMES, found, strict=True):
        cells = dict(zip(head, row, strict=True))
        wanted = f"'{name}" if name[0] in "=+-@\t" else name
        assert cells["image"] == cells["decision"] == wanted
        assert cells["neighbours"] == f"{wanted} | x"
        assert cells["ood_score"] == "-1.5", "numbers stay numbers"
