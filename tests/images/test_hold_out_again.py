"""A fit that starts from an earlier model's weights holds out images that model has not learned from."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import tiny_model
import wildspec
from quick_wild import quick
from wildspec.data import ArraySource, Split, fraction_split, load_images
from wildspec.images import reading
from wildspec.images.training_history import HELD_OUT, NEW, POOL, TAUGHT, TrainingHistory, without_taught
from wildspec.report.image_facts import gather
from wildspec.report.words import advice

# Of 120 tiny pictures in folders, seed 0, as every version before has split them.
SPLIT = {
    "train": "4943225a7a07c225447af7d995feebefdd11f33b060a6be84b46a063bf16cc73",
    "validation": "e703c95500787114e3e483a19bfa6048f8944f11ad385f53efaee503de43e798",
    "calibration": "e08f823817ce70838c8ad8be0edbe16eb1f0bbaefb951fd5e32dc0a9df5c2b59",
}


def add(labelled: Path, counts: dict[str, int], seed: int) -> None:
    images, shapes = tiny_model.pictures(counts, seed)
    for i, (image, shape) in enumerate(zip(images, shapes, strict=True)):
        (labelled / shape).mkdir(exist_ok=True)
        Image.fromarray(image).save(labelled / shape / f"new{seed}-{i:03d}.png")


def content(labelled: Path) -> dict[str, bytes]:
    """Every image by its name in the folder; the bytes of a file follow it to another name."""
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in labelled.rglob("*.png")}


class Fit:
    """A fit, what it said, and its images: bytes of those learned from and of those held out; held out by class."""

    def __init__(self, labelled: Path, wild: Path, out: Path | None = None, **changes: Any) -> None:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.model = quick(**{"epochs": 1, "method": "erm", **changes}).fit(labelled, wild)
        self.warnings = [str(w.message) for w in said if "held out now" in str(w.message)]
        everyone, train = content(labelled), set(self.model.fitted_.bank.names)
        self.taught = {everyone[name] for name in train}
        self.held_out = {everyone[name] for name in set(everyone) - train}
        apart = [name.split("/")[0] for name in set(everyone) - train]
        self.of_class = {shape: apart.count(shape) for shape in apart}
        if out is not None:
            self.model.save(out)
            self.weights = out / "weights.safetensors"


@pytest.fixture
def first(tmp_path: Path) -> tuple[Path, Path, Fit]:
    labelled, wild = tiny_model.write_folders(tmp_path)
    return labelled, wild, Fit(labelled, wild, tmp_path / "first", random_state=0)


def test_without_initial_weights_the_split_is_what_it_always_was(first: tuple[Path, Path, Fit]) -> None:
    record = first[2].model.record_["data"]["labelled"]
    assert {name: part["sha256"] for name, part in record["split"]["parts"].items()} == SPLIT
    assert "held_out_taught" not in record


def test_a_second_fit_holds_out_images_the_first_has_not_learned_from(
    first: tuple[Path, Path, Fit], tmp_path: Path
) -> None:
    labelled, wild, one = first
    add(labelled, {"bar": 10, "disc": 10, "stripes": 20}, seed=5)  # two classes grow, one is new
    two = Fit(labelled, wild, tmp_path / "second", init=one.weights, random_state=1)
    assert not two.held_out & one.taught
    assert two.warnings == []
    assert two.model.record_["data"]["labelled"]["held_out_taught"] == 0
    plain = Fit(labelled, wild, random_state=1)
    assert plain.held_out & one.taught, "what a split that knows nothing of the first fit does"
    assert two.of_class == plain.of_class, "of every class as many"
    three = Fit(labelled, wild, init=two.weights, random_state=2)
    assert not three.held_out & (one.taught | two.taught), "weights remember all they come from"
    assert three.of_class == plain.of_class


def test_images_are_known_again_under_other_names_and_at_another_size(
    first: tuple[Path, Path, Fit], tmp_path: Path
) -> None:
    labelled, wild, one = first
    for path in sorted(labelled.rglob("*.png")):
        path.rename(path.with_name(f"camera-{path.name}"))
    add(labelled, {"bar": 5}, seed=6)
    two = Fit(labelled, wild, tmp_path / "second", init=one.weights, random_state=1, size=12)
    assert not two.held_out & one.taught
    assert not Fit(labelled, wild, init=two.weights, random_state=2).held_out & (one.taught | two.taught)


def test_what_a_network_learned_from_survives_a_round_trip(first: tuple[Path, Path, Fit], tmp_path: Path) -> None:
    wildspec.load(tmp_path / "first", device="cpu").save(tmp_path / "copy")
    kept = load_file(tmp_path / "copy" / "evidence.safetensors")
    assert {name: tuple(value.shape) for name, value in kept.items() if name.startswith("images.")} == {
        "images.10.taught": (96, 16), "images.10.held_out": (24, 16), "images.10.pool": (84, 16),
    }  # fmt: skip
    labelled, wild, one = first
    add(labelled, {"ring": 7}, seed=8)
    assert not Fit(labelled, wild, init=tmp_path / "copy" / "weights.safetensors", random_state=3).held_out & one.taught


def test_a_class_with_too_few_others_is_named(first: tuple[Path, Path, Fit]) -> None:
    labelled, wild, one = first
    for name, data in content(labelled).items():  # of the rings only those remain that the first fit learned from
        if name.startswith("ring/") and data not in one.taught:
            (labelled / name).unlink()
    add(labelled, {"ring": 2}, seed=9)
    two = Fit(labelled, wild, init=one.weights, random_state=1)
    seen = len(two.held_out & one.taught)
    rings = {data for name, data in content(labelled).items() if name.startswith("ring/")}
    assert two.held_out & one.taught <= rings
    assert seen == two.of_class["ring"] - 2, "both new ones are held out"
    assert len(two.warnings) == 1
    assert two.warnings[0].startswith(f"{seen} of the {len(two.held_out)} images held out now taught the network in ")
    assert f", with a label or in its pool, for want of others of ring ({seen}): what" in two.warnings[0]
    assert two.model.record_["data"]["labelled"]["held_out_taught"] == seen
    told = " ".join(advice(gather(two.model, "m")))
    assert f"{seen} of the images held out taught the network that this fit started from (--init): what is" in told
    assert "that nothing was learned from" not in told
    fresh = load_images(ArraySource(*tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 5), 99)), 10)
    told = " ".join(advice(gather(two.model, "m", test=fresh)))
    assert "Of 15 labelled images that nothing was learned from" in told
    assert "--init)" not in told


@pytest.mark.parametrize("how", ["older", "other pixels", "damaged"])
def test_a_bundle_that_does_not_say_what_it_learned_from_is_warned_of_by_names(
    first: tuple[Path, Path, Fit], tmp_path: Path, how: str
) -> None:
    """Bundles of earlier versions, and images that a decoder of another version reads otherwise."""
    labelled, wild, one = first
    evidence = one.weights.with_name("evidence.safetensors")
    kept = load_file(evidence)
    if how == "older":
        save_file({name: value for name, value in kept.items() if not name.startswith("images.")}, evidence)
    elif how == "other pixels":
        save_file({name: value ^ 1 if name.startswith("images.") else value for name, value in kept.items()}, evidence)
    else:
        save_file({**kept, "images.10.taught": torch.zeros(3, 5)}, evidence)
    add(labelled, {"bar": 3}, seed=4)
    two, plain = Fit(labelled, wild, init=one.weights, random_state=1), Fit(labelled, wild, random_state=1)
    assert two.held_out == plain.held_out
    seen = len(two.held_out & one.taught)
    assert seen > 0
    told = f"{seen} of the {len(two.held_out)} images held out now"
    assert [line.partition(" taught")[0] for line in two.warnings] == [told]
    assert two.model.record_["data"]["labelled"]["held_out_taught"] == seen


@pytest.mark.parametrize("seed", range(8))
def test_exchange_is_the_least_that_is_needed(seed: int) -> None:
    """Against counting: a class holds out as many learned images as it lacks others, validation before calibration."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, 300)
    odds = rng.dirichlet([1, 1, 1, 1], 5)
    status = np.array([rng.choice([NEW, HELD_OUT, POOL, TAUGHT], p=odds[label]) for label in labels])
    before = fraction_split(300, {"train": 0.7, "validation": 0.1, "calibration": 0.2}, seed, labels=labels)
    after = without_taught(before, labels, status)
    assert list(after.members) == list(before.members)
    was, now = (set(one["validation"].tolist()) | set(one["calibration"].tolist()) for one in (before, after))
    for c in range(5):
        own = {i for i in range(300) if labels[i] == c}
        parts = {name: own & set(after[name].tolist()) for name in after.members}
        for name, part in parts.items():
            assert len(part) == len(own & set(before[name].tolist()))
        learned = {i for i in own if status[i] in (POOL, TAUGHT)}
        lacking = max(0, len(own & was) - len(own - learned))
        assert len(own & now & learned) == lacking
        assert len(parts["validation"] & learned) == min(lacking, len(parts["validation"]))
        assert own & was - learned <= now, "who was held out rightly stays so"
        waiting = {i for i in own - now if status[i] == HELD_OUT}
        assert not waiting or not any(status[i] == NEW for i in own & now - was)
    again = without_taught(before, labels, status)
    assert all(np.array_equal(after[name], again[name]) for name in before.members)
    assert all(np.array_equal(part, np.sort(part)) for part in after.members.values())


