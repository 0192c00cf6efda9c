"""Two trainings in one folder: the second is refused while the first lasts, however the first ends."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.training.common import data, method, model, quiet, stages

from wildspec.errors import InputError
from wildspec.training import train
from wildspec.training.lock import BusyError, locked


def test_a_folder_in_use_is_refused_and_free_again_afterwards(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run):
        for resume in (False, True):
            with pytest.raises(BusyError, match=r"another process is training in .*run"):
                train(model(), method(), data(), quiet(), stages=stages(1), run_dir=run, resume=resume)
    assert train(model(), method(), data(), quiet(), stages=stages(1), run_dir=run).finished
    with locked(run):  # train has given it back
        pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    code = f"""
import os, time
from pathlib import Path
from wildspec.training.lock import locked
with locked(Path({str(tmp_path)!r})):
    print("mine", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        with pytest.raises(BusyError), locked(tmp_path):
            pass
        process.kill()
        process.wait()
    with locked(tmp_path):
        pass


def test_a_file_in_the_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot write .*file: .*another folder"):
        train(model(), method(), data(), quiet(), stages=stages(1), run_dir=tmp_path / "file")


def test_without_a_folder_there_is_nothing_to_claim() -> None:
    with locked(None), locked(None):
        pass


def test_where_locks_do_not_work_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*rest: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_a_training_that_is_refused_has_written_nothing(tmp_path: Path) -> None:
    begun: list[int] = []
    with locked(tmp_path), pytest.raises(BusyError):
        train(model(), method(), data(), quiet(), stages=stages(1), run_dir=tmp_path, begin=lambda: begun.append(1))
    assert begun == []
    train(model(), method(), data(), quiet(), stages=stages(1), run_dir=tmp_path, begin=lambda: begun.append(1))
    assert begun == [1]
