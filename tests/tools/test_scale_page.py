"""docs/scale.md: the arithmetic by hand, on round numbers."""

import pytest

import scale_page

RUN = {
    "samples": 1_000_000, "width": 256, "fit_seconds": 100.0, "fit_cpu_seconds": 180.0, "scores_per_second": 2000.0,
    "peak_gib": 6.0, "before_fit_gib": 1.0, "graph_nodes": 500_000, "recall": 0.97, "search": "ivf", "accuracy": 0.99,
    "parts_seconds": {"neighbours": 50.0, "eigenvectors": 25.0},
}  # fmt: skip
ESTIMATOR = {
    "environment": {"hardware": {"cores": 2, "cpu": "a cpu", "memory_gib": 23.5}},
    "growth": {"fit_seconds": 1.05, "fit_cpu_seconds": 1.1},
    "spectral": [RUN],
    "label_spreading": [
        {"samples": 10_000, "fit_seconds": 3.0, "peak_gib": 0.5, "accuracy": 0.5},
        {"samples": 10**6, "not_within_seconds": 60.0},
    ],
    "quantized": [{"samples": 1000, "banks": [{"kind": "int8", "bytes_per_row": 256, "recall_at_10": 0.99}]}],
}
PRETRAIN = {"views_per_s": 50_000, "environment": {"hardware": {"gpu": "a gpu"}}}


@pytest.fixture(scope="module")
def found():
    return scale_page.blocks(ESTIMATOR, PRETRAIN)


def test_the_table_holds_both_and_says_where_the_other_stopped(found):
    assert "| 1,000,000 | 100.0 | 180.0 | 2,000 | 6.00 | ivf | 0.970 | 0.990 | over 60 | – | – |" in found["scale-measured"]
    assert "| 10,000 | – | – | – | – | – | – | – | 3.0 | 0.50 | 0.500 |" in found["scale-measured"]
    assert "power 1.05 (CPU time: 1.10)" in found["scale-measured"]
    assert "| 1,000,000 | 50.0 | 25.0 | 25.0 |" in found["scale-parts"]


def test_a_fit_on_a_sample(found):
    """10^8 / 2000 per s = 50,000 s = 13.9 h on 2 cores; on 160 cores an 80th of it, 625 s."""
    assert "| 100,000,000 | 102 GB | 100 s | 13.9 h | 10 min |" in found["scale-sample"]


def test_the_whole_graph(found):
    """5e7 nodes, 50 pieces, 2 x 50 s / 5e5 = 200 us: 5e5 core seconds x 1e6 / 3600; memory 5 GiB / 10^6 x 10^8."""
    assert "200 microseconds" in found["scale-graph"]
    assert "| 100,000,000 | 50,000,000 | 50 | 139 core hours | 51.2 GB | 42 min | 537 GB |" in found["scale-graph"]
    assert "13,889 core hours" in found["scale-graph"], "ten times the samples, a hundred times the work"


def test_the_network(found):
    """2 x 10^8 / 50,000 = 4000 s an epoch; ten epochs on 8 GPUs: 5000 s; 25,000 images of 3072 bytes a second."""
    assert "| 100,000,000 | 307 GB | 67 min | 83 min | 76.8 MB a second | 51.2 GB |" in found["scale-network"]
    assert "= 8.97 MB" in found["scale-network"]


def test_banks(found):
    assert "| int8 | 256 | 0.990 | 25.6 GB | 256 GB |" in found["scale-banks"]
