"""engine="ray": a real local cluster with two workers; the same answers as one process, also when a worker dies."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
from wildspec import SpectralClassifier
from wildspec.decision import ray_decide
from wildspec.graph import ray_engine
from wildspec.graph.search import NeighborIndex, unit_rows
from wildspec.serving import ray_bulk

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=200 << 20)
    yield
    ray.shutdown()


@pytest.mark.parametrize("piece", [10**6, 60])
def test_neighbours_found_in_pieces_are_those_of_one_index(world, monkeypatch, piece):
    """As many pieces as processors, and more of them than that."""
    monkeypatch.setattr(ray_engine, "PIECE", piece)
    rows = np.concatenate([world.wild, world.wild[:7]])  # duplicates too
    distances, indices = ray_engine.neighbors(rows, 6, metric="cosine", method="exact", seed=0)
    expected, where = NeighborIndex(rows, method="exact").search_self(6)
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    np.testing.assert_array_equal(indices, where)


def test_fitting_and_deciding_on_the_cluster_is_the_same(world, monkeypatch):
    monkeypatch.setattr(ray_decide, "BLOCK", 50)
    local = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    there = SpectralClassifier(random_state=0, engine="ray").fit(world.labelled, world.labels, world.wild)
    rows = np.concatenate([world.id_test, world.shifted, world.unknown])
    np.testing.assert_allclose(there.ood_score(rows), local.ood_score(rows), atol=1e-5)
    np.testing.assert_array_equal(there.predict(rows), local.predict(rows))


def test_a_killed_worker_loses_and_doubles_no_row(world, tmp_path, monkeypatch):
    """The first task to reach a block kills its own process; Ray runs the block again elsewhere."""
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild).model_
    flag = tmp_path / "killed"

    plain = ray_decide._decide_block

    def deadly(stored, rows):
        if not flag.exists():
            flag.touch()
            os._exit(1)
        return plain(stored, rows)

    monkeypatch.setattr(ray_decide, "_decide_block", deadly)
    monkeypatch.setattr(ray_decide, "BLOCK", 60)
    rows = unit_rows(world.shifted)
    found = ray_decide.decide(model, rows)
    assert flag.exists()
    assert len(found.score) == len(rows)
    np.testing.assert_allclose(found.score, model.decide(rows).score, rtol=1e-9)


def test_parquet_in_parquet_out_also_when_a_worker_dies(world, tmp_path, monkeypatch, capsys):
    """`score --engine ray` on two tables of many row groups: the table of one machine, every row once, in order."""
    run = command.runner(monkeypatch, capsys)
    SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild).save(tmp_path / "MODEL")
    for name, rows in (("a", np.concatenate([world.shifted, world.unknown])), ("b", world.id_test)):
        table = pa.table({"id": [f"{name}{i}" for i in range(len(rows))], "features": list(rows)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=17)
    plain, flag = ray_bulk.score_piece, tmp_path / "killed"

    def deadly(bundle, table, first, last, neighbours):
        if first > 0 and not flag.exists():
            flag.touch()
            os._exit(1)
        return plain(bundle, table, first, last, neighbours)

    monkeypatch.setattr(ray_bulk, "score_piece", deadly)
    monkeypatch.setattr(ray_bulk.score_tables_on_ray, "__kwdefaults__", {"neighbours": 3, "size": 40})
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for engine in ("local", "ray"):
        options = ["--out", tmp_path / f"{engine}.parquet", "--engine", engine]
        status, _, errors = run("score", tmp_path / "MODEL", *tables, *options)
        assert status == 0, errors
    assert flag.exists()
    local, there = (pq.read_table(tmp_path / f"{engine}.parquet").to_pydict() for engine in ("local", "ray"))
    assert there["image"] == [f"a{i}" for i in range(len(world.shifted) + len(world.unknown))] + [
        f"b{i}" for i in range(len(world.id_test))
    ]
    np.testing.assert_allclose(there.pop("ood_score"), local.pop("ood_score"), atol=1e-6)
    np.testing.assert_allclose(there.pop("probability"), local.pop("probability"), atol=1e-6)
    assert there == local
