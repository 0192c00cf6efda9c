"""Shared fixtures: one seeded generator, single-threaded torch so that results do not depend on the machine's cores."""

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240911)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("cuda")]
    if not wanted:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))
