"""Features computed once: what is kept, what is found again, what is never mixed."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tiny_model
from tiny_backbone import Grid
from wildspec.data import ImageArrays
from wildspec.images.encoding import ImageEncoder
from wildspec.images.feature_cache import FeatureCache, halved, whole
from wildspec.models.encoder import Encoder

HALF: dict[str, Any] = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


@pytest.fixture
def images() -> ImageArrays:
    pixels, _ = tiny_model.pictures({"bar": 70, "ring": 70}, 5)
    return ImageArrays(torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy()))


def _encode(encoder: ImageEncoder, images: ImageArrays) -> torch.Tensor:
    blocks = list(encoder.encode(images))
    np.testing.assert_array_equal(np.concatenate([block.rows for block in blocks]), np.arange(len(images)))
    return torch.cat([block.features for block in blocks])


def _passes(encoder: ImageEncoder) -> int:
    return encoder.encoder.network.passes  # type: ignore[union-attr, return-value]


def test_features_are_those_of_the_network(images: ImageArrays, tmp_path: Path) -> None:
    encoder = Encoder(Grid(), 10, **HALF)
    found = _encode(ImageEncoder(encoder, keep=tmp_path), images)
    expected = encoder(images.images)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-3, "half precision"


def test_a_second_time_costs_only_what_is_new(images: ImageArrays, tmp_path: Path) -> None:
    first = ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path)
    some = images.subset(np.arange(100))
    start = _passes(first)
    features = _encode(first, some)
    assert _passes(first) - start == 100
    second = ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path)
    start = _passes(second)
    told: list[int] = []
    again = list(second.encode(images.subset(np.arange(139, -1, -1)), told.append))
    assert _passes(second) - start == 40
    assert sum(told) == 140, "what comes from the cache is done, too"
    torch.testing.assert_close(torch.cat([block.features for block in again]).flip(0)[:100], features, atol=0, rtol=0)


@pytest.mark.parametrize("change", ["weights", "size", "scaling"])
def test_features_of_another_kind_are_never_mixed_in(images: ImageArrays, tmp_path: Path, change: str) -> None:
    _encode(ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path), images)
    size = 12 if change == "size" else 10
    scaling = {"mean": (0.4, 0.5, 0.5), "std": (0.5, 0.5, 0.5)} if change == "scaling" else HALF
    other = Encoder(Grid(1 if change == "weights" else 0), size, **scaling)  # type: ignore[arg-type]
    encoder = ImageEncoder(other, keep=tmp_path)
    given = images
    if change == "size":
        given = ImageArrays(torch.nn.functional.pad(images.images, (1, 1, 1, 1)))
    start = _passes(encoder)
    found = _encode(encoder, given)
    assert _passes(encoder) - start == 140
    torch.testing.assert_close(found, _encode(ImageEncoder(other), given), atol=0, rtol=0)


def test_a_killed_run_loses_its_last_block_only(images: ImageArrays, tmp_path: Path) -> None:
    first = ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path)
    blocks = first.encode(images)
    next(blocks)
    del blocks  # as a kill leaves it: 128 images are there
    (folder, *_) = [path for path in tmp_path.iterdir() if path.is_dir()]
    (folder / ".torn.1234.safetensors").write_bytes(b"half a file")
    second = ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path)
    start = _passes(second)
    _encode(second, images)
    assert _passes(second) - start == 12


def test_damaged_shards_are_made_again(images: ImageArrays, tmp_path: Path) -> None:
    clean = _encode(ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path), images)
    shards = sorted(tmp_path.glob("*/*.safetensors"))
    assert len(shards) == 2
    shards[0].write_bytes(shards[0].read_bytes()[:100])
    again = _encode(ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path), images)
    torch.testing.assert_close(again, clean, atol=0, rtol=0)
    assert len(list(tmp_path.glob("*/*.safetensors"))) == 2


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    rows = halved(torch.ones(10, 64))
    for number in range(3):
        digests = [bytes([number, i] * 8) for i in range(10)]
        FeatureCache({"a": number}, tmp_path).add(digests, *rows)
    shards = sorted(tmp_path.glob("*/*.safetensors"), key=lambda p: p.stat().st_mtime_ns)
    for age, path in enumerate(shards):
        os.utime(path, (1000 + age, 1000 + age))
    size = shards[0].stat().st_size
    FeatureCache({"a": 9}, tmp_path, most_bytes=2 * size).prune()
    assert sorted(tmp_path.glob("*/*.safetensors")) == sorted(shards[1:])


def test_half_precision_holds_features_of_any_length(rng: np.random.Generator) -> None:
    rows = torch.from_numpy(rng.normal(size=(6, 20))).float() * torch.tensor([1e-20, 1e-3, 0.0, 1.0, 1e6, 1e20]).view(6, 1)
    again = whole(*halved(rows))
    assert float(((again - rows).norm(dim=1) / rows.norm(dim=1).clamp_min(1e-30)).max()) < 1e-3


def test_a_disk_that_cannot_be_written_keeps_nothing_and_stops_nobody(images: ImageArrays, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    clean = _encode(ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path / "file"), images)
    assert clean.shape == (140, 48)


def test_speed_counts_the_images_after_a_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands at 10, 10.4, 10.9 and 11.5 seconds when it is asked: three rounds in 1.5 s, one not counted."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    clock = SimpleNamespace(perf_counter=iter((10.0, 10.4, 10.9, 11.5)).__next__)
    monkeypatch.setattr("wildspec.images.encoding.time", clock)
    encoder = ImageEncoder(Encoder(Grid(), 96, **HALF))
    start = _passes(encoder)
    found = encoder.images_per_second()
    assert found == pytest.approx((_passes(encoder) - start) * 3 / 4 / 1.5, abs=0.05)


def test_features_that_another_user_keeps_are_used_and_left_alone(
    images: ImageArrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that is shared, or mounted to be read only: the files may be read, and not be marked as used."""
    clean = _encode(ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path), images)
    kept = sorted(tmp_path.glob("*/*.safetensors"))

    def refused(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "touch", refused)
    second = ImageEncoder(Encoder(Grid(), 10, **HALF), keep=tmp_path)
    start = _passes(second)
    torch.testing.assert_close(_encode(second, images), clean, atol=0, rtol=0)
    assert _passes(second) == start
    assert sorted(tmp_path.glob("*/*.safetensors")) == kept
