"""benchmarks/measure_weights.py: kept weights, measured again, give the record they came with."""

from pathlib import Path

import pytest
from tests.bench.tiny_run import request_of
from tests.scripts import run_script

from wildspec.bench.plan import Job, plan
from wildspec.bench.records import PAPER, read_record
from wildspec.bench.run import run
from wildspec.training.checkpoint import listed
from wildspec.training.recipe import Recipe

TINY = Recipe("fast", 0.05, model="small", size=8, changes={"train.batch_labelled": 48})


@pytest.fixture(scope="module")
def job(data: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A model that was trained, measured and kept."""
    request = request_of(data, cache, tmp_path_factory.mktemp("run"), "knn", TINY, seeds=(0,), unseen=False)
    assert run(request).complete
    return plan(request)[0]


@pytest.mark.parametrize("mirror", [False, True])
def test_kept_weights_are_measured_again(
    data: Path, cache: Path, job: Job, tmp_path: Path, mirror: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = listed(job.folder / "checkpoints")[-1] / "tensors.safetensors"
    words = ["--record", job.record("knn"), "--weights", weights, "--data", data, "--cache", cache, "--detectors", "knn,msp",
             "--out", tmp_path / "again", *(["--mirror"] if mirror else [])]  # fmt: skip
    run_script(monkeypatch, "benchmarks/measure_weights.py", *words)
    first, names = read_record(job.record("knn")), sorted(path.name for path in (tmp_path / "again").iterdir())
    end = "-mirror.json" if mirror else ".json"
    assert names == [f"svhn-knn{end}", f"svhn-msp{end}"]
    again = read_record(tmp_path / "again" / names[0])
    assert again["trained_by"] == first["command"]
    assert again["splits"] == first["splits"]
    if mirror:
        assert again["recipe"] == f"{first['recipe']}, mirrored"
        assert again["threshold"] != first["threshold"]
    else:
        assert {name: again[name] for name in PAPER} == {name: first[name] for name in PAPER}
        assert again["threshold"] == pytest.approx(first["threshold"], rel=1e-6), "single precision"
