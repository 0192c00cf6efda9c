"""Data sets in Hugging Face's form, read from folders by the ``datasets`` package itself: configurations, splits."""

import io
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

import tiny_model
from quick_wild import quick
from wildspec.data.dataset import DatasetSource
from wildspec.data.hub import open_hub, parse_name
from wildspec.errors import DataError

FEATURES = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(tiny_model.CLASSES))})


@pytest.fixture(autouse=True)
def _no_network_and_no_traces(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("hf"))


def rows(images: np.ndarray, labels: list[int]) -> Any:
    content = []
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        kept = io.BytesIO()
        Image.fromarray(image).save(kept, "PNG")
        content.append({"image": {"bytes": kept.getvalue(), "path": f"{i}.png"}, "label": label})
    return datasets.Dataset.from_list(content, features=FEATURES)


def some(count: int) -> Any:
    """So many pictures: the count says which set was opened."""
    images, shapes = tiny_model.pictures({"bar": count - count // 2, "disc": count // 2}, count)
    return rows(images, [tiny_model.CLASSES.index(shape) for shape in shapes])


def write(root: Path, sets: dict[str, dict[str, int]], default: str | None = None) -> Path:
    """A data set as it lies on the hub: parquet files, and a card that says which configuration and split each is of."""
    lines = ["---", "configs:"]
    for config, splits in sets.items():
        lines += [f"- config_name: {config}", *(["  default: true"] if config == default else []), "  data_files:"]
        for split, count in splits.items():
            path = root / config / f"{split}-0.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            some(count).to_parquet(str(path))
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*.parquet"]
    (root / "README.md").write_text("\n".join([*lines, "---", ""]), encoding="utf-8")
    return root


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return write(tmp_path / "two", {"clean": {"train": 6, "test": 4}, "noisy": {"train": 7, "test": 5}})


def count(name: str) -> int:
    return len(open_hub(name, labelled=True))


def refusal(name: str) -> str:
    with pytest.raises(DataError) as caught:
        open_hub(name, labelled=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf:me/set", ("me/set", ())),
        ("hf:me/set:test", ("me/set", ("test",))),
        ("hf:me/set:clean:test", ("me/set", ("clean", "test"))),
        ("hf:me/set:clean:train[:50%]+test[10:]", ("me/set", ("clean", "train[:50%]+test[10:]"))),
        ("hf:me/set:train[:50%]", ("me/set", ("train[:50%]",))),
        ("hf:me/set:", ("me/set", ())),
    ],
)
def test_names_are_taken_apart(name: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert parse_name(name) == expected


@pytest.mark.parametrize("name", ["hf:", "hf::train", "hf:me/set:a:b:c"])
def test_names_that_say_nothing_are_refused(name: str) -> None:
    assert refusal(name).endswith("write hf:NAME, hf:NAME:SPLIT, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")


def test_configuration_and_split_are_chosen(two: Path) -> None:
    assert count(f"hf:{two}:clean:train") == 6
    assert count(f"hf:{two}:noisy:test") == 5
    assert count(f"hf:{two}:noisy:train[:3]+test[:1]") == 4
    assert count(f"hf:{two}:clean") == 6, "of several splits: train"
    source = open_hub(f"hf:{two}:noisy:test", labelled=True)
    assert source.classes == tiny_model.CLASSES
    assert source.load(0).shape == (tiny_model.SIDE, tiny_model.SIDE, 3)


def listed(name: str, *words: str) -> bool:
    """Refused with a line that names what there is."""
    said = refusal(name)
    return all(word in said for word in words)


def test_several_configurations_are_listed_when_none_was_chosen(two: Path) -> None:
    assert listed(f"hf:{two}", "clean", "noisy")
    assert listed(f"hf:{two}:train", "clean", "noisy")


def test_what_is_not_there_is_said_with_what_is(two: Path) -> None:
    assert listed(f"hf:{two}:fog:train", "fog", "clean", "noisy")
    assert listed(f"hf:{two}:clean:dev", "dev", "train", "test")
    assert listed(f"hf:{two}:clean:train[:2]+dev", "dev", "train", "test")


def test_one_configuration_needs_no_name(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"plain": {"train": 6, "test": 4}})
    assert [count(f"hf:{one}{more}") for more in ("", ":train", ":test", ":plain", ":plain:test")] == [6, 6, 4, 6, 4]
    assert listed(f"hf:{one}:dev", "dev", "train", "test")


def test_a_default_configuration_needs_no_name(tmp_path: Path) -> None:
    sets = {"clean": {"train": 6, "test": 4}, "noisy": {"train": 7, "test": 5}, "test": {"train": 8}}
    some_default = write(tmp_path / "some", sets, default="noisy")
    assert [count(f"hf:{some_default}{more}") for more in ("", ":train", ":clean", ":test:train")] == [7, 7, 6, 8]
    assert count(f"hf:{some_default}:test") == 8, "a configuration, not the split of another one"
    assert listed(f"hf:{some_default}:fog", "fog", "train", "test")


def test_without_a_split_named_train_the_only_one_is_taken_and_several_are_listed(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd", {"one": {"all_of_it": 6}, "more": {"night": 4, "day": 5}})
    assert count(f"hf:{odd}:one") == 6
    assert listed(f"hf:{odd}:more", "night, day", f"hf:{odd}:more:night")


def test_folders_that_save_to_disk_wrote(tmp_path: Path) -> None:
    some(6).save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"night": some(4), "day": some(5)}).save_to_disk(str(tmp_path / "two"))
    one, two = (f"hf:{tmp_path / name}" for name in ("one", "two"))
    assert [count(name) for name in (one, f"{two}:day")] == [6, 5]
    assert listed(f"{one}:day", "day")
    assert listed(two, "night, day", f"{two}:night")
    assert listed(f"{two}:dusk", "dusk", "night, day")
    assert listed(f"{two}:clean:day", "clean", "night, day")


