"""Data of a protocol: decoded once, shards in any order of arrival, parts that share no image, hashes of what is in."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.bench.tiny import CIFAR_CLASSES, pictures, write_office_home, write_split, write_tiny

from wildspec.bench.prepare import content_hash, needed_splits, only_classes, prepare
from wildspec.bench.protocols import Protocol, protocol, protocol_names
from wildspec.bench.store import Store
from wildspec.data import ImageArrays, corrupt
from wildspec.data.catalog import data_sets
from wildspec.errors import DataError, InputError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def store(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(data, tmp_path_factory.mktemp("cache"))


def test_decoding_is_exact_and_happens_once(store: Store, data: Path) -> None:
    images = store.load("cifar10", "train", 32)
    labels = np.tile(np.arange(10), 48)
    assert np.array_equal(images.images.permute(0, 2, 3, 1).numpy(), pictures(labels, 0))
    assert images.labels.tolist() == labels.tolist()
    assert images.classes == CIFAR_CLASSES
    assert store.decode("cifar10", "train", 32) == 0, "nothing is left to decode"
    again = Store(data / "gone", store.cache).load("cifar10", "train", 32)
    assert torch.equal(again.images, images.images), "the arrays are enough"


def test_a_changed_shard_is_decoded_anew(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", tmp_path / "cache")
    write_split(tmp_path / "data" / "svhn", "test", 1, 2, ("a", "b"), seed=0)
    assert len(store.load("svhn", "test", 32)) == 4
    write_split(tmp_path / "data" / "svhn", "test", 1, 3, ("a", "b"), seed=0)
    assert len(store.load("svhn", "test", 32)) == 6


def test_shards_may_arrive_one_call_after_another(tmp_path: Path, data: Path) -> None:
    arriving, cache = tmp_path / "data" / "cifar10", tmp_path / "cache"
    arriving.mkdir(parents=True)
    store = Store(tmp_path / "data", cache)
    first, second = (data / "cifar10" / f"train-0000{n}-of-00002.parquet" for n in (0, 1))
    (arriving / second.name).write_bytes(second.read_bytes())
    assert store.decode("cifar10", "train", 32) == 1
    assert not store.available("cifar10", "train")
    with pytest.raises(DataError, match=r"cifar10 train: 1 of 2 .*train-00000-of-00002"):
        store.load("cifar10", "train", 32)
    (arriving / second.name).unlink()
    (arriving / first.name).write_bytes(first.read_bytes())
    images = store.load("cifar10", "train", 32)
    assert images.labels.tolist() == np.tile(np.arange(10), 48).tolist(), "in the order of the shards, not of arrival"


WHERE = [("svhn", "train"), ("imagenet100", "train"), ("office-home", "all"), ("x", "all")]


@pytest.mark.parametrize(("name", "split"), WHERE)
def test_a_missing_set_is_one_line_that_says_where_to_get_it(tmp_path: Path, name: str, split: str) -> None:
    with pytest.raises(DataError) as caught:
        Store(tmp_path, tmp_path / "cache").load(name, split, 32)
    text = str(caught.value)
    assert "\n" not in text
    assert str(tmp_path / name) in text
    assert ("https://" in text or "http://" in text) == (name != "x")


@pytest.mark.parametrize("name", sorted(data_sets()))
def test_that_line_has_layout_count_and_checksum_of_every_set(tmp_path: Path, name: str) -> None:
    entry = data_sets()[name]
    for split, info in entry.splits.items():
        text = Store(tmp_path, tmp_path / "cache").what_is_missing(name, split)
        assert f"expected {split}-*.parquet" in text
        assert all(f"{version.count:,}" in text for version in info.versions)
        sums = [*entry.md5.values(), *(digest for version in info.versions for digest in version.sha256.values())]
        assert sums, "every set has at least one"
        assert all(digest in text for digest in sums)
        assert "get it from made" not in text


def test_another_version_than_the_catalogs_is_told(tmp_path: Path, data: Path) -> None:
    store = Store(data, tmp_path)
    store.decode("cifar10", "test", 8)
    assert store.another_version("cifar10", "test", 8) == "cifar10 test has 40 images, the catalog knows 10,000"
    note = tmp_path / "cifar10" / "test-00000-of-00001.8.json"
    facts = json.loads(note.read_text())
    note.write_text(json.dumps({**facts, "count": 9_999, "unreadable": 1}))
    assert "other files than the catalog's under the names test-00000-of-00001" in str(
        store.another_version("cifar10", "test", 8)
    )
    (known,) = data_sets()["cifar10"].splits["test"].versions
    note.write_text(json.dumps({**facts, "count": 10_000, "sha256": known.sha256[facts["source"]]}))
    assert store.another_version("cifar10", "test", 8) is None


def test_every_set_of_every_protocol_is_in_the_catalog() -> None:
    for name in protocol_names():
        for entry in protocol(name).semantic:
            for set_name, split in needed_splits(protocol(name), entry.name):
                assert split in data_sets()[set_name].splits


def test_a_folder_of_images_is_as_good_as_parquet(tmp_path: Path, data: Path) -> None:
    images = pictures(np.arange(6) % 2, 0, size=8)
    for number, image in enumerate(images):
        path = tmp_path / "svhn" / "test" / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    store = Store(tmp_path, tmp_path / "cache")
    assert store.available("svhn", "test")
    assert not store.available("svhn", "train")
    found = store.load("svhn", "test", 8)
    assert found.classes == ("class0", "class1")
    order = [0, 2, 4, 1, 3, 5]
    assert np.array_equal(found.images.permute(0, 2, 3, 1).numpy(), images[order])
    mine = {"svhn": content_hash(found)}
    assert store.describe("svhn", "test", 8) == {"images": 6, "unreadable": 0, "sha256": mine, "in_catalog": False}
    assert store.decode("svhn", "test", 8) == 0
    Image.fromarray(255 - images[0]).save(tmp_path / "svhn" / "test" / "class0" / "0.png")
    assert store.decode("svhn", "test", 8) == 1
    assert store.describe("svhn", "test", 8)["sha256"] != mine


def test_describe_tells_which_files_were_read(store: Store, data: Path) -> None:
    store.load("cifar10", "train", 32)
    made = store.describe("cifar10", "train", 32)
    assert made["images"] == 480
    assert made["in_catalog"] is False, "these are not the files our results were made with"
    for name, digest in made["sha256"].items():
        assert hashlib.sha256((data / "cifar10" / name).read_bytes()).hexdigest() == digest


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", tmp_path / "cache")
    write_split(tmp_path / "data" / "svhn", "test", 1, 2, ("a", "b"), seed=0)
    store.load("svhn", "test", 32)
    (tmp_path / "cache" / "svhn" / "test-00000-of-00001.32.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match="is damaged"):
        store.load("svhn", "test", 32)


def _rows(images: ImageArrays) -> set[bytes]:
    return {image.numpy().tobytes() for image in images.images}


def test_cifar10_parts_have_the_papers_sizes_and_share_no_image(store: Store) -> None:
    made = prepare(protocol("cifar10"), "svhn", store)
    assert len(made.labelled) == 240
    assert torch.bincount(made.labelled.labels).tolist() == [24] * 10, "stratified"
    n_in, n_cov, n_sem = made.wild.sizes
    assert (n_in, n_cov) == (150, 150), "60 % of the other 24 of each class, rounded by largest remainder"
    assert n_sem == 42, "70 % of SVHN's training split"
    assert len(made.id_validation) == 20
    assert len(made.id_test) == 40
    assert len(made.semantic_test) == 30, "SVHN's own test split"
    pool = made.wild.pool
    assert isinstance(pool, ImageArrays)
    assert pool.labels.unique().tolist() == [-1]
    wild_in = ImageArrays(pool.images[:n_in])
    parts = [_rows(part) for part in (made.labelled, made.id_validation, wild_in, made.id_test)]
    assert sum(map(len, parts)) == len(set().union(*parts)), "no clean image is in two parts"
    assert torch.equal(pool.images[n_in : n_in + n_cov], corrupt(wild_in.images, "gaussian_noise", 1, 1))
    assert sorted(made.covariate_test) == [1, 2, 3, 4, 5]
    assert torch.equal(made.covariate_test[3].images, corrupt(made.id_test.images, "gaussian_noise", 3, 2))
    assert torch.equal(made.covariate_test[3].labels, made.id_test.labels)


def test_sets_without_a_test_split_are_cut_70_30_and_unseen_ones_keep_their_test_part(store: Store) -> None:
    made = prepare(protocol("cifar10"), "textures10", store)
    assert made.wild.sizes[2] == 20, "70 % of 70 % of 40, rounded"
    assert len(made.semantic_test) == 12
    assert {name: len(images) for name, images in made.unseen.items()} == {"svhn": 30, "miniplaces": 15}
    in_pool = prepare(protocol("cifar10"), "miniplaces", store)
    assert content_hash(in_pool.semantic_test) == content_hash(made.unseen["miniplaces"]), "comparable: same test images"
    assert prepare(protocol("cifar10"), "svhn", store, unseen=False).unseen == {}


def test_hashes_tell_data_apart(store: Store) -> None:
    made = prepare(protocol("cifar10"), "svhn", store, unseen=False).hashes()
    assert made == prepare(protocol("cifar10"), "svhn", store, unseen=False).hashes()
    harder = prepare(protocol("cifar10"), "svhn", store, unseen=False, severity=2).hashes()
    assert {name for name in made if made[name] != harder.get(name)} == {"wild", "covariate_test_1"}
    assert len(made["labelled"]) == 64


def test_all_labels_leave_only_the_validation_part_out(store: Store) -> None:
    usual = prepare(protocol("cifar10"), "svhn", store, unseen=False)
    made = prepare(protocol("cifar10"), "svhn", store, unseen=False, all_labels=True)
    assert len(made.labelled) == 480 - 20
    assert _rows(made.labelled).isdisjoint(_rows(made.id_validation))
    changed = {name for name, value in made.hashes().items() if value != usual.hashes()[name]}
    assert changed == {"labelled"}


def test_severity_out_of_range(store: Store) -> None:
    with pytest.raises(InputError, match=r"severity must be .*got 6"):
        prepare(protocol("cifar10"), "svhn", store, severity=6)


def test_impact_knows_five_classes(store: Store) -> None:
    made = prepare(protocol("impact"), "cifar10_unknown_gaussian_noise", store, unseen=False)
    assert made.labelled.classes == CIFAR_CLASSES[:5]
    assert torch.unique(made.labelled.labels).tolist() == [0, 1, 2, 3, 4]
    assert len(made.id_test) == len(made.semantic_test) == 20
    unknown = only_classes(store.load("cifar10", "test", 32), [5, 6, 7, 8, 9])
    assert not torch.equal(made.semantic_test.images, unknown.images), "in the noisy domain"
    clean = prepare(protocol("impact"), "cifar10_unknown", store, unseen=False)
    assert torch.equal(clean.semantic_test.images, unknown.images)
    assert len(prepare(protocol("impact"), "svhn", store, unseen=False).semantic_test) == 30


def test_wrong_number_of_classes(tmp_path: Path) -> None:
    write_split(tmp_path / "cifar10", "train", 1, 4, ("cat", "dog"), seed=0)
    write_split(tmp_path / "cifar10", "test", 1, 4, ("cat", "dog"), seed=1)
    with pytest.raises(DataError, match="cifar10 must have 10 classes"):
        prepare(protocol("cifar10"), "svhn", Store(tmp_path, tmp_path / "cache"))


def _small_office_home() -> Protocol:
    made = protocol("office-home")
    return dataclasses.replace(made, in_distribution={**made.in_distribution, "size": 8}, id_holdout=0.67)


def test_office_home_pair(tmp_path: Path) -> None:
    store = Store(write_office_home(tmp_path), tmp_path / "cache")
    made = prepare(_small_office_home(), "Ar->Rw", store)
    assert made.labelled.classes == tuple(f"Class_{n:02d}" for n in range(25)), "the first 25 in alphabetical order"
    assert len(made.labelled) == len(made.id_validation) == len(made.id_test) == 25
    assert made.wild.sizes == (0, 75, 120), "the whole target domain: 25 and 40 classes of three images"
    assert made.wild.pi_c == pytest.approx(25 / 65)
    assert (len(made.covariate_test[1]), len(made.semantic_test)) == (75, 120)
    assert made.covariate_test[1].classes == made.labelled.classes
    assert made.unseen == {}


def test_office_home_without_a_domain(tmp_path: Path) -> None:
    write_split(tmp_path / "office-home", "all", 1, 1, tuple(f"c{n:02d}" for n in range(65)), seed=0)
    with pytest.raises(DataError, match="has no column 'domain'"):
        prepare(_small_office_home(), "Ar->Rw", Store(tmp_path, tmp_path / "cache"))


def test_needed_splits() -> None:
    cifar = protocol("cifar10")
    assert needed_splits(cifar, "svhn") == [("cifar10", "train"), ("cifar10", "test"), ("svhn", "train"), ("svhn", "test")]
    assert needed_splits(cifar, "miniplaces")[2:] == [("miniplaces", "all")]
    assert needed_splits(protocol("impact"), "cifar10_unknown") == [("cifar10", "train"), ("cifar10", "test")]
    assert needed_splits(protocol("office-home"), "Ar->Cl") == [("office-home", "all")]
