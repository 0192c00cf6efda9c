"""A bundle is what was written, byte for byte, or it is refused with one line that says why."""

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wildspec.bundle import check_target, read_bundle, write_bundle
from wildspec.bundle.manifest import check_outside
from wildspec.errors import CheckpointError, DataError, InputError

MODEL = {"classes": ["a", "b"], "threshold": 0.1 + 0.2}


@pytest.fixture
def tensors() -> dict[str, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 6, generator=generator)
    return {
        "weights.safetensors": {"w": weight, "view": weight[:, ::2], "same": weight},  # shared and strided storage
        "detector/bank.safetensors": {"bank_": torch.randn(5, 3, generator=generator).double()},
    }


@pytest.fixture
def bundle(tmp_path: Path, tensors: dict[str, dict[str, torch.Tensor]]) -> Path:
    return write_bundle(tmp_path / "model", "other", MODEL, tensors, {"bank.json": ["one", "two"]})


def test_what_is_read_is_what_was_written(bundle: Path, tensors: dict[str, dict[str, torch.Tensor]]) -> None:
    stored = read_bundle(bundle)
    assert stored.kind == "other"
    assert stored.model == MODEL
    assert stored.json("bank.json") == ["one", "two"]
    for name, content in tensors.items():
        found = stored.tensors(name)
        assert set(found) == set(content)
        for key, value in content.items():
            assert found[key].dtype == value.dtype
            assert torch.equal(found[key], value)


def test_a_model_that_was_read_stays_as_it_was_when_its_files_are_written_over(
    bundle: Path, tensors: dict[str, dict[str, torch.Tensor]]
) -> None:
    """As by `cp -r NEW/. MODEL/` under a running service."""
    found = read_bundle(bundle).tensors("weights.safetensors")
    file = bundle / "weights.safetensors"
    with open(file, "rb+") as stream:
        stream.write(bytes(file.stat().st_size))
    assert torch.equal(found["w"], tensors["weights.safetensors"]["w"])


def test_half_of_one_model_and_half_of_another_is_refused(bundle: Path) -> None:
    """A fit may replace a bundle at any moment, also while a service that starts is reading it."""
    stored = read_bundle(bundle)
    write_bundle(bundle, "other", MODEL, {"weights.safetensors": {"w": torch.zeros(1)}}, {"bank.json": ["two"]})
    with pytest.raises(CheckpointError, match="replaced"):
        stored.tensors("weights.safetensors")
    with pytest.raises(CheckpointError, match="replaced"):
        stored.json("bank.json")


def test_numpy_arrays_are_taken_too(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3).T  # not contiguous
    stored = read_bundle(write_bundle(tmp_path / "m", "other", {}, {"a.safetensors": {"x": values}}))
    assert np.array_equal(stored.tensors("a.safetensors")["x"].numpy(), values)


