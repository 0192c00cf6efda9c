"""Scripts of the repository as modules, so that their functions can be tested."""

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def load_script(path: str) -> ModuleType:
    """``path``: from the root of the repository, as "benchmarks/one_group.py"."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(monkeypatch: pytest.MonkeyPatch, path: str, *words: object) -> None:
    """Run a script in this process, as typed; what it imports beside itself is found."""
    monkeypatch.setattr(sys, "argv", [path, *map(str, words)])
    monkeypatch.syspath_prepend(str((ROOT / path).parent))
    runpy.run_path(str(ROOT / path), run_name="__main__")
