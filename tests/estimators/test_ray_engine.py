"""engine="ray": a real local cluster with two workers; the same answers as one process, also when a worker dies."""

import os

import numpy as np
import pytest
from shifted_world import make_world

from wildspec import SpectralClassifier
from wildspec.estimators import ray_engine
from wildspec.graph.search import NeighborIndex

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=200 << 20)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def world():
    return make_world(2)


def test_neighbours_found_in_shards_are_those_of_one_index(world, monkeypatch):
    monkeypatch.setattr(ray_engine, "BLOCK", 100)
    rows = np.concatenate([world.wild, world.wild[:7]])  # duplicates too
    distances, indices = ray_engine.neighbors(rows, 6, metric="cosine", method="exact", seed=0)
    expected, where = NeighborIndex(rows, method="exact").search_self(6)
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    np.testing.assert_array_equal(indices, where)


def test_fitting_and_deciding_on_the_cluster_is_the_same(world, monkeypatch):
    monkeypatch.setattr(ray_engine, "BLOCK", 50)
    local = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    there = SpectralClassifier(random_state=0, engine="ray").fit(world.labelled, world.labels, world.wild)
    rows = np.concatenate([world.id_test, world.shifted, world.unknown])
    np.testing.assert_allclose(there.ood_score(rows), local.ood_score(rows), rtol=1e-9)
    np.testing.assert_array_equal(there.predict(rows), local.predict(rows))


def test_a_killed_worker_loses_and_doubles_no_row(world, tmp_path, monkeypatch):
    """The first task to reach a block kills its own process; Ray runs the block again elsewhere."""
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild).model_
    flag = tmp_path / "killed"

    plain = ray_engine._decide_block

    def deadly(stored, rows):
        if not flag.exists():
            flag.touch()
            os._exit(1)
        return plain(stored, rows)

    monkeypatch.setattr(ray_engine, "_decide_block", deadly)
    monkeypatch.setattr(ray_engine, "BLOCK", 60)
    from wildspec.graph.search import unit_rows

    rows = unit_rows(world.shifted)
    found = ray_engine.decide(model, rows)
    assert flag.exists()
    assert len(found.score) == len(rows)
    np.testing.assert_allclose(found.score, model.decide(rows).score, rtol=1e-9)
