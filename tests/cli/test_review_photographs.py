"""wildspec review of an image bundle: the same files and words as for embeddings; every mistake is one line."""

import csv
import json

import numpy as np
import pytest

import command
import frozen_bundle
import tiny_model
import wildspec


@pytest.fixture
def run(monkeypatch, capsys):
    return command.runner(monkeypatch, capsys)


def table(path, lines, separator=","):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=separator).writerows(lines)
    return path


def test_ask_fill_in_learn_and_score(run, tmp_path):
    bundle, ask = frozen_bundle.bundle(), tmp_path / "ask me.csv"
    status, said, errors = run("review", bundle, "--ask", "12", "--out", ask)
    assert status == 0, errors
    assert f"'{ask}'" in said  # what is to be typed next can be typed
    with open(ask, encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["image"] for line in lines] == wildspec.load(bundle).questions(12)
    assert {line["class"] for line in lines} == {""}
    assert {line["likely"] for line in lines} <= set(tiny_model.CLASSES)
    filled = [{**line, "class": frozen_bundle.truth(line["image"])} for line in lines]
    table(ask, [list(lines[0]), *(line.values() for line in filled)])
    status, said, errors = run("review", bundle, "--answers", ask, "--out", tmp_path / "M2", "--json")
    assert status == 0, errors
    record = json.loads(said)
    assert record["answers"] == record["after"]["answers"] == 12
    assert record["before"]["wild"] == 84
    oracle = wildspec.load(bundle).answer({line["image"]: line["class"] for line in filled})
    pictures, _ = tiny_model.pictures({"stripes": 5, "bar": 5}, 9)
    np.testing.assert_array_equal(wildspec.load(tmp_path / "M2").ood_score(pictures), oracle.ood_score(pictures))
    assert run("review", tmp_path / "M2", "--answers", ask, "--out", tmp_path / "M3")[0] == 0  # its pool is the same
    assert run("review", tmp_path / "M2", "--ask", "5", "--out", tmp_path / "more.csv")[0] == 0
    with open(tmp_path / "more.csv", encoding="utf-8") as stream:
        assert {line["image"] for line in csv.DictReader(stream)}.isdisjoint(line["image"] for line in lines)
    wild = frozen_bundle.folder() / "wild"
    assert run("score", tmp_path / "M2", wild, "--out", tmp_path / "scores.csv")[0] == 0


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ([["image", "class", "pool"], ["w000.png", "bar", "0123456789ab"]], "pool"),
        ([["image", "class"], ["w999.png", "bar"]], "w999.png"),
        ([["image", "class"], ["w000.png", "bar"], ["w000.png", "disc"]], "w000.png"),
        ([["image", "class"], ["w000.png", "BAR"]], "case"),
        ([["image", "class"], ["w000.png", "stripe"], ["w001.png", "Stripe"]], "case"),
        ([["image", "class"], ["w000.png", ""]], "no answers"),
        ([["image", "class"]], "no answers"),
        ([], "columns"),
        ([["row", "class"], ["0", "bar"]], "row"),
        ([["image", "label"], ["w000.png", "bar"]], "columns"),
    ],
)
def test_a_table_that_does_not_fit_is_one_line_and_writes_nothing(run, tmp_path, lines, word):
    path = table(tmp_path / "a.csv", lines)
    status, _, errors = run("review", frozen_bundle.bundle(), "--answers", path, "--out", tmp_path / "M2")
    assert status == 2
    assert word in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "M2").exists()


def test_what_a_spreadsheet_does_to_a_table_is_understood(run, tmp_path):
    lines = [["Image", "Class", ""], ["w000.png", " bar ", ""], ["w061.png"], ["w062.png", "UNKNOWN"]]
    path = table(tmp_path / "a.csv", lines, ";")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    status, said, errors = run("review", frozen_bundle.bundle(), "--answers", path, "--out", tmp_path / "M2", "--json")
    assert status == 0, errors
    assert json.loads(said)["answers"] == 2
    assert wildspec.load(tmp_path / "M2").review().answers == {"w000.png": "bar", "w062.png": None}
    path.write_bytes("image,class\nw000.png,\xe9lan\n".encode("latin-1"))
    status, _, errors = run("review", frozen_bundle.bundle(), "--answers", path, "--out", tmp_path / "M3")
    assert status == 2
    assert "UTF-8" in errors


def test_a_name_that_no_class_has_is_told(run, tmp_path):
    path = table(tmp_path / "a.csv", [["image", "class"], ["w000.png", "bar"], ["w001.png", "brr"], ["w062.png", "unknown"]])
    status, said, errors = run("review", frozen_bundle.bundle(), "--answers", path, "--out", tmp_path / "M2")
    assert status == 0, errors
    assert "brr (1)" in said
    status, said, _ = run("review", frozen_bundle.bundle(), "--answers", path, "--out", tmp_path / "M3", "--json")
    assert json.loads(said)["new_names"] == {"brr": 1}


def test_a_network_that_was_trained_is_told_in_a_line(run, tmp_path):
    status, _, errors = run("review", tiny_model.bundle(), "--ask", "3", "--out", tmp_path / "ask.csv")
    assert status == 2
    assert "frozen" in errors
    assert len(errors.strip().splitlines()) == 1


def test_all_unknown_is_a_sensible_answer_and_no_table_is_none(run, tmp_path):
    bundle = frozen_bundle.bundle()
    path = table(tmp_path / "a.csv", [["image", "class"], *([f"w{number:03d}.png", "unknown"] for number in range(60, 70))])
    status, said, errors = run("review", bundle, "--answers", path, "--out", tmp_path / "M2", "--json")
    assert status == 0, errors
    assert json.loads(said)["after"]["rejected"] >= json.loads(said)["before"]["rejected"]
    (tmp_path / "b.csv").write_bytes(b"PK\x03\x04\xff\xfe\x00spreadsheet")
    for wrong in (tmp_path / "b.csv", tmp_path, tmp_path / "none.csv"):
        status, _, errors = run("review", bundle, "--answers", wrong, "--out", tmp_path / "M3")
        assert status == 2
        assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "M3").exists()
