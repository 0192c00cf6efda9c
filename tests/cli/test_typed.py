"""Options that would be passed over in silence, outputs that would destroy inputs, files of another kind: one line each, and
nothing is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import command
import frozen_bundle
import tiny_model
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.errors import InputError
from wildspec.images import train_run
from wildspec.serving.run import listen


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    return command.runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "MODEL"
    world = make_world(2)
    SpectralClassifier(random_state=0).fit(world.labelled, world.labels, X_wild=world.wild).save(path)
    return path


DATA = "--labelled {there} --wild {there} --out {free}"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (f"fit --from-embeddings {DATA} --device cpu --no-flip --no-pictures --max-unreadable 0.1 --no-cache",
         ["--device", "--no-flip", "--no-pictures", "--max-unreadable", "--no-cache"]),
        ("evaluate {model} --test {there} --alpha 0.1", ["--alpha", "--detector"]),
        ("evaluate {model} --labelled {there} --wild {there}", ["--labelled", "--wild", "--detector"]),
        ("evaluate {model} --detector knn --alpha 2", ["--alpha"]),
        ("train --method erm --size 32 --held-out 0.3 --cache {free} --out {free}", ["--size", "--held-out", "--cache"]),
        ("train --method erm --data digits --size 32 --out {free}", ["--size"]),
        ("review {model} --ask 5 --out {free}.csv --images {there} --log {free} --port 8000",
         ["--images", "--log", "--port"]),
        ("review {model} --answers {there} --out {free} --wild {there}", ["--wild"]),
        ("theory nonsense --classes 4", ["SCENARIO", "--classes"]),
        ("theory --unknown 2", ["--unknown", "--classes"]),
        ("theory --domains 3", ["--domains", "--classes"]),
        ("backbones small --size 32", ["--size", "--speed"]),
    ],
)  # fmt: skip
def test_an_option_that_counts_nowhere_is_told(run: Any, rows: Path, tmp_path: Path, words: str, named: list[str]) -> None:
    (tmp_path / "there").write_text("x")
    free = tmp_path / "free"
    status, _, errors = run(*words.format(model=rows, there=tmp_path / "there", free=free).split())
    assert (status, errors.count("\n")) == (2, 1), errors
    for name in named:
        assert name in errors
    assert not list(tmp_path.glob("free*"))


def test_names_of_rows_are_no_option_for_images(run: Any, tmp_path: Path) -> None:
    status, _, errors = run("review", frozen_bundle.bundle(), "--ask", 3, "--wild", tmp_path, "--out", tmp_path / "a.csv")
    assert (status, "--wild" in errors, (tmp_path / "a.csv").exists()) == (2, True, False), errors


def test_mirroring_that_no_training_uses_is_noted(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quick_wild import fake_module
    from tiny_backbone import Grid

    fake_module(monkeypatch, "timm", create_model=lambda name, pretrained, num_classes: Grid())
    labelled, wild = tiny_model.write_folders(tmp_path)
    words = ["fit", "--labelled", labelled, "--wild", wild, "--size", "10", "--device", "cpu", "--no-cache"]
    frozen = [*words, "--alpha", "0.1", "--backbone", "timm:grid:pretrained", "--frozen"]
    for number, (more, noted) in enumerate(((["--no-flip"], True), ([], False))):
        status, _, errors = run(*frozen, *more, "--out", tmp_path / f"m{number}")
        assert (status, "--no-flip counts only" in errors) == (0, noted), errors


def test_no_command_writes_over_what_it_reads(run: Any, rows: Path, tmp_path: Path) -> None:
    world = make_world(2)
    shards, table = tmp_path / "shards", tmp_path / "in.parquet"
    shards.mkdir()
    _parquet(table, world.wild)
    _parquet(shards / "a.parquet", world.wild)
    (tmp_path / "page.html").symlink_to(table)
    (tmp_path / "wild.csv").symlink_to(table)
    before = table.read_bytes()
    for words in (
        ("embed", table, "--out", table), ("embed", shards, "--out", shards / "b.parquet"),
        ("score", rows, table, "--out", table), ("score", rows, shards, "--out", shards / "b.parquet"),
        ("report", rows, "--data", table, "--out", tmp_path / "page.html"),
        ("evaluate", rows, "--test", table, "--out", table),
        ("review", rows, "--ask", 5, "--wild", table, "--out", tmp_path / "wild.csv"),
    ):  # fmt: skip
        status, _, errors = run(*words)
        assert (status, "another --out" in errors, errors.count("\n")) == (2, True, 1), (words, errors)
    assert table.read_bytes() == before
    assert [file.name for file in shards.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("words", [["score", "{}", "in.csv", "--out", "d.csv"], ["report", "{}", "--out", "d.html"],
                                   ["embed", ".", "--out", "d.parquet"]])  # fmt: skip
def test_a_folder_as_output_is_told_before_the_model_is_loaded(
    run: Any, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("no table")
    (tmp_path / words[-1]).mkdir()
    monkeypatch.setattr("wildspec.loading.load", lambda *_, **__: pytest.fail("the model was loaded"))
    status, _, errors = run(*(word.format(rows) for word in words))
    assert (status, words[-1] in errors, "folder" in errors, "free space" in errors) == (2, True, True, False), errors


def test_answers_are_not_overwritten_by_questions(run: Any, rows: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # questions that nobody has answered may be asked again
        assert run("review", rows, "--ask", 5, "--out", "ask.csv")[0] == 0
    lines = Path("ask.csv").read_text().splitlines()
    place = lines[0].split(",").index("class")
    for number in (1, 2):
        cells = lines[number].split(",")
        lines[number] = ",".join([*cells[:place], "unknown", *cells[place + 1 :]])
    Path("ask.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("wildspec.loading.load", lambda *_, **__: pytest.fail("the model was loaded"))
    status, _, errors = run("review", rows, "--ask", 5, "--out", "ask.csv")
    assert (status, "2 answers" in errors, "another --out" in errors) == (2, True, True), errors
    assert Path("ask.csv").read_text().splitlines() == lines
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    status, said, errors = run("review", rows, "--answers", "ask.csv", "--out", "M2")
    assert status == 0, errors
    (then,) = (line for line in said.splitlines() if "--ask" in line)
    assert not Path(then.split("--out ")[1]).exists()


def test_a_name_that_could_not_be_read_again_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,f0\n")
    status, _, errors = run("embed-fit", tmp_path / "a.csv", tmp_path / "a.csv", "--out", tmp_path / "m\udce9")
    assert (status, "UTF-8" in errors, "another --out" in errors) == (2, True, True), errors


@pytest.mark.parametrize("name", ["pacs-embeddings", "pacs-open-set"])
@pytest.mark.parametrize("content", ["{}", "[]", '{"records": 3}', '{"records": [3]}', '{"records": [{}]}'])
def test_a_table_of_no_bench_is_told(run: Any, tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    status, _, errors = run("bench", name, "--table", tmp_path / "t.json")
    assert (status, "t.json" in errors, errors.count("\n")) == (2, True, 1), errors


@pytest.mark.parametrize("inputs", [0, 2])
def test_a_graph_of_no_input_or_of_two_is_no_backbone(run: Any, tmp_path: Path, inputs: int) -> None:
    onnx = pytest.importorskip("onnx", reason="extra [onnx]")
    pytest.importorskip("onnxruntime", reason="extra [onnx]")
    h, t = onnx.helper, onnx.TensorProto
    taken = [h.make_tensor_value_info(f"x{i}", t.FLOAT, [1, 3, 8, 8]) for i in range(inputs)]
    node = h.make_node("Add", ["x0", "x1"], ["y"]) if inputs else h.make_node("Constant", [], ["y"], value_floats=[1.0])
    graph = h.make_graph([node], "g", taken, [h.make_tensor_value_info("y", t.FLOAT, None)])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), str(tmp_path / "g.onnx"))
    status, _, errors = run("backbones", f"onnx:{tmp_path / 'g.onnx'}")
    assert (status, "one input" in errors) == (2, True), errors


def test_a_host_that_is_no_name() -> None:
    with pytest.raises(InputError, match=r"a\.\.b.*--host"):
        listen("a..b", 0)


def test_only_a_training_goes_on(run: Any, rows: Path) -> None:
    for bundle in (rows, frozen_bundle.bundle()):
        with pytest.raises(InputError, match=r"wildspec train.*--out"):
            train_run.resume(Path(bundle))
        assert run("train", "--resume", "--out", bundle)[0] == 2


def test_neighbours_in_both_spellings(run: Any, rows: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "wild.npz", features=make_world(2).wild[:3])
    for word in ("--neighbours", "--neighbors"):
        status, said, errors = run("score", rows, tmp_path / "wild.npz", word, 1, "--json")
        assert status == 0, errors
        assert {len(row["neighbours"]) for row in json.loads(said)["results"]} == {1}
        status, said, errors = run(
            "embed-fit", tmp_path / "labelled.npz", tmp_path / "wild.npz", "--out", tmp_path / "m", word, 1, "--json"
        )
        assert (status, word in errors) == (2, True), errors
    assert not any("--neighbors" in run(command, "--help")[1] for command in ("score", "embed-fit"))


def _parquet(path: Path, rows: np.ndarray) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"features": rows.tolist()}), path)
