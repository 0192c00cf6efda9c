"""Tables as markdown, CSV and LaTeX: the text against what one reads off it."""

import csv
import io
import json
import re

import pytest
from tests.bench.making import record, wide

from wildspec.bench.latex import to_latex
from wildspec.bench.records import METRICS, OPEN_SET
from wildspec.bench.render import render, to_csv, to_markdown
from wildspec.bench.tables import summarize
from wildspec.errors import InputError


def test_markdown_has_every_number_its_source_and_its_command() -> None:
    text = to_markdown(summarize(wide()))
    assert "93.00 ± 0.00 (93.10; -0.10)" in text
    assert "**99.95" not in text
    assert "70.00 / 40.00 / 20.00" in text, "severity 2"
    assert "63.00 / 99.95 / 20.00" in text, "miniplaces"
    for needle in ("`wildspec bench cifar10 --semantic svhn`", "a processor, 2 cores", "torch 2.4", "labelled abababababab"):
        assert needle in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|") and "ID-Acc" in line}
    shown = len(METRICS) - len(OPEN_SET) - 1
    assert widths == {1 + 3 + shown + 3}, "all but the validation accuracy, which is in the CSV, and those of other domains"


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(summarize(wide())))))
    assert len(rows) == 7
    assert float(rows[0]["id_acc_mean"]) == 93
    assert float(rows[0]["id_acc_paper"]) == 93.10
    assert float(rows[0]["id_acc_difference"]) == pytest.approx(-0.1)
    assert rows[0]["fs_auroc_paper"] == ""
    assert rows[0]["seeds"] == "0 1"


def test_a_bar_in_a_name_makes_no_column() -> None:
    text = to_markdown(summarize([record(recipe="a|b"), record(recipe="fast", seed=1)]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {lines[1].count("|")}
    assert r"a\|b" in text


def test_latex_is_balanced_and_escaped() -> None:
    text = to_latex(summarize([*wide(), record(semantic="scenes9_crop", auroc=0.9999)]))
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 4  # the paper's metrics and the others, two sets
    assert text.count("{") == text.count("}")
    assert r"scenes9\_crop" in text
    assert r"gaussian\_noise" in text
    assert r"$93.00_{\pm 0.00}$ {\scriptsize ($93.10; -0.10$)}" in text
    met = to_latex(summarize([record(id_acc=0.9312), record(id_acc=0.9310, method="erm", detector="energy")]))
    assert r"$\mathbf{93.12}$ {\scriptsize ($93.10; +0.02$)}" in met
    assert r"$93.10$ {\scriptsize ($94.84; -1.74$)}" in met  # below what the paper has for that row: not bold


def test_latex_escapes_every_character_with_a_meaning() -> None:
    text = to_latex(summarize([record(recipe="a_b%c&d#e$f{g}^h~i\\j<k>l", protocol="office-home", semantic="Ar->Cl")]))
    expected = (
        r"a\_b\%c\&d\#e\$f\{g\}\textasciicircum{}h\textasciitilde{}i\textbackslash{}j\textless{}k\textgreater{}l"
    )
    assert expected in text
    assert r"Ar-\textgreater{}Cl" in text


def test_every_latex_row_has_the_columns_of_its_table() -> None:
    text = to_latex(summarize([*wide(), record(method="erm", detector="energy", fs_auroc=None, seed=3)]))
    parts = text.split(r"\begin{table}")[1:]
    assert len(parts) == 2
    for part in parts:
        (columns,) = re.findall(r"\\begin{tabular}{(\w+)}", part)
        inside = part.split(r"\toprule")[1].split(r"\bottomrule")[0]
        lines = [line for line in inside.splitlines() if "&" in line]
        assert len(lines) == 4, "the titles, the paper's two rows of cross-entropy with energy, ours"
        for line in lines:
            assert line.endswith(r" \\")
            assert line.count("&") == len(columns) - 1
            assert line.count("$") % 2 == 0
    assert r"\text{" not in text, "needs no package but the two it names"
    first, second = (re.search(r"Method.*", part).group() for part in parts)  # type: ignore[union-attr]
    assert re.findall(r"[\w-]+(?= \$)", first) == ["ID-Acc", "OOD-Acc", "FPR95", "AUROC"]
    assert not set(re.findall(r"[\w-]+(?= \$)", second)) & {"ID-Acc", "OOD-Acc", "FPR95", "AUROC"}
    assert "fs-FPR95" in second


def test_latex_recipes_stand_below_under_letters_where_there_are_several() -> None:
    alone = to_latex(summarize([record(recipe="fast")]))
    assert "Recipe: fast.}" in alone
    assert "& Recipe" not in alone
    long = "fast, pretrain.epochs=400, rounds=2"
    text = to_latex(summarize([record(recipe="fast"), record(recipe=long, method="erm", detector="energy")]))
    assert text.count(f"a: {long}; b: fast.}}") == 2  # as they come in the table, cross-entropy first; both tables say it
    assert re.search(r"^ *spectral & knn & b & ", text, re.MULTILINE)
    assert re.search(r"^ *energy & energy & a & ", text, re.MULTILINE)
    assert long not in text.split(r"\toprule")[1].split(r"\bottomrule")[0]


def test_csv_and_latex_say_where_the_numbers_come_from() -> None:
    tables = summarize(wide())
    row = next(csv.DictReader(io.StringIO(to_csv(tables))))
    assert row["hardware"] == "a processor, 2 cores"
    assert row["versions"] == "python 3.11, torch 2.4"
    assert (row["commits"], row["splits"]) == ("abc", "labelled abababababab")
    assert row["commands"] == "wildspec bench cifar10 --semantic svhn"
    assert (row["seconds"], row["views"]) == ("120.0", "6000000")
    text = to_latex(tables)
    for needle in ("% hardware: a processor", "% versions: python 3.11", "% commit: abc", "labelled abab", "% command"):
        assert needle in text


def test_render_formats() -> None:
    tables = summarize([record()])
    assert render(tables, "csv") == to_csv(tables)
    assert json.loads(json.dumps([table.to_json() for table in tables]))[0]["rows"][0]["method"] == "spectral"
    with pytest.raises(InputError, match="format must be one of"):
        render(tables, "html")
