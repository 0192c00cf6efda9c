"""benchmarks/measure_weights.py: kept weights, measured again, give the record they came with."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.tiny import write_tiny

from wildspec.bench.plan import BenchRequest, plan
from wildspec.bench.protocols import choose_rows, protocol
from wildspec.bench.records import PAPER, read_record
from wildspec.bench.run import run
from wildspec.training.checkpoint import listed
from wildspec.training.recipe import Recipe

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "measure_weights.py"
TINY = Recipe("fast", 0.05, model="small", size=8, changes={"train.batch_labelled": 48})


@pytest.mark.parametrize("mirror", [False, True])
def test_kept_weights_are_measured_again(tmp_path: Path, mirror: bool) -> None:
    data = write_tiny(tmp_path / "data")
    request = BenchRequest(
        protocol("cifar10").resized(8), ("svhn",), choose_rows(["knn"]), (0,), data, tmp_path / "run", TINY,
        cache=tmp_path / "cache", device="cpu", unseen=False,
    )  # fmt: skip
    assert run(request).complete
    (job,) = plan(request)
    weights = listed(job.folder / "checkpoints")[-1] / "tensors.safetensors"
    command = [
        sys.executable, str(SCRIPT), "--record", str(job.record("knn")), "--weights", str(weights), "--data", str(data),
        "--cache", str(tmp_path / "cache"), "--detectors", "knn,msp", "--out", str(tmp_path / "again"),
    ]  # fmt: skip
    done = subprocess.run([*command, *(["--mirror"] if mirror else [])], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
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
