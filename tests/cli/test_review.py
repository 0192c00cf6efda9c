"""wildspec review: questions to a table, answers from it; every mistake is one line and writes nothing."""

import csv
import json
import shutil

import numpy as np
import pytest

import command
import wildspec
from shifted_world import make_world
from wildspec import SpectralClassifier

NAMES = np.array(["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def world():
    return make_world(2)


@pytest.fixture(scope="module")
def bundle(world, tmp_path_factory):
    path = tmp_path_factory.mktemp("review") / "MODEL"
    SpectralClassifier(random_state=0).fit(world.labelled, NAMES[world.labels], X_wild=world.wild).save(path)
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    return command.runner(monkeypatch, capsys)


def table(path, rows, columns=("row", "class")):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([columns, *rows])
    return path


def test_ask_fill_in_and_learn(run, bundle, world, tmp_path):
    ask = tmp_path / "ask.csv"
    status, _, errors = run("review", bundle, "--ask", "12", "--out", ask)
    assert status == 0, errors
    with open(ask, encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [int(line["row"]) for line in lines] == wildspec.load(bundle).questions(12).tolist()
    assert {line["class"] for line in lines} == {""}
    for line in lines:
        line["class"] = "unknown" if world.wild_kind[int(line["row"])] == 2 else line["likely"]
    filled = table(ask, [list(line.values()) for line in lines], list(lines[0]))
    status, said, errors = run("review", bundle, "--answers", filled, "--out", tmp_path / "M2", "--json")
    assert status == 0, errors
    record = json.loads(said)
    assert record["answers"] == 12
    learned = wildspec.load(tmp_path / "M2")
    oracle = wildspec.load(bundle).answer({int(line["row"]): line["class"] for line in lines})
    np.testing.assert_array_equal(learned.ood_score(world.unknown), oracle.ood_score(world.unknown))
    # the same table fits the model that has learned from it
    status, said, _ = run("review", tmp_path / "M2", "--answers", filled, "--out", tmp_path / "M3")
    assert status == 0
    strange = [int(line["row"]) for line in lines if line["class"] == "unknown"]
    found = sum(oracle.predict(world.wild[strange]) == "rejected")
    assert f"unknown found {found} of {len(strange)}" in said
    assert "wildspec report" in said
    counted = record["answered"]
    assert (counted["unknown"], counted["unknown_rejected"]) == (len(strange), found)
    assert counted["known"] == len(lines) - len(strange)


def test_rows_are_asked_about_by_name_where_their_table_is_given(run, bundle, world, tmp_path):
    names = np.array([f"film {i}.jpg" for i in range(len(world.wild))])
    np.savez(tmp_path / "wild.npz", features=world.wild, name=names)
    status, _, errors = run("review", bundle, "--ask", "5", "--wild", tmp_path / "wild.npz", "--out", tmp_path / "ask.csv")
    assert status == 0, errors
    with open(tmp_path / "ask.csv", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["name"] for line in lines] == [names[int(line["row"])] for line in lines]
    filled = table(tmp_path / "b.csv", [[line["row"], line["name"], "unknown"] for line in lines], ("row", "name", "class"))
    assert run("review", bundle, "--answers", filled, "--out", tmp_path / "M9")[0] == 0
    np.savez(tmp_path / "short.npz", features=world.wild[:3], name=names[:3])
    status, _, errors = run("review", bundle, "--ask", "5", "--wild", tmp_path / "short.npz", "--out", tmp_path / "c.csv")
    assert (status, "has 3 rows" in errors) == (2, True)


@pytest.mark.parametrize(
    ("rows", "columns", "word"),
    [
        ([[0, "cat", "0123456789ab"]], ("row", "class", "pool"), "pool"),
        ([[99999, "cat"]], ("row", "class"), "99999"),
        ([["x.jpg", "cat"]], ("row", "class"), "x.jpg"),
        ([[0, "cat"], [0, "dog"]], ("row", "class"), "row 0"),
        ([[0, "Cat"]], ("row", "class"), "case"),
        ([[0, ""]], ("row", "class"), "no answers"),
        ([], ("row", "class"), "no answers"),
        ([[0, "cat"]], ("image", "class"), "by row"),
        ([[0, "cat"]], ("number", "class"), "columns"),
    ],
)
def test_a_table_that_does_not_fit_is_one_line(run, bundle, tmp_path, rows, columns, word):
    path = table(tmp_path / "a.csv", rows, columns)
    status, _, errors = run("review", bundle, "--answers", path, "--out", tmp_path / "M2")
    assert status == 2
    assert word in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "M2").exists()


def test_encoding_all_unknown_and_missing_options(run, bundle, tmp_path):
    (tmp_path / "a.csv").write_bytes("row,class\n0,\xe9lan\n".encode("latin-1"))
    status, _, errors = run("review", bundle, "--answers", tmp_path / "a.csv", "--out", tmp_path / "M2")
    assert status == 2
    assert "UTF-8" in errors
    path = table(tmp_path / "b.csv", [[row, "unknown"] for row in range(5)])
    assert run("review", bundle, "--answers", path, "--out", tmp_path / "M2")[0] == 0
    status, _, errors = run("review", bundle, "--ask", "3", "--answers", path, "--out", tmp_path / "M2")
    assert status == 2
    assert "not both" in errors
    status, _, errors = run("review", bundle, "--ask", "3")
    assert status == 2
    assert "--out" in errors


def test_the_page_refuses_what_does_not_fit_before_it_serves(run, bundle, tmp_path):
    (tmp_path / "wrong.csv").write_text("image,decision\nx.png,cat\n", encoding="utf-8")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "photo.png").touch()
    for words, word in (
        (["--log", tmp_path / "wrong.csv"], "--log"), (["--out", tmp_path / "taken"], "--out"),
        (["--rule", "coin"], "question rule"), (["--wild", tmp_path / "none.parquet"], "none.parquet"),
        (["--images", tmp_path], "--wild"), (["--promise", "1"], "--promise"), (["--promise", "0.1", "--ask", "5"], "page"),
    ):  # fmt: skip
        status, _, errors = run("review", bundle, "--no-browser", *words)
        assert status == 2, words
        assert word in errors
        assert len(errors.strip().splitlines()) == 1


def test_random_answers_are_counted_and_promise_something(run, bundle, world, tmp_path):
    def answered(count):
        (tmp_path / "r.csv").unlink(missing_ok=True)  # questions do not take the place of answers
        assert run("review", bundle, "--ask", count, "--rule", "random", "--out", tmp_path / "r.csv")[0] == 0
        rows = wildspec.load(bundle).questions(count, "random").tolist()
        table(tmp_path / "r.csv", [[row, "unknown" if world.wild_kind[row] == 2 else "cat"] for row in rows])
        return rows

    rows = answered(70)
    words = ("review", bundle, "--answers", tmp_path / "r.csv", "--out", tmp_path / "M2")
    status, said, errors = run(*words, "--promise", "0.1", "--json")
    assert status == 0, errors
    after = json.loads(said)["after"]
    assert after["promise"]["made"] is True
    unknown = np.mean(world.wild_kind[rows] == 2)
    assert after["shares"]["drawn"] == 70
    assert after["shares"]["unknown"][0] == after["unknown_share"] == pytest.approx(unknown)
    learned = wildspec.load(tmp_path / "M2")
    assert learned.thresholds_.promise.alpha == 0.1
    assert set(learned.review().answers) == set(rows)
    assert not set(learned.questions(30, "random")) & set(rows)
    said = run(*words, "--promise", "0.1")[1]
    assert "drawn at random" in said
    assert "Learned from 0 answers" in said, "they are all drawn"
    lines = (tmp_path / "r.csv").read_text().splitlines()
    drawn = wildspec.load(bundle).questions(80, "random")[70:]  # the last is asked about alone: a gap lies before it
    (tmp_path / "more.csv").write_text("\n".join([*lines, f"{drawn[-1]},unknown"]) + "\n")
    more = ("review", bundle, "--answers", tmp_path / "more.csv", "--out", tmp_path / "M4", "--promise", "0.1")
    status, said, errors = run(*more)
    assert status == 0, errors
    assert "Learned from 1 answer" in said
    assert "--promise" in run(*words)[1]  # there would be enough for one
    lines = (tmp_path / "r.csv").read_text().splitlines()
    lines[3] = lines[3].replace(",unknown", ",").replace(",cat", ",")  # passed over: it may be anything
    (tmp_path / "r.csv").write_text("\n".join(lines[:61]) + "\n")
    shares = json.loads(run(*words, "--json")[1])["after"]["shares"]
    assert (shares["drawn"], shares["skipped"]) == (60, 1)
    answered(5)
    status, said, _ = run(*words, "--promise", "0.1")
    assert status == 0
    assert "9 such samples" in said
    assert wildspec.load(tmp_path / "M2").thresholds_.promise is None
    for more, word in ((("--promise", "2"), "promise"), (("--promise", "0"), "promise")):
        status, _, errors = run(*words, *more)
        assert status == 2
        assert word in errors


def test_from_inside_the_models_folder_all_is_written_beside_it(run, bundle, tmp_path, monkeypatch):
    model = tmp_path / "MODEL"
    shutil.copytree(bundle, model)
    rooms = []

    def finished(room, **more):
        rooms.append(room)
        return {"written": False, "said": "No answer was given."}

    monkeypatch.setattr("wildspec.serving.review_run.run_review", finished)
    monkeypatch.chdir(model)
    status, _, errors = run("review", ".")
    assert status == 0, errors
    assert rooms[0].out.resolve() == tmp_path / "MODEL.reviewed"
    assert rooms[0].log.path.resolve() == tmp_path / "MODEL.answers.csv"
    for words in (["--log", "answers.csv"], ["--out", "next"], ["--ask", "3", "--out", "ask.csv"]):
        status, _, errors = run("review", ".", *words)
        assert (status, errors.count("\n")) == (2, 1)
        assert "another --" in errors
