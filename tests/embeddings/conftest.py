"""A world of embeddings and a classifier that learned it. Nobody changes them."""

import pytest

from shifted_world import World, make_world
from wildspec import SpectralClassifier


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(2)


@pytest.fixture(scope="session")
def model(world: World) -> SpectralClassifier:
    return SpectralClassifier(random_state=0).fit(world.labelled, world.labels, X_wild=world.wild)
