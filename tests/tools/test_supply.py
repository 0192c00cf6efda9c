"""The lock file and the bill of materials hold what pyproject.toml asks for, and all that it needs."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scripts import run_script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[[str], str]:
    def printed(what: str) -> str:
        run_script(monkeypatch, "tools/supply.py", what)
        return str(capsys.readouterr().out)

    return printed


def test_the_minima_are_the_bounds_of_pyproject(made: Callable[[str], str]) -> None:
    lines = made("minima").split()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("pillow", "python-multipart", "torch"):
        bound = re.search(rf'"{name}>=([0-9.]+)"', project)
        assert bound is not None
        assert f"{name}=={bound[1]}" in lines


def test_every_package_is_locked_listed_and_has_a_licence(made: Callable[[str], str]) -> None:
    locked = dict(line.split("==") for line in made("lock").splitlines() if not line.startswith("#"))
    listed = {one["name"]: one for one in json.loads(made("sbom"))["components"]}
    assert set(locked) == set(listed)
    assert {"torch", "pillow", "onnxruntime", "starlette", "click", "jinja2"} <= set(locked), "also what others need"
    assert "pytest" not in locked
    for name, one in listed.items():
        assert one["licenses"][0]["license"]["name"] != "not stated", name


def test_the_committed_lock_satisfies_the_bounds(made: Callable[[str], str]) -> None:
    lines = (ROOT / "constraints-deploy.txt").read_text(encoding="utf-8").splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    for line in made("minima").split():
        name, _, lowest = line.partition("==")
        have, least = ([int(part) for part in re.findall(r"\d+", text)] for text in (locked[name.lower()], lowest))
        assert have >= least, name
