"""Temperature scaling and the calibration error against a grid and a slow loop."""

import numpy as np
import pytest

from wildspec.decision.temperature import at_temperature, calibration_error, fit_temperature


def _oversure(rng: np.random.Generator, n: int = 4000, factor: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from true probabilities; what is said of them is sharpened by ``factor``."""
    true = at_temperature(rng.dirichlet(np.ones(4), n), 1.0)
    labels = np.array([rng.choice(4, p=row) for row in true])
    return at_temperature(true, 1 / factor), labels


def test_the_temperature_undoes_what_made_it_too_sure(rng: np.random.Generator) -> None:
    said, labels = _oversure(rng)
    assert fit_temperature(said, labels) == pytest.approx(3.0, rel=0.1)


def test_it_is_the_best_of_a_grid(rng: np.random.Generator) -> None:
    said, labels = _oversure(rng, n=300)

    def loss(t: float) -> float:
        total = 0.0
        for row, label in zip(at_temperature(said, t), labels, strict=True):
            total -= sum((301 if c == label else 1 / 3) / 302 * np.log(row[c]) for c in range(4))
        return total

    losses = {t: loss(t) for t in np.geomspace(1, 9, 120)}
    assert fit_temperature(said, labels) == pytest.approx(min(losses, key=losses.__getitem__), rel=0.02)


def test_few_images_that_are_all_right_make_nothing_certain() -> None:
    """n equal images: the best q is Laplace's rule of succession, (n + 1) / (n + 2), however many classes there are."""
    for count, said_of_one in ((8, [0.7, 0.3]), (48, [0.7, 0.3]), (500, [0.7, 0.3]), (48, [0.4, 0.2, 0.2, 0.2])):
        said = np.tile([said_of_one], (count, 1))
        found = at_temperature(said, fit_temperature(said, np.zeros(count, np.int64)))
        assert found[0, 0] == pytest.approx((count + 1) / (count + 2), abs=2e-3)


def test_error_by_a_slow_loop(rng: np.random.Generator) -> None:
    said, labels = _oversure(rng, n=500)
    expected = 0.0
    for low in range(15):
        inside = [i for i in range(500) if low / 15 <= said[i].max() < (low + 1) / 15 or (low == 14 and said[i].max() == 1)]
        if inside:
            accuracy = np.mean([said[i].argmax() == labels[i] for i in inside])
            expected += len(inside) / 500 * abs(accuracy - np.mean([said[i].max() for i in inside]))
    assert calibration_error(said, labels) == pytest.approx(expected)
    assert expected > 0.1


def test_classes_stay_and_rows_sum_to_one(rng: np.random.Generator) -> None:
    said = rng.dirichlet(np.ones(3), 50)
    cooled = at_temperature(said, 2.5)
    np.testing.assert_allclose(cooled.sum(axis=1), 1)
    assert (cooled.argmax(1) == said.argmax(1)).all()
    assert np.isfinite(at_temperature(np.eye(3), 0.05)).all()
    assert fit_temperature(np.empty((0, 3)), np.empty(0, np.int64)) == 1.0