def test_what_stays_for_want_of_others_was_in_the_pool_rather_than_taught() -> None:
    status = np.full(20, TAUGHT)
    status[[0, 1, 2]] = POOL
    status[[10, 11, 12, 13]] = HELD_OUT  # four for six places
    parts = {"train": np.arange(3, 17), "validation": np.array([0, 1, 17]), "calibration": np.array([2, 18, 19])}
    after = without_taught(Split(parts, 20, 0), np.zeros(20, np.int64), status)
    assert status[after["calibration"]].tolist() == [HELD_OUT] * 3
    assert sorted(status[after["validation"]].tolist()) == [HELD_OUT, POOL, POOL]


def test_an_image_of_the_pool_that_has_a_label_now_is_no_stranger(first: tuple[Path, Path, Fit]) -> None:
    """The way of review: images move from the pool to their class."""
    labelled, wild, one = first
    pool = {path.read_bytes() for path in wild.iterdir()}
    for path in sorted(wild.iterdir())[:20]:  # shifted bars
        shutil.copy(path, labelled / "bar" / path.name)
    add(labelled, {"bar": 8}, seed=11)
    two = Fit(labelled, wild, init=one.weights, random_state=1)
    assert not two.held_out & (one.taught | pool)
    assert two.warnings == []
    assert Fit(labelled, wild, random_state=1).held_out & pool, "what a split that knows nothing of the first fit does"


