"""The catalog: complete entries, both layouts found, and a missing set explained rather than stumbled over."""

import json
from pathlib import Path

import numpy as np
import pytest
from image_files import encode, picture, write_parquet

from wildspec.data import DomainFolderSource, data_sets, locate
from wildspec.errors import DataError, InputError
from wildspec.files import sha256_file

PAPER = {"cifar10", "svhn", "lsun_c", "lsun_r", "places365", "textures", "imagenet100", "inaturalist", "office-home"}
STAND_INS = {"textures10", "miniplaces", "scenes9_crop", "scenes9_resize"}


def put(path: Path, number: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(picture(number)))


def test_every_set_of_the_paper_has_a_whole_entry() -> None:
    assert set(data_sets()) == PAPER | STAND_INS
    for name, entry in data_sets().items():
        assert entry.name == name
        assert "http" in entry.source
        assert entry.splits
        for split in entry.splits.values():
            assert split.folders
            for version in split.versions:
                assert version.count > 0
                assert all(len(digest) == 64 and int(digest, 16) for digest in version.sha256.values())


def test_the_benchmark_protocols_name_only_sets_and_splits_of_the_catalog() -> None:
    path = Path(__file__).parents[2] / "src" / "wildspec" / "bench" / "protocols.json"
    for protocol in json.loads(path.read_text())["protocols"]:
        used = [protocol.get("in_distribution", {}), *protocol.get("semantic", [])]
        for entry in (entry for entry in used if "set" in entry):
            for split in (entry.get("train"), entry.get("test")):
                assert split is None or split in data_sets()[entry["set"]].splits


def test_parquet_and_folders_are_found(tmp_path: Path) -> None:
    home = tmp_path / "cifar10"
    for split, numbers in (("train", (0, 1)), ("test", (2,))):
        put(home / split / "cat" / "0.png", 9)
        for shard, number in enumerate(numbers):
            write_parquet(home / f"{split}-{shard}.parquet", [encode(picture(number))], [0], ["cat"])
    found = locate("cifar10", tmp_path)
    assert {split: len(source) for split, source in found.items()} == {"train": 2, "test": 1}
    assert np.array_equal(found["test"].load(0), picture(2))  # parquet before folders
    for shard in home.glob("*.parquet"):
        shard.unlink()
    again = locate("cifar10", str(tmp_path), splits=["test"])
    assert list(again) == ["test"]
    assert np.array_equal(again["test"].load(0), picture(9))
    assert again["test"].classes == ("cat",)


@pytest.mark.parametrize(
    ("name", "inner"), [("lsun_c", "test"), ("lsun_r", "LSUN_resize"), ("places365", ""), ("inaturalist", "images")]
)
def test_sets_without_labels_lie_as_they_unpack(tmp_path: Path, name: str, inner: str) -> None:
    put(tmp_path / name / inner / "b.png", 1)
    put(tmp_path / name / inner / "a.png", 2)
    source = locate(name, tmp_path)["all"]
    assert source.labels.tolist() == [-1, -1]
    assert np.array_equal(source.load(0), picture(2))


def test_textures_are_read_as_they_unpack(tmp_path: Path) -> None:
    put(tmp_path / "textures" / "images" / "banded" / "1.png")
    put(tmp_path / "textures" / "images" / "woven" / "2.png")
    (tmp_path / "textures" / "labels").mkdir()
    assert locate("textures", tmp_path)["all"].classes == ("banded", "woven")


def test_domains_are_folders_of_folders(tmp_path: Path) -> None:
    for number, name in enumerate(["Art/Bed/1", "Art/Axe/1", "Clipart/Axe/1", "Product/Cup/1", "Real World/Bed/1"]):
        put(tmp_path / "office-home" / f"{name}.png", number)
    source = locate("office-home", tmp_path)["all"]
    assert isinstance(source, DomainFolderSource)
    assert source.classes == ("Axe", "Bed", "Cup")
    assert source.labels.tolist() == [0, 1, 0, 2, 1]
    assert source.column("domain").tolist() == ["Art", "Art", "Clipart", "Product", "Real World"]
    assert source.name(4) == "Real World/Bed/1.png"
    assert np.array_equal(source.load(1), picture(0))
    with pytest.raises(DataError, match="no column 'size'; it has domain"):
        source.column("size")
    with pytest.raises(DataError, match=r"folder per domain .*'Sketch'"):
        DomainFolderSource(tmp_path / "office-home", ["Art", "Sketch"])


def test_a_missing_set_says_where_to_get_it(tmp_path: Path) -> None:
    for name, entry in data_sets().items():
        with pytest.raises(DataError) as caught:
            locate(name, tmp_path)
        text = str(caught.value)
        assert entry.source in text
        assert str(tmp_path / name) in text
        assert "parquet" in text
        assert "\n" not in text
    (tmp_path / "svhn" / "train").mkdir(parents=True)  # an empty folder is as good as none
    with pytest.raises(DataError, match=r"SVHN.*\(train\) is not in .*73,257 or 15,000"):
        locate("svhn", tmp_path)


def test_verify_compares_counts_and_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = tmp_path / "textures10" / "all-00000-of-00001.parquet"
    shard.parent.mkdir()
    write_parquet(shard, [encode(picture(i)) for i in range(3)], [0, 1, 2])
    assert len(locate("textures10", tmp_path)["all"]) == 3
    with pytest.raises(DataError, match="must have 1,200 images, found 3"):
        locate("textures10", tmp_path, verify=True)
    write_parquet(shard, [b"x"] * 1200, [0] * 1200)
    with pytest.raises(DataError, match="another sha256"):
        locate("textures10", tmp_path, verify=True)
    known = data_sets()["textures10"].splits["all"].versions[0].sha256
    monkeypatch.setitem(known, shard.name, sha256_file(shard))  # type: ignore[arg-type]
    assert len(locate("textures10", tmp_path, verify=True)["all"]) == 1200


def test_unknown_names_are_named() -> None:
    with pytest.raises(InputError, match="mnist"):
        locate("mnist", ".")
    with pytest.raises(InputError, match=r"split must be one of .*'all'"):
        locate("cifar10", ".", splits=["all"])
