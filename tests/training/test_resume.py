"""A run cut anywhere and resumed ends with the very same bits as one that was not."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.common import assert_same_bits, data, method, model, quiet, stages, weights

from wildspec.errors import CheckpointError, DataError, InputError
from wildspec.training import train
from wildspec.training.checkpoint import listed, load, save
from wildspec.training.progress import Progress


class CutError(Exception):
    """Stands for whatever ends a run from outside."""


@functools.cache
def uncut(dropout: bool) -> dict[str, torch.Tensor]:
    return weights(train(model(dropout=dropout), method(), data(), quiet(), stages=stages(ema=0.9)))


# inside stage one (dropout, too, goes on with the numbers it would have drawn), at the border, inside stage two
@pytest.mark.parametrize(("cut_after", "dropout"), [(2, True), (6, False), (9, False)])
def test_cut_and_resumed_is_bit_identical(tmp_path: Path, cut_after: int, dropout: bool, monkeypatch) -> None:
    recipe, whole = stages(ema=0.9), uncut(dropout)

    import wildspec.training.loop as loop

    original, calls = loop.checkpoint.save, []

    def save_and_cut(folder: Path, step: int, *rest, **kw):
        path = original(folder, step, *rest, **kw)
        calls.append(step)
        if len(calls) == cut_after:
            raise CutError
        return path

    monkeypatch.setattr(loop.checkpoint, "save", save_and_cut)
    settings = quiet(checkpoint_steps=1, keep=3)
    with pytest.raises(CutError):
        train(model(dropout=dropout), method(), data(), settings, stages=recipe, run_dir=tmp_path)
    monkeypatch.setattr(loop.checkpoint, "save", original)
    fresh = model(seed=99, dropout=dropout)  # other initial weights: everything must come from the checkpoint
    torch.manual_seed(12345)
    result = train(fresh, method(), data(), settings, stages=recipe, run_dir=tmp_path, resume=True)
    assert result.finished
    assert_same_bits(weights(result), whole)
    steps = [row["step"] for row in result.history]
    assert steps == sorted(set(steps))  # no row twice, none missing
    assert steps == list(range(1, result.steps + 1))
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert written == result.history  # rows past the checkpoint are written anew, the others are kept


def test_time_limit_stops_with_a_checkpoint_and_resumes(tmp_path: Path) -> None:
    recipe = stages()
    whole = weights(train(model(), method(), data(), quiet(), stages=recipe))
    pieces = 0
    while True:
        result = train(model(), method(), data(), quiet(time_limit=1e-9), stages=recipe, run_dir=tmp_path, resume=True)
        pieces += 1
        if result.finished:
            break
    assert pieces > 3
    assert_same_bits(weights(result), whole)


KILLED = """
import sys
from tests.training.common import data, method, model, quiet, stages
from wildspec.training import train
train(model(), method(), data(), quiet(checkpoint_steps=1), stages=stages(epochs=6), run_dir=sys.argv[1], resume=True)
"""


def test_killed_process_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """A real process, really killed (SIGKILL) once it has written a few checkpoints, wherever it happens to be."""
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run")]
    process = subprocess.Popen(command, cwd=root, env=environment)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        newest = listed(tmp_path / "run" / "checkpoints")
        if newest and int(newest[-1].name.split("-")[1]) >= 4:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # it was still at work
    torch.set_num_threads(1)
    recipe = stages(epochs=6)
    result = train(model(seed=5), method(), data(), quiet(), stages=recipe, run_dir=tmp_path / "run", resume=True)
    whole = train(model(), method(), data(), quiet(), stages=recipe)
    assert_same_bits(weights(result), weights(whole))


def test_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    recipe = stages()
    whole = weights(train(model(), method(), data(), quiet(checkpoint_steps=1, keep=3), stages=recipe, run_dir=tmp_path))
    newest = listed(tmp_path / "checkpoints")[-1] / "tensors.safetensors"
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        load(newest.parent)
    with pytest.warns(UserWarning, match="using the one before it"):
        again = train(model(3), method(), data(), quiet(), stages=recipe, run_dir=tmp_path, resume=True)
    assert_same_bits(weights(again), whole)


def test_a_run_begun_on_a_gpu_goes_on_on_a_cpu(tmp_path: Path) -> None:
    """A GPU's generator has 16 bytes, with which a CPU's can do nothing: the views that are left are drawn anew."""
    recipe = stages()
    whole = train(model(), method(), data(), quiet(), stages=recipe)
    train(model(), method(), data(), quiet(time_limit=1e-9), stages=recipe, run_dir=tmp_path)
    cut = load(listed(tmp_path / "checkpoints")[-1])
    gpu = torch.zeros(16, dtype=torch.uint8)
    tensors = cut.tensors | {"random.augmentation": gpu, "random.cuda": gpu}
    save(tmp_path / "checkpoints", cut.facts["steps"], tensors, cut.facts)
    with pytest.warns(UserWarning, match="another kind of device"):
        result = train(model(3), method(), data(), quiet(), stages=recipe, run_dir=tmp_path, resume=True)
    assert (result.finished, result.steps, result.views) == (True, whole.steps, whole.views)
    assert not all(torch.equal(one, weights(whole)[name]) for name, one in weights(result).items())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """A run with its last three checkpoints, and its weights."""
    folder, settings = tmp_path_factory.mktemp("finished"), quiet(checkpoint_steps=1, keep=3)
    return folder, weights(train(model(), method(), data(), settings, stages=stages(epochs=1), run_dir=folder))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["facts"].update(step=state["facts"]["step"] + 1),
        lambda state: state["facts"].update(stage_number=1 - state["facts"]["stage_number"]),
        lambda state: state["facts"].update(seed=99),
        lambda state: state["facts"].pop("labels"),
        lambda state: state["facts"].update(more=1),
        lambda state: state.update(step=state["step"] + 1),
        lambda state: state.update(format=3),
        lambda state: state.update(format=1),
        lambda state: state.pop("state_sha256"),
        lambda state: state.clear(),
    ],
)
def test_a_changed_state_is_damage_and_the_one_before_is_used(
    finished: tuple[Path, dict[str, torch.Tensor]], tmp_path: Path, change: Callable[[Any], Any]
) -> None:
    """Whatever is changed in it: where the run is, what it was started with, or the version."""
    run = shutil.copytree(finished[0], tmp_path / "run")
    newest = listed(run / "checkpoints")[-1] / "state.json"
    state = json.loads(newest.read_text())
    change(state)
    newest.write_text(json.dumps(state))
    with pytest.raises(CheckpointError):
        load(newest.parent)
    with pytest.warns(UserWarning, match="using the one before it"):
        again = train(model(3), method(), data(), quiet(), stages=stages(epochs=1), run_dir=run, resume=True)
    assert_same_bits(weights(again), finished[1])


def test_a_checkpoint_under_the_name_of_another_is_damaged(tmp_path: Path) -> None:
    path = save(tmp_path, 3, {"a": torch.zeros(2)}, {"x": 0.1})
    assert load(path).facts == {"x": 0.1}
    path.rename(tmp_path / "step-000000004")
    with pytest.raises(CheckpointError, match="not what was written"):
        load(tmp_path / "step-000000004")


def test_a_checkpoint_of_the_first_format_has_no_digest_of_its_own(tmp_path: Path) -> None:
    path = save(tmp_path, 3, {"a": torch.zeros(2)}, {"x": 0.1})
    state = json.loads((path / "state.json").read_text())
    del state["state_sha256"]
    (path / "state.json").write_text(json.dumps({**state, "format": 1}))
    assert load(path).facts == {"x": 0.1}


def test_no_intact_checkpoint_is_an_error(tmp_path: Path) -> None:
    train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path)
    for path in listed(tmp_path / "checkpoints"):
        (path / "state.json").write_text("{")
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(CheckpointError, match=r"no intact.*; remove it"):
        train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path, resume=True)


def test_a_run_folder_is_not_overwritten_nor_resumed_with_another_recipe(tmp_path: Path) -> None:
    train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path)
    with pytest.raises(InputError, match="holds a run already"):
        train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path)
    with pytest.raises(InputError, match="another stage"):
        train(model(), method(), data(), quiet(), stages=stages(epochs=2), run_dir=tmp_path, resume=True)
    for other in (data(labelled=90), data(wild=100)):
        with pytest.raises(InputError, match="another number of images"):
            train(model(), method(), other, quiet(), stages=stages(epochs=1), run_dir=tmp_path, resume=True)
    with pytest.raises(InputError, match="another seed"):
        train(model(), method(), data(), quiet(seed=1), stages=stages(epochs=1), run_dir=tmp_path, resume=True)


def test_full_disk_stops_clearly_and_keeps_the_older_checkpoints(tmp_path: Path, monkeypatch) -> None:
    import wildspec.training.checkpoint as checkpoint

    written = []
    original = checkpoint.save_file

    def fill_up(tensors, path):
        written.append(path)
        if len(written) > 2:
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        original(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", fill_up)
    with pytest.raises(CheckpointError, match=r"No space left.*intact"):
        train(model(), method(), data(), quiet(checkpoint_steps=1), stages=stages(), run_dir=tmp_path)
    kept = listed(tmp_path / "checkpoints")
    assert len(kept) == 2
    for path in kept:
        load(path)
    assert not list((tmp_path / "checkpoints").glob(".*"))  # nothing half-written


def test_what_a_kill_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    """Otherwise every kill while saving would cost the size of a checkpoint for good."""
    torn = tmp_path / "checkpoints" / ".step-000000007.12345"
    torn.mkdir(parents=True)
    (torn / "tensors.safetensors").write_bytes(b"half")
    result = train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path, resume=True)
    assert result.finished
    assert [path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.startswith(".")] == []
    assert len(listed(tmp_path / "checkpoints")) == 2


def test_a_kill_while_the_log_is_cut_leaves_the_log(tmp_path: Path, monkeypatch) -> None:
    """Resuming drops the rows past the checkpoint; the shorter log is written beside the longer one."""
    import wildspec.training.progress as progress

    train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path)
    log = tmp_path / "metrics.jsonl"
    log.write_text(log.read_text() + json.dumps({"step": 99}) + "\n")
    before = log.read_text()

    def killed(path: Path, text: str) -> None:
        raise CutError

    monkeypatch.setattr(progress, "write_text", killed)
    with pytest.raises(CutError):
        train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path, resume=True)
    assert log.read_text() == before
    monkeypatch.undo()
    train(model(), method(), data(), quiet(), stages=stages(epochs=1), run_dir=tmp_path, resume=True)
    assert log.read_text() == before.rsplit("\n", 2)[0] + "\n"


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    log = Progress(tmp_path, show=False, tensorboard=False)
    (tmp_path / "metrics.jsonl").mkdir()  # stands for a full disk
    with pytest.raises(DataError, match=r"cannot write .*metrics\.jsonl: Is a directory"):
        log.row({"step": 1, "stage": "train"}, 1, 2)
