"""Pictures that no model of these tests has seen: of the known classes, and of an unknown one."""

import numpy as np
import pytest

import tiny_model


@pytest.fixture(scope="session")
def known() -> tuple[np.ndarray, np.ndarray]:
    images, shapes = tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 15), 77)
    return images, np.array([tiny_model.CLASSES.index(shape) for shape in shapes])


@pytest.fixture(scope="session")
def unknown() -> np.ndarray:
    return tiny_model.pictures({"stripes": 20}, 78)[0]
