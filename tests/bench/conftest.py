"""The tiny data set and the cache of prepared images that the runner's tests share."""

from pathlib import Path

import pytest
from tests.bench.tiny import write_tiny


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")
