"""--answers of fit and embed-fit: what a review was told is used in a new fit; what does not fit costs no fit."""

import csv
import json

import numpy as np
import pytest

import command
import frozen_bundle
import tiny_model
import wildspec
from shifted_world import make_world

NAMES = np.array(["cat", "dog", "owl"])
pytestmark = pytest.mark.filterwarnings("ignore:the labelled images are tiny")


@pytest.fixture
def run(monkeypatch, capsys):
    return command.runner(monkeypatch, capsys)


@pytest.fixture
def photographs():
    root = frozen_bundle.folder()
    frozen_bundle.bundle()
    return ("fit", "--labelled", root / "labelled", "--wild", root / "wild", "--backbone", "small", "--frozen", "--init",
            root / "weights.safetensors", "--size", "16", "--alpha", "0.1", "--no-flip", "--device", "cpu")  # fmt: skip


@pytest.fixture(scope="module")
def world():
    return make_world(2)


@pytest.fixture
def tables(world, tmp_path):
    np.savez(tmp_path / "known.npz", X=world.labelled, y=NAMES[world.labels])
    np.savez(tmp_path / "wild.npz", X=world.wild)
    return tmp_path / "known.npz", tmp_path / "wild.npz"


def table(path, *lines):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(lines)
    return path


def test_answers_about_photographs_are_used_by_name(run, photographs, tmp_path):
    asked = wildspec.load(frozen_bundle.bundle()).questions(9)
    said = [[name, frozen_bundle.truth(name), "another pool"] for name in asked]
    path = table(tmp_path / "a.csv", ["image", "class", "pool"], *said, ["gone.png", "bar", ""])
    status, out, errors = run(*photographs, "--out", tmp_path / "M", "--answers", path, "--json")
    assert status == 0, errors
    found = json.loads(out)
    assert (found["answers"], found["answers_missing"]) == (9, 1)
    model = wildspec.load(tmp_path / "M")
    oracle = wildspec.load(frozen_bundle.bundle()).answer({name: frozen_bundle.truth(name) for name in asked})
    pictures, _ = tiny_model.pictures({"stripes": 5, "bar": 5}, 9)
    np.testing.assert_allclose(model.ood_score(pictures), oracle.ood_score(pictures), atol=1e-5)


def test_what_was_drawn_at_random_stays_drawn_in_another_fit(run, photographs, tmp_path):
    drawn = wildspec.load(frozen_bundle.bundle()).questions(20, "random")
    path = table(tmp_path / "a.csv", ["image", "class"], *([name, frozen_bundle.truth(name)] for name in drawn))
    status, _, errors = run(*photographs, "--out", tmp_path / "M", "--answers", path, "--seed", "4")
    assert status == 0, errors
    assert wildspec.load(tmp_path / "M").review().facts()["shares"]["drawn"] == 20


def test_answers_about_rows_are_used_in_another_fit_of_the_same_table(run, tables, world, tmp_path):
    assert run("embed-fit", *tables, "--out", tmp_path / "M")[0] == 0
    assert run("review", tmp_path / "M", "--ask", "15", "--out", tmp_path / "ask.csv")[0] == 0
    with open(tmp_path / "ask.csv", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    for line in lines:
        line["class"] = "unknown" if world.wild_kind[int(line["row"])] == 2 else line["likely"]
    table(tmp_path / "ask.csv", list(lines[0]), *(line.values() for line in lines))
    np.savez(tmp_path / "more.npz", X=world.labelled[:-9], y=NAMES[world.labels[:-9]])  # other labelled samples, same pool
    options = ("--out", tmp_path / "M2", "--answers", tmp_path / "ask.csv", "--json")
    for words in (("embed-fit", tmp_path / "more.npz", tables[1], "--seed", "3"),
                  ("fit", "--from-embeddings", "--labelled", tmp_path / "more.npz", "--wild", tables[1])):  # fmt: skip
        status, out, errors = run(*words, *options)
        assert status == 0, errors
        assert json.loads(out)["answers"] == 15
        given = wildspec.load(tmp_path / "M2").review().answers
        assert given == {int(line["row"]): None if line["class"] == "unknown" else line["class"] for line in lines}
    np.savez(tmp_path / "other.npz", X=world.wild[::-1])
    status, _, errors = run("embed-fit", tables[0], tmp_path / "other.npz", *options)
    assert status == 2
    assert "pool" in errors
    assert "without answers" in errors
    assert not wildspec.load(tmp_path / "M2").review().answers  # what was learned from the tables is not lost


def test_what_does_not_fit_is_one_line_before_anything_is_learned(run, photographs, tables, tmp_path):
    by_row = table(tmp_path / "r.csv", ["row", "class"], [0, "cat"])
    by_name = table(tmp_path / "i.csv", ["image", "class"], ["w0.png", "bar"])
    (tmp_path / "l.csv").write_bytes("image,class\nw.png,\xe9lan\n".encode("latin-1"))
    root = frozen_bundle.folder()
    trained = ("fit", "--labelled", root / "labelled", "--wild", root / "wild", "--epochs", "1")
    for words, path, word in [(photographs, by_row, "image"), (("embed-fit", *tables), by_name, "row"),
                              (photographs, tmp_path / "l.csv", "UTF-8"), (photographs, tmp_path / "none.csv", "none.csv"),
                              (trained, by_name, "frozen"), (photographs[:3], by_name, "--wild")]:  # fmt: skip
        status, _, errors = run(*words, "--out", tmp_path / "M", "--answers", path)
        assert status == 2
        assert word in errors
        assert len(errors.strip().splitlines()) == 1
        assert not (tmp_path / "M").exists()


def test_answers_that_do_not_fit_the_classes_leave_a_model_without_them(run, photographs, tmp_path):
    path = table(tmp_path / "a.csv", ["image", "class"], ["w000.png", "BAR"])
    status, _, errors = run(*photographs, "--out", tmp_path / "M", "--answers", path)
    assert status == 2
    assert "case" in errors
    assert len(wildspec.load(tmp_path / "M").questions(3)) == 3
