"""wildspec embed-fit: two tables to a bundle that scores; tables larger than memory are sampled; mistakes are one line."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
import wildspec
from wildspec.data.embeddings import EmbeddingTable


@pytest.fixture
def tables(tmp_path, rng):
    centres = np.eye(4, 10) * 4

    def write(name, classes, move, labelled):
        rows = (centres[classes] + rng.normal(size=(len(classes), 10)) + move).astype(np.float32)
        columns = {"features": list(rows)} | ({"label": classes} if labelled else {})
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=31)
        return tmp_path / f"{name}.parquet"

    return {
        "labelled": write("labelled", np.repeat([0, 1, 2], 60), 0.0, True),
        "wild": write("wild", np.repeat([0, 1, 2, 3], 60), 1.0, False),
        "test": write("test", np.repeat([0, 1, 2], 20), 0.0, True),
    }


@pytest.fixture
def run(monkeypatch, capsys):
    return command.runner(monkeypatch, capsys)


def test_two_tables_become_a_bundle_that_scores(run, tables, tmp_path):
    options = ["--out", tmp_path / "MODEL", "--alpha", "0.1"]
    status, said, errors = run("embed-fit", tables["labelled"], tables["wild"], *options)
    assert status == 0, errors
    assert "180 of 180 labelled samples of 3 classes, 240 of 240 wild ones" in said
    model = wildspec.load(tmp_path / "MODEL")
    assert model.classes_.tolist() == [0, 1, 2]
    status, _, errors = run("score", tmp_path / "MODEL", tables["test"], "--out", tmp_path / "scores.parquet")
    assert status == 0, errors
    scored = pq.read_table(tmp_path / "scores.parquet").to_pydict()
    truth = pq.read_table(tables["test"])["label"].to_pylist()
    assert np.mean([a == str(b) for a, b in zip(scored["likely"], truth, strict=True)]) > 0.9


@pytest.mark.parametrize("most", [None, 100])
def test_wild_rows_marked_in_the_labelled_table_join_the_pool(run, tables, tmp_path, most):
    both = pq.read_table(tables["labelled"]).to_pydict()
    marked = [row for row in range(180) if row % 9 == 0]
    both["label"] = [-1 if row in marked else label for row, label in enumerate(both["label"])]
    pq.write_table(pa.table(both), tmp_path / "both.parquet")
    options = ["--out", tmp_path / "MODEL", "--alpha", "0.1", "--json"] + ([] if most is None else ["--max-rows", most])
    status, said, errors = run("embed-fit", tmp_path / "both.parquet", tables["wild"], *options)
    assert status == 0, errors
    counts = json.loads(said)
    assert (counts["labelled"], counts["wild"]) == (160, 260)
    if most is None:
        assert (counts["labelled_used"], counts["wild_used"]) == (160, 260)
    model = wildspec.load(tmp_path / "MODEL")
    names = model.review().names.tolist()
    assert len(names) == model.n_wild_ == counts["wild_used"]
    assert {name for name in names if name < 180} <= set(marked), "rows of the labelled table"
    assert max(names) < 180 + 240


def test_of_a_pool_too_small_to_learn_from_is_said_what_scoring_it_says(run, tables, tmp_path):
    few = EmbeddingTable(tables["wild"]).read()[-15:]
    np.save(tmp_path / "few.npy", few)
    with pytest.warns(UserWarning, match="20 wild"):
        status, said, errors = run("embed-fit", tables["labelled"], tmp_path / "few.npy", "--out", tmp_path / "M", "--json")
    assert status == 0, errors
    assert json.loads(said)["wild_rejected"] == np.sum(wildspec.load(tmp_path / "M").predict(few) == -1) > 10
    assert wildspec.load(tmp_path / "M").unknown_interval_ == (0, 1), "nothing was looked at"


def test_what_is_said_of_the_pool_is_what_scoring_it_says(run, tables, tmp_path):
    model = tmp_path / "MODEL"
    status, said, errors = run("embed-fit", tables["labelled"], tables["wild"], "--out", model, "--alpha", "0.1", "--json")
    assert status == 0, errors
    status, _, errors = run("score", model, tables["wild"], "--out", tmp_path / "scores.parquet")
    assert status == 0, errors
    scored = pq.read_table(tmp_path / "scores.parquet")["decision"].to_pylist()
    assert 0 < json.loads(said)["wild_rejected"] < 240
    assert json.loads(said)["wild_rejected"] == scored.count("rejected")


def test_a_table_larger_than_max_rows_is_sampled(run, tables, tmp_path):
    options = ["--out", tmp_path / "MODEL", "--alpha", "0.2", "--max-rows", "120", "--json"]
    status, said, errors = run("embed-fit", tables["labelled"], tables["wild"], *options)
    assert status == 0, errors
    record = json.loads(said)
    assert (record["labelled"], record["labelled_used"], record["wild"], record["wild_used"]) == (180, 120, 240, 120)


@pytest.mark.filterwarnings("ignore:.*cannot promise alpha")
@pytest.mark.parametrize("words", [["embed-fit"], ["fit", "--from-embeddings"]])
def test_a_threshold_that_rejects_nothing_is_valid_json(run, tables, tmp_path, words):
    """JSON has no infinity; Python would write one all the same."""
    given = [tables["labelled"], tables["wild"]] if words[0] == "embed-fit" else ["--labelled", tables["labelled"]]
    status, said, errors = run(*words, *given, "--alpha", "0.001", "--out", tmp_path / "MODEL", "--json")
    assert status == 0, errors

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(said, parse_constant=refuse)["threshold"] is None


@pytest.mark.parametrize("words", [["embed-fit"], ["fit", "--from-embeddings"]])
@pytest.mark.parametrize(("said", "found"), [([], False), (["--shift"], True), (["--no-shift"], False)])
def test_a_shift_is_looked_for_taken_for_granted_or_ruled_out(run, tables, tmp_path, words, said, found):
    given = [tables["labelled"], tables["wild"]] if words[0] == "embed-fit" else [
        "--labelled", tables["labelled"], "--wild", tables["wild"]]  # fmt: skip
    status, out, errors = run(*words, *given, *said, "--out", tmp_path / "MODEL", "--json")
    assert status == 0, errors
    assert (json.loads(out)["shifted_share"] > 0) is found


def test_options_of_training_are_not_passed_over_in_silence(run, tables, tmp_path):
    given = ["--minutes", "5", "--set", "x=1", "--end-to-end", "--method", "erm", "--detector", "knn", "--preset", "paper"]
    words = ["--labelled", tables["labelled"], "--out", tmp_path / "MODEL", *given]
    status, _, errors = run("fit", "--from-embeddings", *words)
    assert status == 2
    assert all(word in errors for word in given if word.startswith("--"))


def test_tables_are_streamed_never_read_whole(run, tables, tmp_path, monkeypatch):
    """Every row passes once, in blocks; what `read` would do is forbidden."""
    sizes = []
    blocks = EmbeddingTable.blocks

    def watched(self, *args):
        for names, block in blocks(self, *args):
            sizes.append(len(block))
            yield names, block

    monkeypatch.setattr(EmbeddingTable, "blocks", watched)
    monkeypatch.setattr(EmbeddingTable, "read", lambda self: pytest.fail("the whole table was read"))
    status, _, errors = run("embed-fit", tables["labelled"], tables["wild"], "--out", tmp_path / "MODEL", "--alpha", "0.1")
    assert status == 0, errors
    status, _, errors = run("score", tmp_path / "MODEL", tables["test"], "--out", tmp_path / "scores.parquet")
    assert status == 0, errors
    assert sum(sizes) == 180 + 240 + 60


def test_mistakes_are_one_line(run, tables, tmp_path):
    status, _, errors = run("embed-fit", tables["wild"], tables["wild"], "--out", tmp_path / "MODEL")
    assert (status, "has no labels" in errors, errors.count("\n")) == (2, True, 1)
    np.save(tmp_path / "narrow.npy", np.zeros((30, 4), np.float32))
    status, _, errors = run("embed-fit", tables["labelled"], tmp_path / "narrow.npy", "--out", tmp_path / "MODEL")
    assert (status, "use one model for both" in errors) == (2, True)
    assert not (tmp_path / "MODEL").exists()


@pytest.mark.parametrize("words", [["embed-fit"], ["fit", "--from-embeddings"]])
def test_rows_without_a_vector_are_left_out_counted_and_shift_no_number(run, tables, tmp_path, words):
    """The neighbours that scores name are rows of the file: those left out count there too."""
    table = pq.read_table(tables["labelled"]).to_pydict()
    gap = [float("nan")] * 10
    rows = [gap, *table["features"][:90], [float("inf")] * 10, *table["features"][90:]]
    labels = [0, *table["label"][:90], 1, *table["label"][90:]]
    pq.write_table(pa.table({"features": rows, "label": labels}), tmp_path / "gaps.parquet")
    wild = [*pq.read_table(tables["wild"])["features"].to_pylist(), None]
    pq.write_table(pa.table({"features": pa.array(wild, pa.list_(pa.float32()))}), tmp_path / "wild-gaps.parquet")
    both = [tmp_path / "gaps.parquet", tmp_path / "wild-gaps.parquet"]
    given = both if words[0] == "embed-fit" else ["--labelled", both[0], "--wild", both[1]]
    status, said, errors = run(*words, *given, "--alpha", "0.1", "--out", tmp_path / "MODEL")
    assert status == 0, errors
    assert "2 labelled and 1 wild rows hold NaN or infinite numbers, or no vector, and were left out" in said
    model = wildspec.load(tmp_path / "MODEL")
    compared = np.array(rows, np.float32)[model._rows]
    assert np.allclose(model.model_.labelled, compared / np.linalg.norm(compared, axis=1, keepdims=True), atol=1e-6)
    last = int(model._rows.max())
    assert last > 91, "one behind both gaps is asked about"
    (found,) = model.explain(np.array(rows[last : last + 1], np.float32), neighbours=1)
    assert (found.neighbours[0].row, found.neighbours[0].name) == (last, f"row {last}")


def test_one_column_per_number_gives_the_same_model_as_one_column_of_lists(run, tables, tmp_path):
    """CSV as a spreadsheet in Germany writes it: semicolons, decimal commas, line ends of Windows, a byte order mark."""
    for name in ("labelled", "wild"):
        table = EmbeddingTable(tables[name])
        labels = [""] * len(table) if table.labels is None else table.labels.tolist()
        lines = [
            ";".join([str(label), *(repr(float(value)).replace(".", ",") for value in row)])
            for label, row in zip(labels, table.read(), strict=True)
        ]
        head = ";".join(["Label", *(f"e{i}" for i in range(table.width))])
        (tmp_path / f"{name}.csv").write_bytes("\r\n".join([head, *lines, ""]).encode("utf-8-sig"))
    run("embed-fit", tables["labelled"], tables["wild"], "--out", tmp_path / "A")
    status, _, errors = run("embed-fit", tmp_path / "labelled.csv", tmp_path / "wild.csv", "--out", tmp_path / "B")
    assert status == 0, errors
    rows = EmbeddingTable(tables["wild"]).read()
    one, other = wildspec.load(tmp_path / "A"), wildspec.load(tmp_path / "B")
    assert np.array_equal(one.ood_score(rows), other.ood_score(rows))
    assert one.predict(rows).tolist() == other.predict(rows).tolist()
    status, _, errors = run("score", tmp_path / "B", tmp_path / "wild.csv", "--out", tmp_path / "s.csv")
    assert status == 0, errors


def test_a_folder_of_images_is_told_how_to_embed_it(run, tables, tmp_path):
    (tmp_path / "photos").mkdir()
    status, _, errors = run("embed-fit", tmp_path / "photos", tables["wild"], "--out", tmp_path / "MODEL")
    assert (status, errors.count("\n")) == (2, 1)
    assert "wildspec embed" in errors
    assert "e8" not in errors
