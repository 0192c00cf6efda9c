"""Subspace distances: the direction of a made shift is found, removed exactly, and bad input is refused."""

import numpy as np
import pytest
import torch
from tests.decision.test_attribution import world

from wildspec.detectors.subspace import domain_directions, subspace_score, without
from wildspec.errors import InputError


def test_the_direction_of_the_shift_is_found() -> None:
    """The shifted samples of `world` lean towards the fourth axis."""
    labelled, labels, wild, truth = world()
    direction = domain_directions(labelled, labels, wild, truth)
    assert direction.shape == (1, 8)
    assert direction.norm().item() == pytest.approx(1, abs=1e-5)
    assert abs(direction[0, 3].item()) > 0.9


def test_what_is_left_has_length_one_and_no_part_along_the_directions() -> None:
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.normal(size=(20, 6)) * 3).float()
    directions = torch.linalg.qr(torch.from_numpy(rng.normal(size=(6, 2))))[0].T.float()
    left = without(rows, directions)
    assert left.norm(dim=1).tolist() == pytest.approx([1.0] * 20, abs=1e-5)
    assert (left @ directions.T).abs().max() < 1e-5


def test_score_is_that_of_a_slow_loop() -> None:
    labelled, labels, wild, truth = world(3)
    directions = domain_directions(labelled, labels, wild, truth, rank=2)
    found = subspace_score(wild, labelled, directions, k=4)
    left = np.eye(8) - directions.double().numpy().T @ directions.double().numpy()
    bank = [left @ (row / np.linalg.norm(row)) for row in labelled.double().numpy()]
    bank = [row / np.linalg.norm(row) for row in bank]
    for i, row in enumerate(wild.double().numpy()):
        mine = left @ (row / np.linalg.norm(row))
        mine /= np.linalg.norm(mine)
        assert found[i].item() == pytest.approx(sorted(np.linalg.norm(mine - other) for other in bank)[3], abs=1e-5)


def test_shifted_samples_come_nearer_and_unknown_ones_do_not() -> None:
    labelled, labels, wild, truth = world(1)
    directions = domain_directions(labelled, labels, wild, truth)
    plain, cleaned = (subspace_score(wild, labelled, d, k=5) for d in (directions[:0], directions))
    assert cleaned[truth >= 0].mean() < 0.6 * plain[truth >= 0].mean()
    assert cleaned[truth < 0].mean() > 0.95 * plain[truth < 0].mean()


def test_bad_input() -> None:
    labelled, labels, wild, truth = world()
    with pytest.raises(InputError, match="no class has both"):
        domain_directions(labelled, labels, wild, torch.full_like(truth, -1))
    with pytest.raises(InputError, match="one label per sample"):
        domain_directions(labelled, labels[1:], wild, truth)
    with pytest.raises(InputError, match="rank must be at most 3"):
        domain_directions(labelled, labels, wild, truth, rank=4)


def test_samples_of_no_class_say_nothing_about_the_shift(rng: np.random.Generator) -> None:
    """-1 among the labelled and among the wild samples is not one class that both have."""
    labelled, wild = rng.normal(size=(30, 6)), rng.normal(size=(40, 6)) + np.eye(6)[0]
    y, w = np.arange(30) % 3 - 1, np.arange(40) % 3 - 1
    found = domain_directions(labelled, y, wild, w, rank=2)
    alone = domain_directions(labelled[y >= 0], y[y >= 0], wild[w >= 0], w[w >= 0], rank=2)
    torch.testing.assert_close(found.T @ found, alone.T @ alone)
