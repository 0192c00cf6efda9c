"""The metric of views against a dense eigen-decomposition in float64, and what it is for."""

import numpy as np
import pytest
import torch

from wildspec.decision.view_metric import ViewMetric, ViewScatter
from wildspec.errors import InputError


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def _views(rng: np.random.Generator, n: int = 300, width: int = 6, loud: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Pictures, and three views of each that move in direction ``loud`` most of all."""
    clean = rng.normal(size=(n, width)) + 2
    noise = 0.1 * rng.normal(size=(n, 3, width))
    noise[:, :, loud] *= 20
    return clean, clean[:, None] + noise


def test_it_is_the_inverse_root_of_the_scatter_of_differences(rng: np.random.Generator) -> None:
    clean, views = _views(rng)
    scatter = ViewScatter(6)
    for part in (slice(0, 7), slice(7, 300)):
        scatter.add(torch.from_numpy(clean[part]).float(), torch.from_numpy(views[part]).float())
    differences = (_unit(views) - _unit(clean)[:, None]).reshape(-1, 6)
    expected = np.zeros((6, 6))
    for row in differences:
        expected += np.outer(row, row) / len(differences)
    expected += np.trace(expected) / 6 * np.eye(6)
    found = scatter.metric().matrix.double().numpy()
    product = found @ expected @ found  # T S T = a multiple of I exactly where T is a multiple of S^(-1/2)
    np.testing.assert_allclose(product / product[0, 0], np.eye(6), atol=1e-5)
    np.testing.assert_allclose(found, found.T, atol=1e-6)


def test_a_direction_in_which_views_differ_is_shrunk(rng: np.random.Generator) -> None:
    clean, views = _views(rng)
    scatter = ViewScatter(6)
    scatter.add(torch.from_numpy(clean).float(), torch.from_numpy(views).float())
    metric = scatter.metric()
    lengths = metric.matrix.norm(dim=1)
    assert lengths.argmin() == 2
    assert lengths[2] < 0.7 * lengths[[0, 1, 3, 4, 5]].min()
    before = np.linalg.norm(_unit(views) - _unit(clean)[:, None], axis=2).mean()
    prepared = metric.prepare(torch.from_numpy(clean))
    moved = metric.prepare(torch.from_numpy(views.reshape(-1, 6))).view(300, 3, 6)
    assert float((moved - prepared[:, None]).norm(dim=2).mean()) < 0.8 * before, "views come nearer to their picture"


def test_rows_have_length_one_and_lengths_do_not_matter(rng: np.random.Generator) -> None:
    clean, views = _views(rng, n=50)
    first, second = ViewScatter(6), ViewScatter(6)
    first.add(torch.from_numpy(clean).float(), torch.from_numpy(views).float())
    second.add(torch.from_numpy(30 * clean).float(), torch.from_numpy(0.01 * views).float())
    rows = first.metric().prepare(torch.from_numpy(clean))
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(50))
    torch.testing.assert_close(second.metric().prepare(torch.from_numpy(5 * clean)), rows, atol=1e-5, rtol=0)


def test_without_views_rows_are_only_scaled(rng: np.random.Generator) -> None:
    rows = torch.from_numpy(rng.normal(size=(4, 3)))
    empty = ViewScatter(3)
    same = ViewScatter(3)
    same.add(rows.float(), rows.float().unsqueeze(1))
    for scatter in (empty, same):
        torch.testing.assert_close(scatter.metric().prepare(rows), torch.nn.functional.normalize(rows.float(), dim=1))
    torch.testing.assert_close(ViewMetric(torch.eye(3)).prepare(torch.zeros(1, 3)), torch.zeros(1, 3))


def test_views_of_another_width_are_an_error() -> None:
    with pytest.raises(InputError, match="views must be"):
        ViewScatter(3).add(torch.zeros(2, 3), torch.zeros(2, 5, 4))
