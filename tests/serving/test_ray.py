"""On a real local Ray cluster of two workers: the answers of one machine, also when a worker dies.

Neighbours, fits and decisions are tested here too, and not beside their modules: one cluster is started for all.
"""

import csv
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import command
import tiny_model
from shifted_world import World, make_world
from wildspec import SpectralClassifier
from wildspec.data.embeddings import EmbeddingTable
from wildspec.decision import ray_decide
from wildspec.graph import ray_engine
from wildspec.graph.search import NeighborIndex
from wildspec.serving import ray_bulk
from wildspec.serving.bulk import score_sources
from wildspec.serving.inputs import open_inputs

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    here = [str(Path(ray_bulk.__file__).parents[2]), str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    environment = {"PYTHONPATH": os.pathsep.join(here), "OMP_NUM_THREADS": "1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # else its workers stand behind everything else on a busy machine
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            runtime_env={"env_vars": environment},
        )  # fmt: skip
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A folder with a broken file, a single file, an array."""
    root = tmp_path_factory.mktemp("in")
    images, _ = tiny_model.pictures({"bar": 12, "disc": 12, "stripes": 12}, 70)
    (root / "folder").mkdir()
    for i, image in enumerate(images[:30]):
        Image.fromarray(image).save(root / "folder" / f"{i:02d}.png")
    (root / "folder" / "11b.png").write_bytes(b"broken")
    Image.fromarray(images[30]).save(root / "one.png")
    np.save(root / "more.npy", images[31:])
    return [str(root / "folder"), str(root / "one.png"), str(root / "more.npy")]


def test_blocks_cover_the_inputs_once_and_in_order(inputs: list[str]) -> None:
    blocks = ray_bulk.plan(inputs, 7)
    names = [block.source().name(i) for block in blocks for i in range(len(block.source()))]
    assert names == [source.name(i) for source in open_inputs(inputs) for i in range(len(source))]
    assert max(block.last - block.first for block in blocks) == 7


def test_relative_paths_are_found_from_anywhere_under_their_names(
    inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of a cluster that runs already was not started where the command was typed."""
    monkeypatch.chdir(Path(inputs[0]).parent)
    here = [source.load(i) for source in open_inputs(["folder", "one.png"]) for i in (0, 1)]
    [block] = ray_bulk.plan(["folder", "one.png"])
    monkeypatch.chdir(tmp_path)
    source = block.source()
    assert [source.name(0), source.name(31)] == [os.path.join("folder", "00.png"), "one.png"]
    assert np.array_equal(source.load(0), here[0])


def test_files_of_many_arguments_share_blocks(inputs: list[str]) -> None:
    """A pattern of the shell is one argument a file: each a task of its own would be all overhead."""
    files = sorted(map(str, Path(inputs[0]).iterdir()))
    blocks = ray_bulk.plan([*files, inputs[2], inputs[1]], 20)
    assert [block.last - block.first for block in blocks] == [20, 11, 5, 1]
    assert [len(block.files) for block in blocks] == [20, 11, 0, 1]


def _close(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """Every column of every row; numbers up to the rounding of batches of another size."""
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert a.keys() == b.keys()
        for name, value in b.items():
            assert a[name] == (pytest.approx(value, abs=1e-5) if isinstance(value, float) else value), (name, b["image"])


def _rows(inputs: list[str], block: int) -> list[dict[str, Any]]:
    blocks = ray_bulk.score_on_ray(tiny_model.bundle(), inputs, neighbours=2, block=block, device="cpu")
    return [row for rows in blocks for row in rows]


def test_a_killed_worker_costs_no_row(
    cluster: Any, inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = open_inputs(inputs)
    local = [row for rows in score_sources(tiny_model.fitted(), sources, neighbours=2) for row in rows]
    plain, flag = ray_bulk.score_block, tmp_path / "killed"

    def deadly(bundle: str, block: ray_bulk.Block, neighbours: int, device: str) -> list[dict[str, Any]]:
        if block.first == 8 and not flag.exists():  # the first worker to reach this block dies at it
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(bundle, block, neighbours, device)

    monkeypatch.setattr(ray_bulk, "score_block", deadly)
    again = _rows(inputs, 8)
    assert flag.exists(), "a worker was killed while it worked"
    _close(again, local)


def test_the_command_writes_the_same_table(
    cluster: Any, inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = command.runner(monkeypatch, capsys)
    for engine in ("local", "ray"):
        status, out, err = run(
            "score", tiny_model.bundle(), *inputs, "--out", tmp_path / f"{engine}.csv", "--engine", engine, "--json"
        )
        assert (status, json.loads(out)["unreadable"]) == (1, 1), err
    tables = [list(csv.DictReader((tmp_path / f"{engine}.csv").open())) for engine in ("local", "ray")]
    numbers = ("probability", "ood_score", "p_value")
    for row in tables[0] + tables[1]:
        row.update({name: float(row[name]) for name in numbers if row[name]})
    _close(*tables)
    status, _, err = run("score", tiny_model.bundle(), *inputs, "--out", tmp_path / "x.csv", "--engine", "spark")
    assert (status, err.count("\n")) == (2, 1)
    assert "local, ray" in err


# -- embeddings ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def world() -> World:
    return make_world(2)


@pytest.mark.parametrize("piece", [10**6, 60])
def test_neighbours_found_in_pieces_are_those_of_one_index(
    cluster: Any, world: World, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """As many pieces as processors, and more of them than that."""
    monkeypatch.setattr(ray_engine, "PIECE", piece)
    rows = np.concatenate([world.wild, world.wild[:7]])  # duplicates too
    distances, indices = ray_engine.neighbors(rows, 6, metric="cosine", method="exact", seed=0)
    expected, where = NeighborIndex(rows, method="exact").search_self(6)
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    np.testing.assert_array_equal(indices, where)


def test_fitting_and_deciding_on_the_cluster_is_the_same(
    cluster: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_decide, "BLOCK", 50)
    local = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    there = SpectralClassifier(random_state=0, engine="ray").fit(world.labelled, world.labels, world.wild)
    rows = np.concatenate([world.id_test, world.shifted, world.unknown])
    np.testing.assert_allclose(there.ood_score(rows), local.ood_score(rows), atol=1e-5)
    np.testing.assert_array_equal(there.predict(rows), local.predict(rows))


def test_parquet_in_parquet_out(
    cluster: Any, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Two tables of many row groups: the table of one machine, every row once, in order, in however many pieces."""
    run = command.runner(monkeypatch, capsys)
    SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild).save(tmp_path / "MODEL")
    for name, rows in (("a", np.concatenate([world.shifted, world.unknown])), ("b", world.id_test)):
        table = pa.table({"id": [f"{name}{i}" for i in range(len(rows))], "features": list(rows)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=17)
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for engine in ("local", "ray"):
        options = ["--out", tmp_path / f"{engine}.parquet", "--engine", engine]
        status, _, errors = run("score", tmp_path / "MODEL", *tables, *options)
        assert status == 0, errors
    local, there = (pq.read_table(tmp_path / f"{engine}.parquet").to_pydict() for engine in ("local", "ray"))
    assert there["image"] == [f"a{i}" for i in range(len(world.shifted) + len(world.unknown))] + [
        f"b{i}" for i in range(len(world.id_test))
    ]
    pieces = list(ray_bulk.score_tables_on_ray(tmp_path / "MODEL", [EmbeddingTable(table) for table in tables], size=40))
    assert len(pieces) > 4
    scores = [row["ood_score"] for rows in pieces for row in rows]
    np.testing.assert_allclose(scores, local["ood_score"], atol=1e-6)
    np.testing.assert_allclose(there.pop("ood_score"), local.pop("ood_score"), atol=1e-6)
    np.testing.assert_allclose(there.pop("probability"), local.pop("probability"), atol=1e-6)
    assert there == local
