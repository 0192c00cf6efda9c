"""What methods may see beyond a batch: which wild images it holds, and views of a whole set in order."""

import pytest
import torch
from tests.training.common import data

from wildspec.data import WildPool
from wildspec.data.augment import Augmentation
from wildspec.errors import InputError
from wildspec.methods import Stage
from wildspec.training.feed import DeviceData, Feed

NONE = Augmentation.none()


def test_wild_rows_name_the_images_of_the_batch() -> None:
    source = DeviceData(data(), torch.device("cpu"))
    feed = Feed(source, Stage("s", epochs=1, lr=0.1, batch_labelled=32, batch_wild=24, wild_views=2), seed=3)
    for step in (0, 1, 7):
        batch = feed.batch(step)
        assert batch.wild is not None
        assert batch.wild_rows is not None
        pool = source.data.wild
        assert isinstance(pool, WildPool)
        assert torch.equal(batch.wild, pool.pool.gather(batch.wild_rows))


def test_views_without_augmentation_are_the_images_in_order() -> None:
    task = data(labelled=90, wild=70)
    source = DeviceData(task, torch.device("cpu"))
    for part, images in (("labelled", task.labelled), ("wild", task.wild.pool if task.wild else None)):
        assert images is not None
        blocks = list(source.views(NONE, part, 2, batch_size=32))
        assert [block.shape[1] for block in blocks][:-1] == [32] * (len(blocks) - 1)
        seen = torch.cat(blocks, dim=1)
        expected = source.preprocess(images.gather(torch.arange(len(images))))
        torch.testing.assert_close(seen[0], expected)
        torch.testing.assert_close(seen[1], expected)
        shift = Augmentation(scale=(0.5, 0.6))
        none = torch.cat(list(source.views(shift, part, 0, batch_size=32)), dim=1)  # a count of 0: un-augmented
        torch.testing.assert_close(none, expected[None])


def test_views_differ_from_each_other_and_repeat_themselves() -> None:
    source = DeviceData(data(), torch.device("cpu"))
    shift = Augmentation(scale=(0.5, 1.0), flip=0.0, jitter_p=0.0, grey=0.0, blur=0.0)
    first, again = (torch.cat(list(source.views(shift, "wild", 3)), dim=1) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])


def test_no_wild_pool_is_an_error() -> None:
    task = data()
    task.wild = None
    source = DeviceData(task, torch.device("cpu"))
    with pytest.raises(InputError, match="no wild pool"):
        next(source.views(NONE, "wild", 1))
    with pytest.raises(InputError, match="part must be one of"):
        next(source.views(NONE, "tame", 1))
