"""The embeddings route by command: fit --from-embeddings, score and report on tables of vectors, streamed, order kept."""

import csv
import itertools
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
import wildspec
from wildspec.data.embeddings import EmbeddingTable
from wildspec.errors import DataError

NAMES = ("ant", "bee", "cat")


def _vectors(rng: np.random.Generator, counts: dict[int, int], shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    centres = np.eye(5, 12) * 4
    labels = np.repeat(list(counts), list(counts.values()))
    rows = centres[labels] + rng.normal(size=(len(labels), 12)) + shift * np.ones(12)
    return rows.astype(np.float32), labels


@pytest.fixture
def tables(tmp_path: Path, rng: np.random.Generator) -> dict[str, Path]:
    """Labelled and wild as parquet, with names; a test set; one table with bad rows."""
    paths = {name: tmp_path / f"{name}.parquet" for name in ("labelled", "wild", "test", "bad")}
    rows, labels = _vectors(rng, {0: 60, 1: 60, 2: 60})
    pq.write_table(pa.table({"features": list(rows), "label": [NAMES[i] for i in labels]}), paths["labelled"])
    known, _ = _vectors(rng, {0: 20, 1: 20, 2: 20}, shift=1.0)
    unknown, _ = _vectors(rng, {3: 20}, shift=1.0)
    wild = np.concatenate([known, unknown])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(wild.ravel()), 12)
    pq.write_table(pa.table({"id": [f"w{i}" for i in range(80)], "embedding": flat}), paths["wild"], row_group_size=17)
    rows, labels = _vectors(rng, {0: 15, 1: 15, 2: 15})
    pq.write_table(pa.table({"vector": list(rows), "label": [NAMES[i] for i in labels]}), paths["test"])
    bad: list[Any] = [row.tolist() for row in known[:5]]
    bad[1] = None
    bad[3] = [float("nan")] * 12
    pq.write_table(pa.table({"features": pa.array(bad, pa.list_(pa.float32()))}), paths["bad"])
    return paths


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Any:
    return command.runner(monkeypatch, capsys)


@pytest.fixture
def model(run: Any, tables: dict[str, Path], tmp_path: Path) -> Path:
    out = tmp_path / "model"
    options = ["--alpha", "0.1", "--seed", "3"]
    status, said, err = run(
        "fit", "--from-embeddings", "--labelled", tables["labelled"], "--wild", tables["wild"], "--out", out, *options
    )
    assert status == 0, err
    assert "180 of 180 labelled samples of 3 classes, 80 of 80 wild ones" in said
    return out


def test_scores_are_the_estimators_own_in_order(run: Any, model: Path, tables: dict[str, Path], tmp_path: Path) -> None:
    status, _, err = run("score", model, tables["wild"], tables["test"], "--out", tmp_path / "s.csv", "--neighbours", "2")
    assert status == 0, err
    rows = list(csv.DictReader((tmp_path / "s.csv").open(newline="")))
    assert [row["image"] for row in rows[:80]] == [f"w{i}" for i in range(80)]
    assert rows[80]["image"] == "test.parquet#0"
    estimator = wildspec.load(model)
    values = np.concatenate([EmbeddingTable(tables[name]).read() for name in ("wild", "test")])
    assert [float(row["ood_score"]) for row in rows] == pytest.approx(estimator.ood_score(values).tolist(), abs=1e-5)
    assert [float(row["p_value"]) for row in rows] == pytest.approx(estimator.p_value(values).tolist())
    assert [row["decision"] for row in rows] == estimator.predict(values).tolist()
    assert all(len(row["neighbours"].split(" | ")) == 2 for row in rows)


def test_bad_vectors_are_rows_with_an_error(run: Any, model: Path, tables: dict[str, Path], tmp_path: Path) -> None:
    status, out, _ = run("score", model, tables["bad"], "--out", tmp_path / "s.parquet", "--json")
    assert status == 1
    assert json.loads(out)["unreadable"] == 2
    rows = pq.read_table(tmp_path / "s.parquet").to_pylist()
    assert [row["error"] is not None for row in rows] == [False, True, False, True, False]