def test_a_data_set_that_cannot_be_reached_is_one_line() -> None:
    said = refusal("hf:me/none")
    assert said.startswith("cannot load data set 'me/none' from the hub: ")
    assert refusal("hf:me/none:clean:train").startswith("cannot load data set 'me/none' from the hub: ")


def test_fit_takes_them_and_gives_the_model_of_the_same_images(tmp_path: Path) -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()
    for folder, pixels, labels in (
        ("known", images, [tiny_model.CLASSES.index(shape) for shape in shapes]),
        ("field", wild, [-1] * len(wild)),
    ):
        path = tmp_path / "set" / folder / "train-0.parquet"
        path.parent.mkdir(parents=True)
        rows(pixels, labels).to_parquet(str(path))
    card = [f"- config_name: {name}\n  data_files: {name}/train-*.parquet" for name in ("known", "field")]
    (tmp_path / "set" / "README.md").write_text("\n".join(["---", "configs:", *card, "---"]), encoding="utf-8")
    model = quick().fit(f"hf:{tmp_path / 'set'}:known", f"hf:{tmp_path / 'set'}:field:train")
    assert model.classes_.tolist() == list(tiny_model.CLASSES)
    assert model.record_["data"]["wild"]["count"] == len(wild)
    same = quick().fit((images, shapes), wild)
    assert np.array_equal(model.ood_score(wild), same.ood_score(wild))


def test_a_name_that_is_no_path_is_told_how_the_hub_is_written() -> None:
    with pytest.raises(DataError, match=r"me/shapes does not exist.*hf:me/shapes$"):
        quick().fit("me/shapes", "me/wild")
    with pytest.raises(DataError, match=r"/no/such/folder does not exist.*folder of images"):
        quick().fit("/no/such/folder", "me/wild")


def test_images_are_decoded_here_not_by_the_package() -> None:
    """It takes every format that Pillow has, PostScript by starting a program."""
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "EPS")
    row = {"image": {"bytes": stream.getvalue(), "path": None}, "label": 0}
    found = datasets.Dataset.from_list([row], features=FEATURES)
    with pytest.raises(DataError, match="not an image"):
        DatasetSource(found).load(0)
