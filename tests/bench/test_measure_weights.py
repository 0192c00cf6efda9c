"""benchmarks/measure_weights.py: kept weights, measured again, give the record they came with."""

from pathlib import Path

import pytest
from tests.bench.tiny import write_office_home
from tests.bench.tiny_run import request_of
from tests.scripts import run_script

from wildspec.bench.plan import BenchRequest, Job, plan
from wildspec.bench.protocols import protocol
from wildspec.bench.records import OPEN_SET, PAPER, read_record
from wildspec.bench.run import run
from wildspec.training.checkpoint import listed
from wildspec.training.recipe import Recipe

# Large enough for ImageNet's mean and deviation instead of CIFAR-10's
TINY = Recipe("fast", 0.05, model="small", size=72, changes={"train.batch_labelled": 48})


@pytest.fixture(scope="module")
def job(data: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A model that was trained, measured and kept."""
    request = request_of(data, cache, tmp_path_factory.mktemp("run"), "knn,ash", TINY, TINY.size, seeds=(0,), unseen=False)
    assert run(request).complete
    return plan(request)[0]


@pytest.mark.parametrize("mirror", [False, True])
def test_kept_weights_are_measured_again(
    data: Path, cache: Path, job: Job, tmp_path: Path, mirror: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = listed(job.folder / "checkpoints")[-1] / "tensors.safetensors"
    words = ["--record", job.record("knn"), "--weights", weights, "--data", data, "--cache", cache, "--detectors", "knn,ash",
             "--out", tmp_path / "again", *(["--mirror"] if mirror else [])]  # fmt: skip
    run_script(monkeypatch, "benchmarks/measure_weights.py", *words)
    end = "-mirror.json" if mirror else ".json"
    made = {path.name: read_record(path) for path in (tmp_path / "again").iterdir()}
    assert made.keys() == {f"svhn-ash{end}", f"svhn-knn{end}"}
    for name in ("ash", "knn"):
        first, again = read_record(job.record(name)), made[f"svhn-{name}{end}"]
        assert again["trained_by"] == first["command"]
        assert again["splits"] == first["splits"]
        assert again["detector_config"] == first["detector_config"]
        if mirror:
            assert again["recipe"] == f"{first['recipe']}, mirrored"
            assert again["threshold"] != first["threshold"]
        else:
            assert {metric: again[metric] for metric in PAPER} == {metric: first[metric] for metric in PAPER}
            assert again["threshold"] == pytest.approx(first["threshold"], rel=1e-5), "single precision"


def test_a_network_with_outputs_of_its_method_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_office_home(tmp_path / "data", per_class=10)
    recipe = Recipe("fast", 0.02, model="small", size=8)
    small, methods = protocol("office-home").resized(8), {"osbp": ["unknown_logit"]}
    request = BenchRequest(small, ("Ar->Rw",), methods, (0,), data, tmp_path / "run", recipe, device="cpu")
    assert run(request).complete
    job = plan(request)[0]
    weights = listed(job.folder / "checkpoints")[-1] / "tensors.safetensors"
    words = ["--record", job.record("unknown_logit"), "--weights", weights, "--data", data, "--cache", tmp_path / "cache",
             "--detectors", "unknown_logit", "--out", tmp_path / "again"]  # fmt: skip
    run_script(monkeypatch, "benchmarks/measure_weights.py", *words)
    first, again = read_record(job.record("unknown_logit")), read_record(tmp_path / "again" / "Ar-to-Rw-unknown_logit.json")
    names = (*PAPER, *OPEN_SET)
    assert {name: again[name] for name in names} == {name: first[name] for name in names}
