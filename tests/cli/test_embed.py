"""``wildspec embed``: features with file names, which the other commands take; each kind of model its own input."""

import base64
import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import command
import tiny_model
from quick_wild import fake_module
from tiny_backbone import Grid
from wildspec import load


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    return command.runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny_model.write_folders(tmp_path_factory.mktemp("photos"))


@pytest.fixture(autouse=True)
def _grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backbone by name that is made in a moment."""
    fake_module(monkeypatch, "timm", create_model=lambda name, pretrained, num_classes: Grid())


def test_a_folder_becomes_a_table_that_fit_and_score_take(run: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    labelled, wild = folders
    for folder, more in ((labelled, ["--labelled"]), (wild, [])):
        status, out, err = run("embed", folder, "--out", tmp_path / f"{folder.name}.parquet", "--size", 10,
                               "--backbone", "timm:grid:pretrained", *more)  # fmt: skip
        assert status == 0, err
    assert "84 rows of 48 numbers" in out
    table = pq.read_table(tmp_path / "labelled.parquet").to_pydict()
    assert table["name"][:2] == ["bar/000.png", "bar/001.png"]
    assert sorted(set(table["label"])) == ["bar", "disc", "ring"]
    assert np.isfinite(np.array(table["features"])).all()
    assert "label" not in pq.read_table(tmp_path / "wild.parquet").column_names
    shown = np.asarray(Image.open(io.BytesIO(table["picture"][0])))
    assert np.array_equal(shown, np.asarray(Image.open(labelled / table["name"][0]))), "tiny pictures are kept as they are"

    status, out, err = run("fit", "--from-embeddings", "--labelled", tmp_path / "labelled.parquet", "--wild",
                           tmp_path / "wild.parquet", "--out", tmp_path / "m", "--alpha", "0.1")  # fmt: skip
    assert status == 0, err
    status, out, err = run("score", tmp_path / "m", tmp_path / "wild.parquet", "--out", tmp_path / "scores.csv")
    assert status == 0, err
    with open(tmp_path / "scores.csv", newline="") as stream:
        assert [row["image"] for row in csv.DictReader(stream)][:2] == ["w000.png", "w001.png"]

    with open(tmp_path / "scores.csv", newline="") as stream:
        near = {name for row in csv.DictReader(stream) for name in row["neighbours"].split(" | ")}
    assert near <= set(table["name"]), "neighbours are called as their files are"

    status, _, err = run("score", tmp_path / "m", wild, "--out", tmp_path / "scores.csv")
    assert status == 2
    assert "holds images" in err
    assert "wildspec embed" in err
    assert err.count("\n") == 1


def test_classes_that_were_not_taken_for_labels_are_told(run: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    labelled, _ = folders
    network = ["--backbone", "timm:grid:pretrained", "--size", 10]
    status, said, _ = run("embed", labelled, "--out", tmp_path / "a.parquet", *network)
    assert (status, "--labelled" in said) == (0, True)
    status, said, _ = run("embed", labelled, "--labelled", "--out", tmp_path / "b.parquet", *network)
    assert (status, "--labelled" in said) == (0, False)


def test_the_report_shows_the_pictures_of_a_table(run: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Thumbnails and names travel: image -> table -> bundle -> page, byte for byte."""
    labelled, wild = folders
    for folder, more in ((labelled, ["--labelled"]), (wild, [])):
        assert run("embed", folder, "--out", tmp_path / f"{folder.name}.parquet", "--size", 10,
                   "--backbone", "timm:grid:pretrained", *more)[0] == 0  # fmt: skip
    assert run("fit", "--from-embeddings", "--labelled", tmp_path / "labelled.parquet", "--wild", tmp_path / "wild.parquet",
               "--out", tmp_path / "m", "--alpha", "0.1")[0] == 0  # fmt: skip
    status, _, err = run("report", tmp_path / "m", "--data", tmp_path / "wild.parquet", "--no-map", "--out",
                         tmp_path / "r.html")  # fmt: skip
    assert status == 0, err
    page = (tmp_path / "r.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    for name, kind in (("labelled", "labelled"), ("wild", None)):
        table = pq.read_table(tmp_path / f"{name}.parquet").to_pydict()
        pictures = dict(zip(table["name"], table["picture"], strict=True))
        samples = [one for one in data["samples"] if (one["kind"] == "labelled") == (kind == "labelled")]
        assert samples
        for one in samples:
            assert base64.b64decode(one["picture"].split(",")[1]) == pictures[one["name"]]
    assert all(one["picture"] and one["name"].startswith(one["label"]) for one in data["labelled"].values())
    again = load(tmp_path / "m")
    again.save(tmp_path / "m2")
    row = pq.read_table(tmp_path / "wild.parquet").column("features")[0].as_py()
    assert load(tmp_path / "m2").explain([row])[0] == again.explain([row])[0]
    assert "/" in again.explain([row])[0].neighbours[0].name

    assert run("embed", wild, "--out", tmp_path / "plain.parquet", "--size", 10, "--no-pictures",
               "--backbone", "timm:grid:pretrained")[0] == 0  # fmt: skip
    assert pq.read_table(tmp_path / "plain.parquet").column_names == ["name", "features"]


def test_a_model_of_images_says_that_it_was_given_embeddings(run: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(20, 4)), y=np.arange(20) % 2)
    status, _, err = run("score", tiny_model.bundle(), tmp_path / "rows.npz", "--out", tmp_path / "s.csv")
    assert status == 2
    assert "holds embeddings" in err
    assert err.count("\n") == 1


def test_arrays_named_as_in_scikit_learn_are_a_table(run: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    rows = rng.normal(size=(120, 4)) + 4 * np.eye(4)[np.arange(120) % 2]
    np.savez(tmp_path / "rows.npz", X=rows, y=np.arange(120) % 2)
    status, out, err = run("fit", "--from-embeddings", "--labelled", tmp_path / "rows.npz", "--out", tmp_path / "m")
    assert status == 0, err
    assert "2 classes" in out


def test_thumbnails_beside_embeddings_are_not_taken_for_the_images(
    run: Any, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Judged small they would be decided about differently, without a word."""
    table = tmp_path / "wild.parquet"
    assert run("embed", folders[1], "--out", table, "--size", 10, "--backbone", "timm:grid:pretrained")[0] == 0
    model = tiny_model.bundle()
    for words in (["score", model, table], ["report", model, "--data", table, "--out", tmp_path / "r.html"]):
        status, out, err = run(*words)
        assert (status, out) == (2, "")
        assert "holds embeddings" in err
        assert err.count("\n") == 1


def test_pictures_of_kinds_that_are_not_read_are_counted(run: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(folders[1], tmp_path / "photos")
    (tmp_path / "photos" / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    status, out, err = run("embed", tmp_path / "photos", "--out", tmp_path / "t.parquet", "--size", 10,
                           "--backbone", "timm:grid:pretrained")  # fmt: skip
    assert status == 0, err
    assert "phone.HEIC" in out
    assert "84 rows" in out


@pytest.mark.parametrize("words", [["--out", "x.csv"], ["--backbone", "small", "--out", "x.parquet"]])
def test_what_cannot_be_is_one_line(run: Any, folders: tuple[Path, Path], words: list[str]) -> None:
    status, _, err = run("embed", folders[1], *words)
    assert status == 2
    assert err.count("\n") == 1
    assert ".parquet" in err or "brings no weights" in err
