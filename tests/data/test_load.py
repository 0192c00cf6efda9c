"""load_images, StreamingImages and prefetch: the same pixels by every road, bad files counted, threads that end."""

import hashlib
import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import broken_files, encode, picture
from PIL import Image

from wildspec.data import ArraySource, FolderSource, ImageSet, StreamingImages, load_images, prefetch
from wildspec.data.decode import fit
from wildspec.errors import DataError, InputError, InputTypeError


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """60 good images of all sizes and modes, and seven broken ones, in two classes."""
    root = tmp_path / "mixed"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
    for i in range(60):
        rgb = picture(i, 20 + i % 7, 18 + i % 5)
        modes = [rgb, rgb[..., 0], np.dstack([rgb, rgb[..., :1]]), rgb[..., 0].astype(np.uint16) * 257]
        (root / "ab"[i % 2] / f"{i}.png").write_bytes(encode(Image.fromarray(modes[i % 4])))
    for name, (data, _) in broken_files().items():
        (root / "a" / name).write_bytes(data)
    return root


def test_a_folder_of_everything(mixed: Path) -> None:
    source = FolderSource(mixed)
    loaded = load_images(source, 16, threads=3, max_unreadable=0.2)
    assert loaded.images.shape == (60, 3, 16, 16)
    assert loaded.labels.bincount().tolist() == [30, 30]
    assert {item.name for item in loaded.unreadable} == {f"a/{name}" for name in broken_files()}
    for item in loaded.unreadable:
        assert source.name(item.index) == item.name
        assert item.reason
    for row, index in enumerate(loaded.kept.tolist()):
        assert loaded.names[row] == source.name(index)
        assert np.array_equal(loaded.images[row].permute(1, 2, 0), fit(source.load(index), 16))
    again = load_images(source, 16, threads=1, max_unreadable=0.2)
    assert torch.equal(loaded.images, again.images)
    assert loaded.unreadable == again.unreadable


def test_too_many_unreadable_is_an_error_that_lists_some(mixed: Path) -> None:
    with pytest.raises(DataError, match=r"7 of 67 images .*allowed: 5%.*and 4 more"):
        load_images(FolderSource(mixed), 16)
    with pytest.raises(DataError, match="7 of 67") as none_allowed:
        load_images(FolderSource(mixed), 16, max_unreadable=0.0)
    assert "max_unreadable" not in str(none_allowed.value)  # `predict` allows none and has no such option
    with pytest.raises(DataError, match="could not be read"):
        StreamingImages(FolderSource(mixed), 16)
    for size in (8, None):
        with pytest.raises(DataError, match="1 of 1 images"):
            load_images(ArraySource(np.full((1, 4, 4), 7.0)), size, max_unreadable=1.0)


def test_without_size_all_must_have_one(mixed: Path) -> None:
    with pytest.raises(DataError, match=r"different sizes: .*\d+x\d+, .*\d+x\d+.*size="):
        load_images(FolderSource(mixed), max_unreadable=0.2)
    same = load_images(ArraySource(np.stack([picture(i) for i in range(5)])))
    assert same.image_size == (6, 8)
    assert np.array_equal(same.images[3].permute(1, 2, 0), picture(3))


def test_arguments_are_checked() -> None:
    source = ArraySource(np.zeros((2, 4, 4), np.uint8))
    for keywords, says in [
        ({"size": 0}, "size must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"max_unreadable": 2}, r"max_unreadable must lie in \[0, 1\]"),
    ]:
        with pytest.raises(InputError, match=says):
            load_images(source, **keywords)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match=r"got str.*open_source"):
        load_images("photos")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="holds no images"):
        load_images(ArraySource(np.zeros((0, 4, 4), np.uint8)))


@pytest.mark.parametrize("cached", [False, True])
def test_streaming_gives_what_loading_gives(mixed: Path, tmp_path: Path, cached: bool) -> None:
    source = FolderSource(mixed)
    loaded = load_images(source, 12, max_unreadable=0.2)
    cache = tmp_path / "cache" if cached else None
    streaming = StreamingImages(source, 12, workers=2, cache=cache, max_unreadable=0.2)
    assert isinstance(streaming, ImageSet)
    assert len(streaming) == 60
    assert streaming.names == loaded.names
    assert streaming.unreadable == loaded.unreadable
    assert streaming.image_size == (12, 12)
    assert torch.equal(streaming.labels, loaded.labels)
    for indices in ([5, 59, 0, 5], [], torch.arange(60)):
        assert torch.equal(streaming.gather(indices), loaded.gather(indices))
    part, expected = streaming.subset([40, 3, 7]), loaded.subset([40, 3, 7])
    assert torch.equal(part.gather([2, 0]), expected.gather([2, 0]))
    own = [hashlib.blake2b(pixels.numpy().tobytes(), digest_size=16).digest() for pixels in loaded.images]
    assert (streaming.digests, part.digests) == (own, [own[i] for i in (40, 3, 7)])
    assert part.labels.tolist() == expected.labels.tolist()
    with pytest.raises(InputError, match=r"\[0, 60\)"):
        streaming.gather([60])
    streaming.close()