def test_the_report_takes_embeddings(run: Any, model: Path, tables: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    status, _, err = run("report", model, "--data", tables["wild"], "--test", tables["test"], "--out", out)
    assert status == 0, err
    page = out.read_text()
    rejected = int((wildspec.load(model).predict(EmbeddingTable(tables["wild"]).read()) == "rejected").sum())
    expected = f"Of 80 wild embeddings {rejected} look" if rejected else "All 80 wild embeddings look"
    assert expected in page
    for part in ("numbers", "scores", "map", "classes", "model"):
        assert f'id="sec-{part}"' in page
    assert run("report", model, "--out", out, "--no-map")[0] == 0
    bare = out.read_text()
    assert "the threshold was calibrated on" in bare
    assert "False alarms: promised and found" not in bare, "no claim about the set it was calibrated on"


def test_what_does_not_fit_is_one_line(run: Any, model: Path, tables: dict[str, Path], tmp_path: Path) -> None:
    np.save(tmp_path / "narrow.npy", np.zeros((3, 5), np.float32))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    for words, message in (
        (("score", model, tmp_path / "narrow.npy", "--out", tmp_path / "s.csv"), "embeddings of 5 numbers"),
        (("serve", model, "--port", str(free)), "the service takes images"),
        (("export", model, "--onnx", tmp_path / "m.onnx"), "export is for image models"),
        (("fit", "--from-embeddings", "--labelled", tables["wild"], "--out", tmp_path / "x"), "has no labels"),
    ):
        status, _, err = run(*words)
        assert (status, err.count("\n")) == (2, 1), err
        assert message in err


def test_numpy_files_and_blocks(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = rng.normal(size=(10, 4)).astype(np.float16)
    np.savez(tmp_path / "a.npz", features=rows, labels=np.arange(10), id=np.array([f"n{i}" for i in range(10)]))
    table = EmbeddingTable(tmp_path / "a.npz")
    assert (len(table), table.width) == (10, 4)
    assert table.labels is not None
    assert table.labels.tolist() == list(range(10))
    blocks = list(table.blocks(3))
    assert [len(names) for names, _ in blocks] == [3, 3, 3, 1]
    assert [name for names, _ in blocks for name in names] == [f"n{i}" for i in range(10)]
    assert np.array_equal(table.read(), rows.astype(np.float32))


def test_tables_that_are_none_say_why(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "none.parquet")
    with pytest.raises(DataError, match="no column of vectors"):
        EmbeddingTable(tmp_path / "none.parquet")
    ragged = pa.table({"x": pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float64()))})
    pq.write_table(ragged, tmp_path / "ragged.parquet")
    with pytest.raises(DataError, match="row 1 holds 1 numbers, others 2"):
        EmbeddingTable(tmp_path / "ragged.parquet").read()
    with pytest.raises(DataError, match="does not exist"):
        EmbeddingTable(tmp_path / "gone.npz")
    np.save(tmp_path / "flat.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"vectors \(n, d\)"):
        EmbeddingTable(tmp_path / "flat.npy")


@pytest.mark.parametrize("groups", [7, 100])
def test_pieces_of_a_table_are_its_rows(tmp_path: Path, rng: np.random.Generator, groups: int) -> None:
    """Cut at row groups, inside large ones, between files; any stretch of rows reads as a slice of the whole."""
    (tmp_path / "set").mkdir()
    for name, count in (("a", 53), ("b", 31)):
        rows: list[Any] = list(rng.normal(size=(count, 4)).astype(np.float32))
        rows[5] = None
        pq.write_table(pa.table({"features": rows}), tmp_path / "set" / f"{name}.parquet", row_group_size=groups)
    table = EmbeddingTable(tmp_path / "set")
    whole = table.read()
    names = [name for block, _ in table.blocks() for name in block]
    for size in (3, 10, 1000):
        cuts = table.cuts(size)
        assert (cuts[0], cuts[-1]) == (0, 84)
        assert 53 in cuts
        assert max(np.diff(cuts)) <= 2 * size + groups
        parts = [block for a, b in itertools.pairwise(cuts) for block in table.between(a, b, 4)]
        np.testing.assert_array_equal(np.concatenate([values for _, values in parts]), whole)
        assert [name for block, _ in parts for name in block] == names
    found = list(table.between(49, 60, 5))
    np.testing.assert_array_equal(np.concatenate([values for _, values in found]), whole[49:60])
    assert list(table.between(84, 90)) == []


def test_names_of_classes_cannot_write_over_what_a_terminal_shows(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Those of a table may hold anything: bells, line ends, what rich would draw as a cat."""
    run = command.runner(monkeypatch, capsys)
    names = {"ant": "a\nnt", "bee": "\abell", "cat": ":cat:"}
    for key in ("labelled", "test"):
        table = pq.read_table(tables[key])
        labels = [names[one] for one in table["label"].to_pylist()]
        pq.write_table(table.set_column(1, "label", pa.array(labels)), tables[key])
    model = tmp_path / "MODEL"
    status, said, errors = run("embed-fit", tables["labelled"], tables["wild"], "--out", model)
    assert status == 0, errors
    for words in (("score", model, tables["test"]), ("evaluate", model, "--test", tables["test"])):
        status, said, errors = run(*words)
        assert status == 0, errors
        assert "\a" not in said
        assert not any(line.startswith("nt") for line in said.splitlines())
        assert {r"a\x0ant", r"\x07bell", ":cat:"} <= set(said.split())
