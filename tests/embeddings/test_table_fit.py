"""Tables to a fitted classifier: columns that do not match, and what is told after answers of an earlier review."""

import csv
import json

import numpy as np
import pytest

import command
import wildspec
from wildspec.data.embeddings import EmbeddingTable

NAMES = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])


@pytest.fixture
def run(monkeypatch, capsys):
    return command.runner(monkeypatch, capsys)


def table(path, rows, order, labels=None):
    head = [f"f{i}" for i in order] + ([] if labels is None else ["label"])
    lines = rows[:, order].tolist() if labels is None else [[*r, y] for r, y in zip(rows[:, order], labels, strict=True)]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([head, *lines])
    return path


def test_columns_in_another_order_are_refused(run, world, tmp_path):
    """They are read by place: every wild sample would be taken for another."""
    order = np.arange(world.wild.shape[1])
    known = table(tmp_path / "known.csv", world.labelled, order, NAMES[world.labels])
    wild, turned = table(tmp_path / "wild.csv", world.wild, order), table(tmp_path / "turned.csv", world.wild, order[::-1])
    assert run("embed-fit", known, wild, "--out", tmp_path / "MODEL")[0] == 0
    status, _, errors = run("embed-fit", known, turned, "--out", tmp_path / "OTHER")
    assert status == 2
    assert "turned.csv" in errors
    assert "order" in errors
    assert not (tmp_path / "OTHER").exists()


@pytest.mark.parametrize("most", [100_000, 100])
def test_rejected_ones_are_counted_after_the_answers(run, world, tmp_path, most):
    np.savez(tmp_path / "known.npz", X=world.labelled, y=NAMES[world.labels])
    np.savez(tmp_path / "wild.npz", X=world.wild)
    words = ("embed-fit", tmp_path / "known.npz", tmp_path / "wild.npz", "--max-rows", most, "--json", "--out")
    first = json.loads(run(*words, tmp_path / "MODEL")[1])
    model = wildspec.load(tmp_path / "MODEL")
    rows = model.questions(20).tolist()
    with open(tmp_path / "answers.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("row", "class"), *((row, "unknown") for row in rows)])
    status, out, errors = run(*words, tmp_path / "TAUGHT", "--answers", tmp_path / "answers.csv")
    assert status == 0, errors
    taught, second = wildspec.load(tmp_path / "TAUGHT"), json.loads(out)
    assert second["wild_rejected"] != first["wild_rejected"]
    if most > len(world.wild):  # all rows were kept
        wild = EmbeddingTable(tmp_path / "wild.npz").read()
        assert second["wild_rejected"] == (taught.predict(wild) == "rejected").sum()