def test_the_cache_serves_until_the_files_change(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    loads: list[int] = []
    original = FolderSource.reduced

    def counted(source: FolderSource, i: int, side: int) -> np.ndarray:
        loads.append(i)
        return original(source, i, side)

    monkeypatch.setattr(FolderSource, "reduced", counted)

    def open_it(size: int = 12) -> StreamingImages:
        loads.clear()
        return StreamingImages(FolderSource(mixed), size, cache=cache, max_unreadable=0.2)

    first = open_it()
    assert len(loads) == 67
    second = open_it()
    assert loads == []
    assert second.unreadable == first.unreadable
    assert torch.equal(second.gather([9, 8]), first.gather([9, 8]))
    open_it(8)
    assert len(loads) == 67
    (mixed / "a" / "0.png").write_bytes(encode(picture(99, 12, 12)))
    changed = open_it()
    assert len(loads) == 67
    assert np.array_equal(changed.gather([0])[0].permute(1, 2, 0), picture(99, 12, 12))
    expected = changed.gather([0, 30])
    del changed  # its map must not outlive the file's end
    max(cache.glob("*.u8"), key=lambda path: path.stat().st_mtime_ns).write_bytes(b"short")
    repaired = open_it()
    assert len(loads) == 67
    assert torch.equal(repaired.gather([0, 30]), expected)
    assert not list(cache.glob(".*"))  # nothing half-written left behind


def test_a_last_image_that_cannot_be_read_leaves_its_room_in_the_cache(tmp_path: Path) -> None:
    """Nothing is written at the end of the file then; it must be as long as its images all the same."""
    root = tmp_path / "images"
    root.mkdir()
    for i in range(3):
        (root / f"{i}.png").write_bytes(encode(picture(i, 12, 12)))
    (root / "9.png").write_bytes(b"no picture")
    for _ in range(2):  # written, then read
        found = StreamingImages(FolderSource(root), 12, cache=tmp_path / "cache", max_unreadable=0.5)
        assert [item.name for item in found.unreadable] == ["9.png"]
        assert np.array_equal(found.gather([2])[0].permute(1, 2, 0), picture(2, 12, 12))
        found.close()


def test_a_refused_set_leaves_no_cache(mixed: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could not be read"):
        StreamingImages(FolderSource(mixed), 12, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_full_disk_is_an_error_and_leaves_no_cache(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    source = ArraySource(np.zeros((100, 64, 64), np.uint8))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # the nearest thing to a full disk
    try:
        with pytest.raises(DataError, match=r"cannot write .*pixels-.*another path"):
            StreamingImages(source, 64, cache=tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("record", ['{"unread', "[]", "{}", '{"unreadable": [{"name": "x"}]}'])
def test_a_damaged_record_of_the_cache_is_made_again(tmp_path: Path, record: str) -> None:
    root = tmp_path / "images"
    root.mkdir()
    for i in range(3):
        (root / f"{i}.png").write_bytes(encode(picture(i, 12, 12)))
    StreamingImages(FolderSource(root), 12, cache=tmp_path / "cache").close()
    [kept] = (tmp_path / "cache").glob("*.json")
    whole = kept.read_text()
    kept.write_text(record)
    found = StreamingImages(FolderSource(root), 12, cache=tmp_path / "cache")
    assert np.array_equal(found.gather([2])[0].permute(1, 2, 0), picture(2, 12, 12))
    assert kept.read_text() == whole


def test_a_part_of_a_stream_is_of_images_it_has(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(encode(picture(0)))
    streaming = StreamingImages(FolderSource(tmp_path), 4)
    for wrong in ([1], [-1]):
        with pytest.raises(InputError, match=r"\[0, 1\)"):
            streaming.subset(wrong)


def test_an_image_lost_on_the_way_is_named(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(encode(picture(i)))
    streaming = StreamingImages(FolderSource(tmp_path), 4, verify=False)
    (tmp_path / "1.png").unlink()
    with pytest.raises(DataError, match=r"1.png: cannot be opened"):
        streaming.gather([0, 1])


def test_prefetch_keeps_order_whatever_the_threads() -> None:
    def slow(step: int) -> int:
        time.sleep(0.002 * (step % 3))
        return step * step

    for depth, workers in ((1, 1), (2, 1), (5, 4)):
        assert list(prefetch(slow, range(20), depth=depth, workers=workers)) == [s * s for s in range(20)]
    assert list(prefetch(slow, [])) == []


def test_prefetch_is_bounded() -> None:
    started: list[int] = []
    ahead = prefetch(started.append, range(100), depth=3, workers=2)
    for _ in range(4):
        next(ahead)
    ahead.close()
    assert len(started) <= 4 + 3


def test_prefetch_passes_errors_on_in_their_turn() -> None:
    def fails_at_three(step: int) -> int:
        if step == 3:
            raise DataError("broken image")
        return step

    ahead = prefetch(fails_at_three, range(9), depth=4, workers=3)
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="broken image"):
        next(ahead)
    with pytest.raises(StopIteration):
        next(ahead)


def test_prefetch_ends_its_threads() -> None:
    release = threading.Event()
    release.set()
    ahead = prefetch(lambda step: release.wait(5), range(50), depth=4, workers=2)
    next(ahead)
    assert any(thread.name.startswith("wildspec-prefetch") for thread in threading.enumerate())
    ahead.close()
    ahead.close()
    assert not any(thread.name.startswith("wildspec-prefetch") for thread in threading.enumerate())
    with pytest.raises(InputError, match="depth must be at least 1"):
        prefetch(release.wait, [1], depth=0)
