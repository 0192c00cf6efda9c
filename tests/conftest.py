"""Shared fixtures: one seeded generator, and pictures that no model of these tests has seen."""

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import tiny_model


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240911)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept for next time is kept for these tests only; commands that they start find it, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


gc.disable()  # while thousands of tests and their packages are read, there is nothing to clear away


def pytest_collection_finish() -> None:
    gc.freeze()  # what is there now stays: it need not be looked through again
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("cuda")]
    if not wanted:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


@pytest.fixture(scope="session")
def known() -> tuple[np.ndarray, np.ndarray]:
    images, shapes = tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 15), 77)
    return images, np.array([tiny_model.CLASSES.index(shape) for shape in shapes])


@pytest.fixture(scope="session")
def unknown() -> np.ndarray:
    return tiny_model.pictures({"stripes": 20}, 78)[0]
