"""Photographs in a review: found again by name, also where two have one name; moved ones; a round on a frozen bundle."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import frozen_bundle
import wildspec
from wildspec.data.source import ImageSource
from wildspec.errors import DataError, InputError
from wildspec.serving.review_open import open_room
from wildspec.serving.review_samples import LARGE, SMALL, large, places_of, small

TAB = "0123456789abcdef"


class Listed(ImageSource):
    """Images that have names only."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    @property
    def labels(self) -> np.ndarray:
        return np.full(len(self.names), -1)

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    def name(self, i: int) -> str:
        return self.names[i]

    def load(self, i: int) -> np.ndarray:
        raise DataError("no pixels")


@pytest.mark.parametrize(
    ("pool", "listed", "places"),
    [
        (["a", "c"], ["a", "b", "c"], [0, 2]),
        (["a", "gone"], ["a", "b"], [0, -1]),
        (["a#0", "b#1", "a#2"], ["a", "x", "b", "a"], [0, 2, 3]),
        (["t#0", "t#1"], ["t#0", "t#1", "t#2"], [0, 1]),  # rows of a table have such names of their own
    ],
)
def test_names_are_found_in_the_source(pool: list[str], listed: list[str], places: list[int]) -> None:
    assert places_of(pool, Listed(listed)) == places


def test_pictures_are_whole_when_large_and_square_when_small() -> None:
    import io

    from PIL import Image

    pixels = np.zeros((400, 3000, 3), np.uint8)
    assert Image.open(io.BytesIO(large(pixels))).size == (LARGE, LARGE * 400 // 3000)
    assert Image.open(io.BytesIO(small(pixels))).size == (SMALL, SMALL)
    assert Image.open(io.BytesIO(large(pixels[:20, :30]))).format == "PNG", "tiny ones without JPEG's blocks"


def test_a_round_on_photographs(tmp_path: Path) -> None:
    bundle = frozen_bundle.bundle()
    room, told = open_room(wildspec.load(bundle), bundle, tmp_path / "OUT", log=tmp_path / "a.csv")
    assert told == ""
    assert room.state()["pictures"]
    given = {}
    for i in range(6):
        card = room.card(TAB)
        assert card is not None
        assert room.samples.load(card["id"]).shape[2] == 3
        given[card["title"]] = frozen_bundle.truth(card["title"])
        room.answer(TAB, f"act{i:06d}", given[card["title"]], [card["id"]])
    assert room.log.path.read_text(encoding="utf-8").startswith("image,class,")
    assert room.finish()["written"]
    oracle = wildspec.load(bundle)
    oracle.answer(given)
    images = sorted((frozen_bundle.folder() / "wild").iterdir())[:20]
    np.testing.assert_allclose(
        wildspec.load(tmp_path / "OUT").ood_score(images), oracle.ood_score(images), rtol=1e-5
    )


def test_photographs_that_were_moved(tmp_path: Path) -> None:
    """The bundle says where they were; where they are not, its own small pictures are shown, or those of --wild."""
    bundle = tmp_path / "MODEL"
    model = wildspec.load(frozen_bundle.bundle())
    model.record_["data"]["source"]["wild"] = str(tmp_path / "gone")
    model.save(bundle)
    loaded = wildspec.load(bundle)
    room, told = open_room(loaded, bundle, tmp_path / "OUT")
    assert "gone" in told
    assert "--wild" in told
    assert room.samples.pictures
    gallery = loaded.fitted_.pictures["wild"]
    kept = int(gallery.rows[0])
    reference = room.base.learned.rule.reference.tolist()
    assert room.samples.load(reference.index(kept)).shape[2] == 3
    loaded.record_["data"]["source"]["wild"] = "hf:someone/photos"
    assert "hf:someone/photos" in open_room(loaded, bundle, tmp_path / "OUT")[1], "a bundle is no reason to ask the network"
    shutil.copytree(frozen_bundle.folder() / "wild", tmp_path / "moved")
    room, told = open_room(loaded, bundle, tmp_path / "OUT", wild=str(tmp_path / "moved"))
    assert told == ""
    assert room.samples.load(0).shape[2] == 3
    (tmp_path / "moved" / room.samples.title(0)).unlink()
    room, _ = open_room(loaded, bundle, tmp_path / "OUT", wild=str(tmp_path / "moved"))
    with pytest.raises(DataError, match="any more"):
        room.samples.load(0)
    with pytest.raises(InputError, match="none of the images"):
        open_room(loaded, bundle, tmp_path / "OUT", wild=str(frozen_bundle.folder() / "labelled"))
    with pytest.raises(InputError, match="--images"):
        open_room(loaded, bundle, tmp_path / "OUT", images=tmp_path)


def test_the_nearest_labelled_photographs_are_those_of_the_bank(tmp_path: Path) -> None:
    """By hand: cosines of the sample's features with the aligned labelled rows, in the order the model was given them."""
    bundle = frozen_bundle.bundle()
    room, _ = open_room(wildspec.load(bundle), bundle, tmp_path / "OUT", log=tmp_path / "a.csv")
    card = room.card(TAB)
    assert card is not None
    rule = room.base.learned.rule
    aligned = rule.shift.align(rule.labelled, np.zeros(len(rule.labelled)))
    similar = aligned @ room.lesson.pool.features[card["id"]]
    rows = [one["row"] for one in card["near"]]
    assert len(rows) == 6
    np.testing.assert_allclose(similar[rows], np.sort(similar)[::-1][:6], rtol=1e-5)
    assert [one["label"] for one in card["near"]] == [room.lesson.classes[rule.labels[row]] for row in rows]
    assert all(room.samples.labelled(row) is not None for row in rows)
    # answered samples that have become a class are in the bank too, and have no labelled picture
    unknown = [i for i in range(len(room)) if frozen_bundle.truth(room.samples.title(i)) == "unknown"][:12]
    room.answer(TAB, "act000000", "newt", unknown)
    room.finish()
    assert "newt" in room.lesson.classes
    near = room.lesson.nearest(unknown[0])
    assert {row for name, row in near if name == "newt"} <= {-1}
    assert all(room.lesson.classes[rule.labels[row]] == name for name, row in near if row >= 0)
