"""Files are whole or absent: every way a write can end badly leaves what was there before."""

import errno
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wildspec.errors import DataError, InputError
from wildspec.files import append_line, check_out, read_json, replacing, sha256_file, short_hash, write_json, write_text


def _left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_and_read_back(tmp_path: Path) -> None:
    target = tmp_path / "new" / "deeper" / "a.json"
    write_json(target, {"b": 1, "a": [0.1, None, "ü"]})
    assert read_json(target) == {"b": 1, "a": [0.1, None, "ü"]}
    assert list(json.loads(target.read_text())) == ["b", "a"], "keys keep their order"
    assert _left_behind(target.parent) == ["a.json"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_who_may_read_a_file_is_the_users_choice(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "x")
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode
        (tmp_path / "a.txt").chmod(0o640)
        with replacing(tmp_path / "a.txt") as temporary:  # as a library that makes a file of its own
            temporary.unlink()
            os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640, "said of the file that is replaced"
    finally:
        os.umask(before)


def test_a_folder_is_no_place_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    for place in (".", "taken", tmp_path):
        with pytest.raises(DataError, match=r"cannot write .*another path"):
            write_text(place, "x")
    assert _left_behind(tmp_path) == ["taken"]


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    for name in ("n" * 251 + ".txt", "n." + "s" * 253, "名" * 83 + ".txt", "名." + "名" * 83):
        write_text(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"
    assert len(_left_behind(tmp_path)) == 4


def test_an_exception_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")

    def interrupted() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert _left_behind(tmp_path) == ["a.txt"]


def test_a_value_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_json(target, 1)
    with pytest.raises(ValueError, match="JSON"):
        write_json(target, {"auroc": math.nan})
    assert read_json(target) == 1


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    program = (
        "import os, signal, sys\n"
        "from wildspec.files import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(target)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "old"


def test_a_file_that_does_not_fit_is_an_error_and_leaves_the_old_file(tmp_path: Path) -> None:
    """A real refusal by the kernel: the process may write no file above 4 KiB."""
    target = tmp_path / "a.txt"
    write_text(target, "old")
    program = (
        "import resource, signal, sys\n"
        "from wildspec.errors import DataError\n"
        "from wildspec.files import write_text\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    write_text(sys.argv[1], 'x' * 100_000)\n"
        "except DataError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(target)], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"cannot write {target}: ")
    assert target.read_text() == "old"
    assert _left_behind(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_one_line_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(DataError, match=r"cannot write .*a\.txt: No space left"):
        write_text(target, "new")
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert _left_behind(tmp_path) == ["a.txt"]


def test_read_json_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.json does not exist"):
        read_json(tmp_path / "gone.json")
    (tmp_path / "bad.json").write_text('{"a": 1')
    with pytest.raises(DataError, match=r"bad\.json is not readable"):
        read_json(tmp_path / "bad.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"bytes\.json is not readable"):
        read_json(tmp_path / "bytes.json")


@pytest.mark.parametrize("text", ["1e999", "[-1e400]", '{"a": NaN}', "Infinity"])
def test_what_becomes_infinite_is_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match="not readable JSON"):
        read_json(tmp_path / "x.json")


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(DataError, match="cannot write"):
        write_text(tmp_path / "a.txt", "new")
    assert _left_behind(tmp_path) == ["a.txt"]


def test_sha256_of_more_than_one_block(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000  # 1.2 MiB: more than one read
    (tmp_path / "a.bin").write_bytes(data)
    assert sha256_file(tmp_path / "a.bin") == hashlib.sha256(data).hexdigest()


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"cannot write .*out\.json"):
        write_json(tmp_path / "file" / "out.json", {})


def test_lines_of_a_log_stay_lines_after_a_torn_one(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    append_line(log, "ü1")
    append_line(log, "2")
    assert log.read_text(encoding="utf-8") == "ü1\n2\n"
    log.write_text("1\n{half", encoding="utf-8")  # what a kill leaves
    append_line(log, "3")
    assert log.read_text(encoding="utf-8") == "1\n{half\n3\n"
    with pytest.raises(DataError, match=r"cannot write .*: Is a directory"):
        append_line(tmp_path, "4")


def test_short_hash_ignores_the_order_of_keys() -> None:
    assert short_hash({"a": 1, "b": [1, 2]}) == short_hash({"b": [1, 2], "a": 1})
    assert short_hash({"a": 1}) != short_hash({"a": 2})


def test_a_link_stays_a_link_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link.txt").symlink_to(tmp_path / "far" / "real.txt")
    for text in ("new", "newer"):
        write_text(tmp_path / "link.txt", text)
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "far" / "real.txt").read_text() == text
    assert _left_behind(tmp_path / "far") == ["real.txt"]


def test_a_pipe_gets_what_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, "through it")
    reader.join(30)
    assert got == ["through it"]
    assert pipe.is_fifo()
    assert _left_behind(tmp_path) == ["pipe"]


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    (tmp_path / "null.txt").symlink_to(os.devnull)  # were it replaced, then here
    write_text(tmp_path / "null.txt", "x")
    assert (tmp_path / "null.txt").is_char_device()


def test_a_folder_is_refused_before_the_work() -> None:
    def work() -> None:
        with replacing("."):
            pytest.fail("the work was done")

    with pytest.raises(DataError, match=r"folder.*another path") as told:
        work()
    assert "free space" not in str(told.value)


def test_an_output_is_none_of_the_inputs(tmp_path: Path) -> None:
    shards, table = tmp_path / "shards", tmp_path / "in.parquet"
    shards.mkdir()
    for file in (shards / "a.parquet", table):
        file.write_bytes(b"x")
    (tmp_path / "link.parquet").symlink_to(table)
    (tmp_path / "other.parquet").hardlink_to(table)
    check_out(tmp_path / "out.parquet", table, shards, None, "hf:some/thing")
    check_out(shards / "scores.csv", table, shards)
    for out in (table, tmp_path / "link.parquet", tmp_path / "other.parquet", tmp_path / "shards" / ".." / "in.parquet"):
        with pytest.raises(InputError, match=r"same file.*another --out"):
            check_out(out, None, str(table))
    for out in (shards / "a.parquet", shards / "b.parquet"):
        with pytest.raises(InputError, match=r"folder.*another --out"):
            check_out(out, table, str(shards))
    with pytest.raises(DataError, match=r"folder"):
        check_out(shards, table)
