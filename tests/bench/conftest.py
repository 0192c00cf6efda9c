"""The tiny data set and the cache of prepared images that the runner's tests share; the script behind the results pages."""

from pathlib import Path
from types import ModuleType

import pytest
from tests.bench.tiny import write_tiny
from tests.scripts import load_script


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("docs/make_results.py")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# x\n<!-- results:begin -->\nold\n<!-- results:end -->\nafter\n")
    return tmp_path
