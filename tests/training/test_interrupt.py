"""Ctrl-C: after the step, with a checkpoint, and the run goes on to the same bits; pressed twice, at once."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.training.common import assert_same_bits, data, method, model, quiet, stages, weights

from wildspec.methods.spectral import Spectral
from wildspec.training import train
from wildspec.training.checkpoint import listed
from wildspec.training.interrupt import patient


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """Shells start what runs in their background, these tests too, with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Pressed(Spectral):
    """Somebody presses Ctrl-C ``times`` times in step ``at``."""

    def __init__(self, at: int, times: int = 1) -> None:
        super().__init__(4)
        self.at, self.times, self.count = at, times, 0

    def loss(self, *given: Any) -> Any:
        self.count += 1
        for _ in range(self.times if self.count == self.at else 0):
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(*given)


def test_the_step_is_finished_and_the_run_goes_on_to_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = weights(train(model(), method(), data(), quiet(), stages=stages()))
    pressed = Pressed(at=8)
    with pytest.raises(KeyboardInterrupt):
        train(model(), pressed, data(), quiet(progress=True), stages=stages(), run_dir=tmp_path)
    assert pressed.count == 8
    assert [path.name for path in listed(tmp_path / "checkpoints")] == ["step-000000006", "step-000000008"]
    assert "interrupted: a checkpoint was written after step 8, resuming goes on from there" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = train(model(), method(), data(), quiet(), stages=stages(), run_dir=tmp_path, resume=True)
    assert_same_bits(weights(resumed), whole)


@pytest.mark.parametrize("at", [6, 12])
def test_the_last_step_of_a_stage_is_no_exception(at: int, tmp_path: Path) -> None:
    """Two stages of 6 steps: also when nothing is left to train, whoever called must learn of it."""
    pressed = Pressed(at=at)
    with pytest.raises(KeyboardInterrupt):
        train(model(), pressed, data(), quiet(), stages=stages(), run_dir=tmp_path)
    assert pressed.count == at
    assert listed(tmp_path / "checkpoints")[-1].name == f"step-{at:09d}"
    assert train(model(), method(), data(), quiet(), stages=stages(), run_dir=tmp_path, resume=True).steps == 12


def test_pressed_twice_it_ends_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(model(), Pressed(at=2, times=2), data(), quiet(), stages=stages(), run_dir=tmp_path)
    assert not listed(tmp_path / "checkpoints")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_folder_there_is_nothing_to_wait_for() -> None:
    pressed = Pressed(at=2)
    with pytest.raises(KeyboardInterrupt):
        train(model(), pressed, data(), quiet(), stages=stages())
    assert pressed.count == 2


def test_other_peoples_handlers_and_threads_are_left_alone() -> None:
    def theirs(*given: Any) -> None:
        pass

    before = signal.signal(signal.SIGINT, theirs)
    try:
        with patient():
            assert signal.getsignal(signal.SIGINT) is theirs
        assert signal.getsignal(signal.SIGINT) is theirs
    finally:
        signal.signal(signal.SIGINT, before)
    seen: list[Any] = []

    def elsewhere() -> None:
        with patient() as state:
            seen.extend([state.asked, signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [False, signal.default_int_handler]
