"""Pictures that no model of these tests has seen, of the known classes and of an unknown one; a world of embeddings and a
classifier that learned it. Nobody changes them."""

import numpy as np
import pytest
from shifted_world import World, make_world

import tiny_model
from wildspec import SpectralClassifier


@pytest.fixture(scope="session")
def known() -> tuple[np.ndarray, np.ndarray]:
    images, shapes = tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 15), 77)
    return images, np.array([tiny_model.CLASSES.index(shape) for shape in shapes])


@pytest.fixture(scope="session")
def unknown() -> np.ndarray:
    return tiny_model.pictures({"stripes": 20}, 78)[0]


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(2)


@pytest.fixture(scope="session")
def model(world: World) -> SpectralClassifier:
    return SpectralClassifier(random_state=0).fit(world.labelled, world.labels, X_wild=world.wild)
