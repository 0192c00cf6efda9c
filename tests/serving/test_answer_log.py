"""Answers on disk: what was acknowledged is there after kill -9, two writers lose nothing, undo takes back what it names."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wildspec.errors import DataError, InputError
from wildspec.serving.answer_log import ANSWER, SKIP, UNDO, AnswerLog

POOL = "0123456789ab"
WRITER = """
import sys
from wildspec.serving.answer_log import AnswerLog
log = AnswerLog(sys.argv[1], sys.argv[2])
for i in range(int(sys.argv[4])):
    assert log.add(f"{sys.argv[3]}{i}", "answer", [str(i), str(i + 1000)], "cat, \\"big\\"")
    print(i, flush=True)
"""


def start(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), POOL, name, str(count)], stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "MODEL.answers.csv"


def test_the_last_answer_counts_and_undo_takes_back_what_it_names(path: Path) -> None:
    log = AnswerLog(path, POOL)
    assert not path.exists()
    assert log.add("a", ANSWER, ["1", "2"], "cat")
    assert log.add("b", ANSWER, ["1"], "unknown")
    assert log.add("c", SKIP, ["7"])
    assert not log.add("b", ANSWER, ["1"], "unknown"), "the same request twice is written once"
    assert (log.answers, log.skipped) == ({"2": "cat", "1": "unknown"}, {"7"})
    assert log.add("b", UNDO)
    assert not log.add("b", UNDO)
    assert not log.add("nobody", UNDO)
    assert log.answers == {"1": "cat", "2": "cat"}
    assert [act.number for act in log.acts] == ["a", "c"]
    again = AnswerLog(path, POOL)
    assert (again.answers, again.skipped, again.torn) == (log.answers, log.skipped, 0)
    with open(path, newline="", encoding="utf-8") as stream:
        lines = list(csv.reader(stream))
    assert lines[0] == ["row", "class", "act", "did", "pool"]
    assert [line[3] for line in lines[1:]] == ["answer", "answer", "answer", "skip", "undo"], "only ever added to"


def test_kill_9_loses_nothing_that_was_acknowledged(path: Path) -> None:
    process = start(path, "k", 100_000)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline() for _ in range(25)][-1]
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()  # what it had said before it was killed
    last = int((rest.splitlines() or [acknowledged])[-1])
    process.wait()
    log = AnswerLog(path, POOL)
    assert len(log.acts) in (last + 1, last + 2), "the one that was on its way may be there"
    assert [act.number for act in log.acts] == [f"k{i}" for i in range(len(log.acts))]
    assert all(len(act.names) == 2 and act.value == 'cat, "big"' for act in log.acts)
    assert log.add("later", ANSWER, ["5"], "dog")
    assert AnswerLog(path, POOL).answers["5"] == "dog"


def test_two_writers_lose_nothing_and_see_each_other(path: Path) -> None:
    log = AnswerLog(path, POOL)
    both = [start(path, "x", 60), start(path, "y", 60)]
    for i in range(20):
        assert log.add(f"own{i}", ANSWER, ["2000"], str(i))
    assert [process.wait(120) for process in both] == [0, 0]
    for process in both:
        process.stdout.close()  # type: ignore[union-attr]
    log.sync()
    expected = {f"{name}{i}" for name in "xy" for i in range(60)} | {f"own{i}" for i in range(20)}
    assert {act.number for act in log.acts} == expected
    assert path.read_text(encoding="utf-8").count("row,class") == 1, "one made the table"
    assert log.torn == 0


@pytest.mark.parametrize("kept", [1, 5, 12, 30])
def test_a_torn_line_is_passed_over_and_the_next_is_whole(path: Path, kept: int) -> None:
    log = AnswerLog(path, POOL)
    log.add("a", ANSWER, ["1"], "cat")
    whole = path.read_bytes()
    log.add("b", ANSWER, ["2"], 'a "quoted", name')
    path.write_bytes(whole + path.read_bytes()[len(whole) :][:kept])
    torn = AnswerLog(path, POOL)
    assert torn.answers == {"1": "cat"}
    assert torn.add("c", ANSWER, ["3"], "dog")
    again = AnswerLog(path, POOL)
    assert again.answers == {"1": "cat", "3": "dog"}
    assert again.torn == 1


def test_a_table_torn_in_its_first_line_is_begun_again(path: Path) -> None:
    path.write_bytes(b"row,cl")
    log = AnswerLog(path, POOL)
    log.add("a", ANSWER, ["1"], "cat")
    assert AnswerLog(path, POOL).answers == {"1": "cat"}


def test_another_models_table_other_files_and_names_of_two_lines_are_refused(path: Path) -> None:
    AnswerLog(path, "ba9876543210").add("a", ANSWER, ["1"], "cat")
    with pytest.raises(InputError, match="ba9876543210"):
        AnswerLog(path, POOL)
    path.write_text("image,decision\nx.png,cat\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(InputError, match="row, class"):
        AnswerLog(path, POOL)
    assert path.read_bytes() == before
    path.unlink()
    with pytest.raises(InputError, match="one line"):
        AnswerLog(path, POOL).add("a", ANSWER, ["1"], "cat\n2,dog")
    log = AnswerLog(path, POOL, "image")
    log.add("a", ANSWER, ["x\ny.png"], "cat")
    assert AnswerLog(path, POOL, "image").answers == {"x\\x0ay.png": "cat"}


@pytest.mark.skipif(os.geteuid() == 0 or sys.platform == "win32", reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_line(path: Path) -> None:
    path.parent.chmod(0o500)
    try:
        with pytest.raises(DataError, match="--log"):
            AnswerLog(path, POOL).add("a", ANSWER, ["1"], "cat")
    finally:
        path.parent.chmod(0o700)


def test_a_full_disk_leaves_the_table_as_it_was(path: Path) -> None:
    """The process may write no file above 300 bytes: the write that is cut short is taken back."""
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "from wildspec.errors import DataError\n"
        "from wildspec.serving.answer_log import AnswerLog\n"
        "log = AnswerLog(sys.argv[1], sys.argv[2])\n"
        "try:\n"
        "    for i in range(100): log.add(str(i), 'answer', [str(i)], 'a class of some length')\n"
        "except DataError: print(i)\n"
    )
    found = subprocess.run([sys.executable, "-c", code, str(path), POOL], capture_output=True, text=True, check=True)
    log = AnswerLog(path, POOL)
    assert len(log.acts) == int(found.stdout) > 0
    assert log.torn == 0
