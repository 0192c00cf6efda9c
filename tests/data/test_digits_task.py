"""The embedded task: parts of the stated sizes, no image in two of them, noise of the stated strength, nothing leaks."""

import numpy as np
import pytest
import torch

from wildspec.data import ImageArrays, load_digits_images
from wildspec.data.digits_task import KNOWN_PARTS, UNKNOWN_PARTS, DigitsTask, digits_task
from wildspec.errors import InputError

PARTS = ("labelled", "calibration", "id_test", "covariate_test", "semantic_test")


@pytest.fixture(scope="module")
def task() -> DigitsTask:
    return digits_task(0)


def _sets(task: DigitsTask) -> dict[str, ImageArrays]:
    pool = task.wild.pool
    assert isinstance(pool, ImageArrays)
    return {name: getattr(task, name) for name in PARTS} | {"wild": pool}


def test_sizes_are_those_of_the_table(task: DigitsTask) -> None:
    assert {name: len(part) for name, part in _sets(task).items()} == {
        "labelled": 231, "calibration": 119, "id_test": 142, "covariate_test": 142, "semantic_test": 654, "wild": 509,
    }  # fmt: skip
    assert np.bincount(task.wild_component).tolist() == [199, 250, 60]
    assert sum(KNOWN_PARTS.values()) + sum(UNKNOWN_PARTS.values()) == 1797


@pytest.mark.parametrize("seed", [0, 1])
def test_every_image_is_in_exactly_one_part(seed: int) -> None:
    names = [name for part in _sets(digits_task(seed)).values() for name in part.names]
    assert sorted(names) == sorted(load_digits_images().names)


def test_classes_are_where_they_belong(task: DigitsTask) -> None:
    truth = dict(zip(load_digits_images().names, load_digits_images().labels.tolist(), strict=True))
    for name in ("labelled", "calibration", "id_test", "covariate_test"):
        part = _sets(task)[name]
        assert part.labels.tolist() == [truth[image] for image in part.names]
        assert part.classes == ("0", "1", "2", "3", "4", "5")
        assert set(part.labels.tolist()) == set(range(6))
    assert {truth[image] for image in task.semantic_test.names} == {6, 7, 8, 9}
    wild = _sets(task)["wild"]
    known = np.array([truth[image] < 6 for image in wild.names])
    assert (known == (task.wild_component < 2)).all()


def test_labels_of_wild_and_unknown_images_are_hidden(task: DigitsTask) -> None:
    assert (task.wild.pool.labels == -1).all()
    assert (task.semantic_test.labels == -1).all()
    assert len(np.unique(task.wild_component[:60])) == 3  # shuffled: the position says nothing


def test_only_covariate_images_are_noisy_and_as_strongly_as_stated(task: DigitsTask) -> None:
    clean = load_digits_images()
    row = {name: i for i, name in enumerate(clean.names)}
    wild = _sets(task)["wild"]
    for part, component in [(_sets(task)[name], None) for name in PARTS] + [(wild, task.wild_component)]:
        before = clean.images[torch.tensor([row[name] for name in part.names])].float() / 255
        after = part.images.float() / 255
        assert (after[:, 0] == after[:, 1]).all()  # grey stays grey
        assert (after[:, 0] == after[:, 2]).all()
        noisy = part is task.covariate_test if component is None else torch.from_numpy(component == 1)
        noisy = torch.full((len(part),), noisy) if isinstance(noisy, bool) else noisy
        assert (before[~noisy] == after[~noisy]).all()
        if noisy.any():
            middle = (before[noisy] > 0.4) & (before[noisy] < 0.6)  # far from both ends: clipping plays no part
            spread = (after[noisy] - before[noisy])[middle].std().item()
            assert spread == pytest.approx(0.18, rel=0.05)


def test_noise_of_wild_and_test_images_differs(task: DigitsTask) -> None:
    clean = load_digits_images()
    row = {name: i for i, name in enumerate(clean.names)}

    def noise(part: ImageArrays) -> torch.Tensor:
        return part.images.float() - clean.images[torch.tensor([row[name] for name in part.names])].float()

    wild = _sets(task)["wild"]
    first, second = noise(wild.subset(np.flatnonzero(task.wild_component == 1)))[:100], noise(task.covariate_test)[:100]
    together = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]
    assert abs(together.item()) < 0.05


def test_seed_decides_everything(task: DigitsTask) -> None:
    again, other = digits_task(0), digits_task(1)
    for name, part in _sets(task).items():
        assert torch.equal(part.images, _sets(again)[name].images), name
    assert task.hashes() == again.hashes()
    assert not set(task.hashes().values()) & set(other.hashes().values())


def test_bad_seed() -> None:
    with pytest.raises(InputError, match="seed must be at least 0"):
        digits_task(-1)