def test_images_taught_once_stay_taught() -> None:
    a, b, c, d = (bytes([i]) * 16 for i in range(4))
    one = TrainingHistory().after(8, [a, b, c], np.array([0, 1]), [d])  # c is held out
    two = one.after(8, [a, c, d], np.array([1]), [b]).after(9, [d], np.array([0]))

    def ask(known: TrainingHistory, at_8: list[bytes], at_9: list[bytes]) -> list[int]:
        return known.status(lambda size: {8: at_8, 9: at_9}[size], len(at_8)).tolist()

    assert ask(one, [a, b, c, d, bytes(16)[:15]], []) == [TAUGHT, TAUGHT, HELD_OUT, POOL, NEW]
    assert ask(two, [a, b, c, d], [bytes(15)] * 4) == [TAUGHT, TAUGHT, TAUGHT, POOL]
    assert ask(two, [d, bytes(15)], [d, d]) == [TAUGHT, TAUGHT]
    assert TrainingHistory.from_tensors(two.to_tensors()) == two


def test_weights_alone_know_nothing(first: tuple[Path, Path, Fit], tmp_path: Path) -> None:
    labelled, wild, one = first
    alone = shutil.copy(one.weights, tmp_path / "alone.safetensors")
    two = Fit(labelled, wild, init=alone, random_state=1)
    assert two.warnings == []
    assert "held_out_taught" not in two.model.record_["data"]["labelled"]


@pytest.mark.parametrize("which", ["the first set", "the second set"])
def test_sets_that_stay_on_disk_are_known_again_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    on_disk = {"the first set": (0, 1 << 30), "the second set": (1 << 30, 0)}[which]
    monkeypatch.setattr(reading, "IN_MEMORY_BYTES", on_disk[0])
    one = Fit(labelled, wild, tmp_path / "first", random_state=0)
    monkeypatch.setattr(reading, "IN_MEMORY_BYTES", on_disk[1])
    two = Fit(labelled, wild, init=one.weights, random_state=1)
    assert two.warnings == []
    assert not two.held_out & one.taught
