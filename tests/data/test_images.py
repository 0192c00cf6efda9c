"""Image sets: what they accept, and that gathering, cutting and joining keep pixels, labels and names together."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from wildspec.data import ImageArrays, ImageSet, JoinedImages, Unreadable, concat, load_digits_images
from wildspec.errors import InputError, InputTypeError


def marked(n: int, start: int = 0, size: int = 2, **keywords: object) -> ImageArrays:
    """Image k is filled with start + k, so that a pixel tells which image it is."""
    values = torch.arange(start, start + n, dtype=torch.uint8)
    return ImageArrays(values.view(n, 1, 1, 1).expand(n, 3, size, size).clone(), **keywords)  # type: ignore[arg-type]


def shown(pixels: torch.Tensor) -> list[int]:
    assert (pixels == pixels[:, :1, :1, :1]).all()
    return pixels[:, 0, 0, 0].tolist()


def test_defaults_are_filled_in() -> None:
    images = marked(3)
    assert images.labels.tolist() == [-1, -1, -1]
    assert images.labels.dtype == torch.int64
    assert images.classes == ()
    assert images.names == ["0", "1", "2"]
    assert images.kept.tolist() == [0, 1, 2]
    assert images.image_size == (2, 2)
    assert marked(3, labels=torch.tensor([0, 2, -1])).classes == ("0", "1", "2")
    assert isinstance(images, ImageSet)
    assert isinstance(JoinedImages(images), ImageSet)


@pytest.mark.parametrize("indices", [[4, 0, 0, 2], np.array([4, 0, 0, 2]), torch.tensor([4, 0, 0, 2], dtype=torch.int32)])
def test_gather_takes_lists_arrays_and_tensors(indices: object) -> None:
    assert shown(marked(5).gather(indices)) == [4, 0, 0, 2]


def test_subset_keeps_everything_together() -> None:
    images = marked(5, labels=torch.tensor([0, 1, 2, 0, 1]), classes=("a", "b", "c"), names=list("vwxyz"))
    part = images.subset(np.array([3, 1]))
    assert shown(part.images) == [3, 1]
    assert part.labels.tolist() == [0, 1]
    assert part.names == ["y", "w"]
    assert part.kept.tolist() == [3, 1]
    assert part.classes == ("a", "b", "c")
    assert part.subset([1]).kept.tolist() == [1]
    assert len(images.subset([])) == 0
    assert images.unlabelled().labels.tolist() == [-1] * 5
    assert images.labels.tolist() == [0, 1, 2, 0, 1]


def test_concat_and_joined_agree() -> None:
    parts = (
        marked(3, 0, labels=torch.tensor([0, 1, 0]), classes=("a", "b"), unreadable=[Unreadable(9, "broken", "why")]),
        marked(4, 10),
        marked(2, 20, labels=torch.tensor([1, 1]), classes=("a", "b")),
    )
    whole, joined = concat(*parts), JoinedImages(*parts)
    assert len(whole) == len(joined) == 9
    assert shown(whole.images) == [0, 1, 2, 10, 11, 12, 13, 20, 21]
    assert whole.labels.tolist() == joined.labels.tolist() == [0, 1, 0, -1, -1, -1, -1, 1, 1]
    assert whole.classes == joined.classes == ("a", "b")
    assert [item.name for item in whole.unreadable] == ["broken"]
    for indices in ([8, 0, 3, 3, 2, 7], [4], [], list(range(9))):
        assert torch.equal(joined.gather(indices), whole.gather(indices))
    assert JoinedImages(*parts, labelled=False).labels.tolist() == [-1] * 9


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ImageArrays(torch.zeros(2, 3, 4, 4)), "uint8 of shape"),
        (lambda: ImageArrays(torch.zeros(2, 4, 4, 3, dtype=torch.uint8)), r"\(2, 4, 4, 3\)"),
        (lambda: marked(2, labels=torch.tensor([0, 5]), classes=("a", "b")), r"\[0, 1\] for 2 classes, got 5"),
        (lambda: marked(2, labels=torch.tensor([0, -2])), "got -2"),
        (lambda: marked(2, labels=torch.tensor([0])), "2 whole numbers"),
        (lambda: marked(2, labels=torch.tensor([0.0, 1.0])), "float32"),
        (lambda: marked(2, names=["a"]), "names must have one entry per image"),
        (lambda: marked(2).subset([2]), r"\[0, 2\)"),
        (lambda: marked(2).subset([-1]), "got -1"),
        (lambda: JoinedImages(marked(2)).gather([2]), r"\[0, 2\)"),
        (lambda: concat(marked(2), marked(2, size=3)), "2x2, 3x3"),
        (lambda: concat(), "at least one"),
        (
            lambda: concat(
                marked(1, labels=torch.tensor([0]), classes=("a",)), marked(1, labels=torch.tensor([0]), classes=("b",))
            ),
            "different classes",
        ),
    ],
)
def test_bad_input_is_named(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]


def test_wrong_types_are_named() -> None:
    with pytest.raises(InputTypeError, match="torch tensor"):
        ImageArrays(np.zeros((2, 3, 4, 4), dtype=np.uint8))  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="whole numbers"):
        marked(2).gather(torch.tensor([0.5]))
    with pytest.raises(InputTypeError, match="bool"):
        marked(2).gather(np.array([True, False]))


def test_digits_are_scikit_learns() -> None:
    digits, raw = load_digits_images(), load_digits()
    assert digits.images.shape == (1797, 3, 8, 8)
    assert digits.labels.tolist() == raw.target.tolist()
    assert digits.classes == tuple("0123456789")
    scaled = torch.from_numpy(raw.images)[:, None] * 255 / 16
    assert (digits.images - scaled).abs().max() <= 0.5
    assert int(digits.images.max()) == 255
