"""A result's record: complete, plain JSON, and free of the machine's own names and paths."""

import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from wildspec import __version__, provenance


def test_environment_is_json_with_the_promised_keys() -> None:
    record = json.loads(json.dumps(provenance.environment(), allow_nan=False))
    assert set(record) == {"created", "command", "commit", "versions", "hardware"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["created"])
    assert record["versions"]["torch"] == version("torch")
    assert record["versions"]["wildspec"] == __version__
    assert record["versions"]["python"] == platform.python_version()
    assert record["hardware"]["cores"] == os.cpu_count()


def test_describing_the_machine_does_not_load_torch() -> None:
    program = "import sys; from wildspec.provenance import environment; environment(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/somewhere/bin/wildspec", "bench", "cifar10"], "wildspec bench cifar10"),
        (["/x/site-packages/wildspec/__main__.py", "demo"], "wildspec demo"),
        (["/home/someone/wildspec/benchmarks/loss.py", "--out", "a b"], "python benchmarks/loss.py --out 'a b'"),
    ],
)
def test_command_is_what_one_would_type(monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: str) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert provenance.environment()["command"] == expected


def test_commit_outside_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_git(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.delenv("WILDSPEC_COMMIT", raising=False)
    assert provenance.git_commit() is None
    monkeypatch.setenv("WILDSPEC_COMMIT", "abc")
    assert provenance.git_commit() == "abc"


def test_commit_names_the_checkout_and_its_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "provenance.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    head = git("rev-parse", "HEAD")
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    clean = provenance.git_commit()
    assert clean is not None
    assert head.startswith(clean)
    assert len(clean) == 12
    (tmp_path / "provenance.py").write_text("x = 2\n")
    assert provenance.git_commit() == clean + "+"


def test_the_commit_of_a_project_that_only_installed_it_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment often lies inside the repository of its user."""
    inside = tmp_path / ".venv" / "wildspec"
    inside.mkdir(parents=True)
    (inside / "provenance.py").write_text("x = 1\n")
    (tmp_path / "theirs.py").write_text("y = 2\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "--quiet"], ["add", "theirs.py"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, check=True)
    monkeypatch.setattr(provenance, "__file__", str(inside / "provenance.py"))
    monkeypatch.delenv("WILDSPEC_COMMIT", raising=False)
    assert provenance.git_commit() is None