def test_manifest_has_the_sum_and_size_of_every_file(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    on_disk = {p.relative_to(bundle).as_posix(): p.read_bytes() for p in bundle.rglob("*") if p.is_file()}
    on_disk.pop("manifest.json")
    expected = {name: {"sha256": hashlib.sha256(b).hexdigest(), "bytes": len(b)} for name, b in on_disk.items()}
    assert manifest["files"] == expected
    assert manifest["version"] == 1


def test_no_pickle_is_written(bundle: Path) -> None:
    assert {p.suffix for p in bundle.rglob("*") if p.is_file()} == {".json", ".safetensors"}


@pytest.mark.parametrize("name", ["weights.safetensors", "detector/bank.safetensors", "model.json", "bank.json"])
def test_every_byte_counts(bundle: Path, name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"checksum of {name} does not match"):
        read_bundle(bundle)


def _manifest(bundle: Path, change: Callable[[dict], None]) -> None:
    path = bundle / "manifest.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def _name(name: str) -> Callable[[Path], None]:
    def apply(bundle: Path) -> None:
        _manifest(bundle, lambda record: record["files"].update({name: {"sha256": "0" * 64, "bytes": 1}}))

    return apply


def _link(bundle: Path) -> None:
    target = bundle.parent / "elsewhere.safetensors"
    shutil.move(bundle / "weights.safetensors", target)
    (bundle / "weights.safetensors").symlink_to(target)


def _folder_link(bundle: Path) -> None:
    shutil.move(bundle / "detector", bundle.parent / "detector")
    (bundle / "detector").symlink_to(bundle.parent / "detector")


def _manifest_link(bundle: Path) -> None:
    shutil.move(bundle / "manifest.json", bundle.parent / "m.json")
    (bundle / "manifest.json").symlink_to(bundle.parent / "m.json")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing file": (lambda b: (b / "detector/bank.safetensors").unlink(), "detector/bank.safetensors is missing"),
    "extra file": (lambda b: (b / "notes.txt").write_text("x"), "notes.txt is not in its manifest"),
    "extra in a folder": (lambda b: (b / "detector/x.json").write_text("{}"), "detector/x.json is not in its manifest"),
    "cut short": (lambda b: os.truncate(b / "weights.safetensors", 10), "weights.safetensors has 10 bytes"),
    "newer": (lambda b: _manifest(b, lambda r: r.update(version=2)), "newer wildspec .* upgrade wildspec"),
    "older than any": (lambda b: _manifest(b, lambda r: r.update(version=0)), "not what wildspec writes"),
    "true for a version": (lambda b: _manifest(b, lambda r: r.update(version=True)), "not what wildspec writes"),
    "no version": (lambda b: _manifest(b, lambda r: r.pop("version")), "not what wildspec writes"),
    "other format": (lambda b: _manifest(b, lambda r: r.update(format="zip")), "not a wildspec bundle"),
    "files is a list": (lambda b: _manifest(b, lambda r: r.update(files=[])), "not what wildspec writes"),
    "no sum": (lambda b: _manifest(b, lambda r: r["files"]["model.json"].pop("sha256")), "no sha256 and size"),
    "model not named": (lambda b: _manifest(b, lambda r: r["files"].pop("model.json")), "does not name model.json"),
    "not JSON": (lambda b: (b / "manifest.json").write_text("{"), "not readable JSON"),
    "a list": (lambda b: (b / "manifest.json").write_text("[]"), "not a wildspec bundle"),
    "no manifest": (lambda b: (b / "manifest.json").unlink(), "not a wildspec bundle"),
    "parent": (_name("../secret.json"), "leads out of the bundle"),
    "parent inside": (_name("detector/../../x.json"), "leads out of the bundle"),
    "absolute": (_name("/etc/x.json"), "leads out of the bundle"),
    "backslash": (_name("..\\x.json"), "leads out of the bundle"),
    "drive": (_name("C:x.json"), "leads out of the bundle"),
    "double slash": (_name("detector//x.json"), "not a plain relative path"),
    "pickle": (_name("weights.pt"), "neither .json nor .safetensors"),
    "link": (_link, "weights.safetensors is a symbolic link"),
    "linked folder": (_folder_link, "detector is a symbolic link"),
    "linked manifest": (_manifest_link, "manifest.json is not a plain file"),
    "pipe": (lambda b: os.mkfifo(b / "p.json"), "p.json is not a plain file"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_anything_else_is_refused_with_one_line(bundle: Path, what: str) -> None:
    damage, message = DAMAGE[what]
    damage(bundle)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_bundle(bundle)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["manifest.json", "model.json", "weights.safetensors"])
def test_a_bundle_that_may_not_be_read_is_not_called_damaged(
    bundle: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one user has copied it, and another serves it."""
    usual = open

    def refuse(path: Any, *args: Any, **more: Any) -> Any:
        if Path(path).name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return usual(path, *args, **more)

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    with pytest.raises(CheckpointError, match=f"cannot read .*{name}: Permission denied; let this user") as caught:
        read_bundle(bundle)
    assert "fit it again" not in str(caught.value)


def test_a_rewritten_manifest_cannot_make_damaged_tensors_load(bundle: Path) -> None:
    """With matching sums the safetensors reader itself is the guard."""
    (bundle / "weights.safetensors").write_bytes(b"\xff" * 64)
    _manifest(bundle, lambda r: r["files"].update(
        {"weights.safetensors": {"sha256": hashlib.sha256(b"\xff" * 64).hexdigest(), "bytes": 64}}
    ))
    with pytest.raises(CheckpointError, match=r"weights.safetensors is not readable"):
        read_bundle(bundle).tensors("weights.safetensors")


def test_a_missing_bundle_and_a_plain_folder_say_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        read_bundle(tmp_path / "none")
    with pytest.raises(CheckpointError, match="not a wildspec bundle"):
        read_bundle(tmp_path)


def test_a_file_that_is_not_there_is_an_error_that_lists_those_that_are(bundle: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no x.safetensors; it has bank.json"):
        read_bundle(bundle).tensors("x.safetensors")


def test_a_bundle_replaces_a_bundle_and_nothing_else(bundle: Path, tmp_path: Path) -> None:
    write_bundle(bundle, "other", {"new": 1}, {})
    assert read_bundle(bundle).model == {"new": 1}
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("x")
    with pytest.raises(InputError, match="not a wildspec bundle"):
        write_bundle(precious, "other", {}, {})
    assert (precious / "chapter.txt").read_text() == "x"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "thesis"], "no temporary folder is left"


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "model", tmp_path / "file" / "deeper" / "model"):
        with pytest.raises(DataError, match=r"cannot write .*model: .*another path"):
            check_target(place)
        with pytest.raises(DataError, match=r"cannot write .*model: .*another path"):
            write_bundle(place, "other", MODEL, {})
    assert check_target(tmp_path / "new" / "deeper" / "model") is False
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file"], "asking leaves nothing behind"

    def full(*args: object, **more: object) -> str:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(DataError, match=r"cannot write .*model: Read-only.*another path"):
        check_target(tmp_path / "model")


def test_a_failed_write_leaves_the_old_bundle(bundle: Path) -> None:
    """The system refuses files of more than 64 KiB, as a full disk would."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(DataError, match="File too large"):
            write_bundle(bundle, "other", {"new": 1}, {"w.safetensors": {"w": torch.zeros(1 << 16)}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_bundle(bundle).model == MODEL
    assert [p.name for p in bundle.parent.iterdir()] == ["model"]


def test_a_rename_that_fails_puts_the_old_bundle_back(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one has left its place by then: it would be lost."""
    rename = os.replace

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name == "new":
            raise OSError(errno.EACCES, "Permission denied")
        rename(source, target)

    monkeypatch.setattr("wildspec.bundle.store.exchange", lambda *given: False)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(DataError, match="Permission denied"):
        write_bundle(bundle, "other", {"new": 1}, {"w.safetensors": {"w": torch.zeros(1)}})
    assert read_bundle(bundle).model == MODEL
    assert [p.name for p in bundle.parent.iterdir()] == ["model"]


def test_a_manifest_without_end_is_not_read(bundle: Path) -> None:
    manifest = bundle / "manifest.json"
    record = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(record) + " " * (1 << 20))
    with pytest.raises(CheckpointError, match=r"manifest\.json is larger than 1,048,576"):
        read_bundle(bundle)
    entry = record["files"]["model.json"]
    record["files"] |= {f"{i}.json": entry for i in range(1000)}
    manifest.write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=r"manifest\.json is not what"):
        read_bundle(bundle)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_who_may_read_a_bundle_is_the_users_choice(
    tmp_path: Path, tensors: dict[str, dict[str, torch.Tensor]], umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        path = write_bundle(tmp_path / ("m" * 255), "other", MODEL, tensors)
    finally:
        os.umask(before)
    inside = list(path.rglob("*"))
    assert {p.stat().st_mode & 0o777 for p in inside if p.is_file()} == {mode}
    assert {p.stat().st_mode & 0o777 for p in [path, *inside] if p.is_dir()} == {0o777 & ~umask}


@pytest.mark.parametrize("name", ["../x.safetensors", "x.bin", "manifest.json"])
def test_unsafe_names_cannot_be_written_either(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot hold the file"):
        write_bundle(tmp_path / "m", "other", {}, {name: {"x": torch.zeros(1)}})
    assert list(tmp_path.iterdir()) == []


def test_nan_cannot_be_written_as_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        write_bundle(tmp_path / "m", "other", {"x": float("nan")}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can swap two names")
def test_a_bundle_is_replaced_in_one_step(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two renames leave a moment without any bundle, in which a service that starts would find none."""
    moved: list[Path] = []
    monkeypatch.setattr(os, "replace", lambda a, b: moved.append(Path(b)))
    write_bundle(bundle, "other", {"new": 1}, {})
    assert moved == []
    assert read_bundle(bundle).model == {"new": 1}
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]


def test_where_the_system_cannot_it_takes_two(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wildspec.bundle.store.exchange", lambda *given: False)
    write_bundle(bundle, "other", {"new": 1}, {})
    assert read_bundle(bundle).model == {"new": 1}
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]


@pytest.mark.parametrize("manifest", ['{"name": "an extension", "manifest_version": 3}', "[]", "not JSON", ""])
def test_a_folder_with_a_manifest_of_something_else_is_left_alone(tmp_path: Path, manifest: str) -> None:
    """Browser extensions and web pages have a manifest.json, too."""
    theirs = tmp_path / "extension"
    theirs.mkdir()
    (theirs / "manifest.json").write_text(manifest)
    (theirs / "background.js").write_text("precious")
    for ask in (lambda: check_target(theirs), lambda: write_bundle(theirs, "other", MODEL, {})):
        with pytest.raises(InputError, match="not a wildspec bundle"):
            ask()
    assert (theirs / "background.js").read_text() == "precious"


def test_no_bundle_and_no_file_is_written_into_a_bundle(bundle: Path, tmp_path: Path) -> None:
    """One file more, and it would be refused."""
    (tmp_path / "link").symlink_to(bundle)
    for inside in (bundle / "report.html", bundle / "deeper" / "x.csv", tmp_path / "link" / "x.csv"):
        with pytest.raises(InputError, match=r"in a bundle.*another --log"):
            check_outside(inside, "--log")
        with pytest.raises(InputError, match=r"in a bundle.*another --out"):
            check_target(inside)
    for outside in (bundle, bundle.parent / "report.html", Path("/dev/stdout")):
        check_outside(outside)
    assert read_bundle(bundle)


def test_a_size_that_no_file_has_is_refused(bundle: Path) -> None:
    text = (bundle / "manifest.json").read_text()
    size = json.loads(text)["files"]["model.json"]["bytes"]
    (bundle / "manifest.json").write_text(text.replace(f'"bytes": {size}', '"bytes": 1e999'))
    with pytest.raises(CheckpointError, match="is refused"):
        read_bundle(bundle)
