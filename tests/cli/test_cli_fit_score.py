"""fit and score as a user types them: bundle out, rows out, order kept, bad files reported, exit status for scripts."""

import csv
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import command
import tiny_model
import wildspec
from wildspec.errors import DataError

QUICK = ["--epochs", "2", "--size", "10", "--device", "cpu", "--alpha", "0.1"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    return command.runner(monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images, one of them broken, one of them empty; names out of order on purpose."""
    (tmp_path / "in" / "deeper").mkdir(parents=True)
    images, _ = tiny_model.pictures({"bar": 4, "disc": 3, "stripes": 3}, 50)
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "in" / ("deeper" if i > 6 else ".") / f"{(7 * i) % 10}.png")
    (tmp_path / "in" / "broken.png").write_bytes(b"not an image")
    (tmp_path / "in" / "empty.jpg").write_bytes(b"")
    return tmp_path / "in"


def test_fit_writes_a_bundle_and_says_what_is_next(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    (wild / "broken.png").write_bytes(b"x")
    status, out, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 0, err
    assert "1 wild file could not be read and left out, first broken.png" in out
    assert "of 84 images look like none of your 3 classes" in out
    assert f"wildspec score {tmp_path / 'm'} IMAGES" in out
    assert "read 120 labelled images of 3 classes" in err
    model = wildspec.load(tmp_path / "m")
    assert model.classes_.tolist() == ["bar", "disc", "ring"]
    assert model.alpha == 0.1
    from wildspec.report.words import hardly_better, pool_in_words

    seen = model.fitted_.evidence
    warning = hardly_better(seen["validation.label"].numpy(), seen["validation.likely"].numpy())
    assert warning is not None, "two epochs teach next to nothing"
    assert warning in out
    assert f"without the threshold: {pool_in_words(model.fitted_.decision.calibration.mixture)}" in out


@pytest.mark.parametrize(("rejected", "said"), [(42, False), (43, True)])
def test_fit_says_when_most_of_the_pool_is_rejected(capsys: Any, rejected: int, said: bool) -> None:
    from types import SimpleNamespace

    from wildspec.cli.fit import _tell

    model = tiny_model.fitted()
    changed = SimpleNamespace(
        record_=model.record_, fitted_=model.fitted_, classes_=model.classes_,
        metrics_={**model.metrics_, "wild": {"count": 84, "rejected": rejected}},
    )  # fmt: skip
    _tell(changed, Path("my model"))
    out = capsys.readouterr().out
    assert ("that is most of the pool" in out) == said
    assert out.splitlines()[-1] == "  wildspec serve 'my model'", "what is to be typed can be"


def test_a_model_that_cannot_be_written_where_it_should_is_kept_elsewhere(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that filled up while fit was learning: what was learned is not lost."""
    labelled, wild = tiny_model.write_folders(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    save = wildspec.WildClassifier.save

    def full(self: Any, path: Any) -> None:
        if Path(path) == tmp_path / "m":
            raise DataError(f"cannot write {path}: No space left on device; free space or choose another path")
        save(self, path)

    monkeypatch.setattr(wildspec.WildClassifier, "save", full)
    status, _, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 2
    [kept] = (tmp_path / "elsewhere").glob("*/m")
    said = err.splitlines()[-1]
    assert said.startswith(f"wildspec: cannot write {tmp_path / 'm'}: No space left on device")
    assert said.endswith(f"the model is kept in {kept}")
    assert wildspec.load(kept).classes_.tolist() == list(tiny_model.CLASSES)

    def nowhere(self: Any, path: Any) -> None:
        raise DataError(f"cannot write {path}: No space left on device; free space or choose another path")

    monkeypatch.setattr(wildspec.WildClassifier, "save", nowhere)
    status, _, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 2
    assert err.splitlines()[-1].endswith("free space or choose another path")
    assert list((tmp_path / "elsewhere").iterdir()) == [kept.parent], "nothing more left there"


def test_empty_class_folders_are_named_before_training(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    for name in ("sooner", "later"):
        (labelled / name).mkdir()
    status, _, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 2
    said = "no image of the classes 'later', 'sooner' could be read; put images into their folders or remove them"
    assert err == f"wildspec: {said}\n"


def test_pictures_of_kinds_that_are_not_read_are_counted(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    (wild / "cam").mkdir()
    for name in ("cam/IMG_2.HEIC", "cam/raw.nef", ".hidden.heic", "notes.txt"):
        (wild / name).write_bytes(b"x")
    status, out, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 0, err
    said = "2 wild files are of a kind that is not read and left out, first cam/IMG_2.HEIC; save them as JPEG or PNG"
    assert said in out.splitlines()
    assert "labelled files are of a kind" not in out
    (wild / "cam" / "raw.nef").unlink()
    status, out, _ = run("score", tmp_path / "m", wild, "--out", tmp_path / "s.csv")
    assert status == 0
    one = f"1 file is of a kind that is not read and left out, first {wild / 'cam' / 'IMG_2.HEIC'}; save it as JPEG or PNG"
    assert one in out.splitlines()
    status, out, _ = run("score", tmp_path / "m", wild, "--out", tmp_path / "s.csv", "--json")
    assert json.loads(out)["rows"] == 84


def test_what_systems_leave_in_folders_is_no_class_and_said(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    picture = (wild / "w000.png").read_bytes()
    for name in ("__MACOSX/bar", "bar/@eaDir/a.png", ".ipynb_checkpoints"):
        (labelled / name).mkdir(parents=True)
        (labelled / name / "._copy.png").write_bytes(picture)
        (labelled / name / "copy.png").write_bytes(picture)
    status, out, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 0, err
    assert "read 120 labelled images of 3 classes" in err
    first = labelled / ".ipynb_checkpoints"
    many = f"3 folders are hidden or made by a system, and left out with the pictures in them, first {first}"
    assert many in out.splitlines()
    (wild / "$RECYCLE.BIN").mkdir()
    (wild / "$RECYCLE.BIN" / "old.png").write_bytes(picture)
    (wild / ".git").mkdir()  # without pictures: not worth a line
    status, out, _ = run("score", tmp_path / "m", wild, "--out", tmp_path / "s.csv")
    assert status == 0
    one = f"the folder {wild / '$RECYCLE.BIN'} is hidden or made by a system, and left out with the pictures in it"
    assert one in out.splitlines()
    assert "84 rows" in out


def test_names_that_are_no_text_are_shown_all_the_same(run: Any, tmp_path: Path) -> None:
    """File names are bytes: one from an old archive need not be UTF-8."""
    labelled, wild = tiny_model.write_folders(tmp_path)
    strange = os.fsdecode(b"caf\xe9.png")
    try:
        (labelled / "ring" / strange).write_bytes((wild / "w000.png").read_bytes())
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (wild / strange).write_bytes((wild / "w000.png").read_bytes())
    (wild / f"b{strange}").write_bytes(b"x")
    (labelled / os.fsdecode(b"bo\xeete")).mkdir()
    for i, path in enumerate(sorted((labelled / "disc").iterdir())):
        (labelled / os.fsdecode(b"bo\xeete") / f"{i}.png").write_bytes(path.read_bytes())
    model = tmp_path / "m"
    status, out, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", model, *QUICK, "--max-unreadable", "0.1")
    assert status == 0, err
    assert r"left out, first bcaf\udce9.png: " in out
    assert r"bo\udceete" in wildspec.load(model).classes_.tolist()
    for kind in ("csv", "parquet"):
        status, _, err = run("score", model, wild, "--out", tmp_path / f"s.{kind}")
        assert status == 1, err
    with (tmp_path / "s.csv").open(encoding="utf-8", newline="") as stream:
        names = [row["image"] for row in csv.DictReader(stream)]
    assert str(wild / "caf") + r"\udce9.png" in names
    assert pq.read_table(tmp_path / "s.parquet")["image"].to_pylist() == names
    for data in ((), ("--data", wild)):
        status, _, err = run("report", model, *data, "--no-map", "--out", tmp_path / "r.html")
        assert status == 0, err
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert r"caf\udce9" in page.replace(r"\\", "\\"), "in the data, where a backslash is written twice, or in the text"


def test_fit_without_wild_images_warns_in_one_line(run: Any, tmp_path: Path) -> None:
    labelled, _ = tiny_model.write_folders(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, _, err = run("fit", "--labelled", labelled, "--out", tmp_path / "m", *QUICK)
    assert status == 0, err
    assert err.splitlines()[0].startswith("warning: no wild images were given: the model learns")
    assert "UserWarning" not in err


def test_fit_as_json_is_json_alone(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    options = ["--set", "eta_l=0.3", "--no-pictures", "--json", *QUICK]
    status, out, _ = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *options)
    record = json.loads(out)
    assert status == 0
    assert record["training"]["hparams"] == {"eta_l": 0.3}
    assert record["threshold"] == wildspec.load(tmp_path / "m").threshold_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labelled", "none", "--out", "m"], "none does not exist"),
        (["--labelled", "labelled", "--wild", "wild", "--out", "labelled"], "exists and is not a wildspec bundle"),
        (["--labelled", "wild", "--wild", "wild", "--out", "m"], "class"),
        (["--labelled", "labelled", "--wild", "wild", "--out", "m", "--set", "eta"], "--set takes NAME=VALUE"),
        (["--labelled", "labelled", "--wild", "wild", "--out", "m", "--epochs", "1", "--minutes", "1"], "not both"),
        (["--labelled", "labelled", "--wild", "wild", "--out", "m", "--cache", "c", "--no-cache"], "give one of them"),
        (["--labelled", "labelled", "--wild", "wild", "--out", "m", "--minutes", "0.0001", "--end-to-end"],
         "allow --minutes 1 or"),
    ],
)
def test_fit_says_no_in_one_line(run: Any, tmp_path: Path, options: list[str], message: str) -> None:
    tiny_model.write_folders(tmp_path)
    words = [str(tmp_path / word) if word in ("none", "labelled", "wild", "m") else word for word in options]
    status, _, err = run("fit", *words, "--size", "10", "--device", "cpu")
    assert status == 2
    last = err.strip().splitlines()[-1]
    assert last.startswith("wildspec: ")
    assert message in last
    assert not (tmp_path / "m").exists()


def test_names_that_the_shell_has_put_in_the_place_of_a_pattern_are_counted(run: Any) -> None:
    names = [f"my wild/IMG_{i}.jpg" for i in range(390)]
    status, _, err = run("fit", "--labelled", "labelled", "--out", "m", "--wild", *names)
    assert (status, err.count("\n")) == (2, 1)
    assert "389 extra words, first my wild/IMG_1.jpg" in err
    assert "folder" in err
    assert "IMG_2.jpg" not in err
    status, _, err = run("fit", "--labelled", "labelled", "--out", "m", "stray")
    assert (status, "stray" in err) == (2, True)


def test_fit_is_for_one_process(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, said = run("fit", "--labelled", tmp_path, "--out", tmp_path / "model")
    assert (code, said.count("\n")) == (2, 1)
    assert "fit runs in one process, torchrun started 2" in said
    assert not (tmp_path / "model").exists()


def test_score_keeps_order_and_reports_what_it_cannot_read(run: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny_model.fitted()
    status, out, err = run("score", tiny_model.bundle(), folder, "--out", tmp_path / "s.csv", "--device", "cpu")
    assert status == 1, err
    rows = list(csv.DictReader((tmp_path / "s.csv").open(newline="")))
    names = [row["image"] for row in rows]
    assert len(rows) == 12
    assert {str(folder / "broken.png"), str(folder / "empty.jpg")} == {row["image"] for row in rows if row["error"]}
    assert names == sorted(names, key=lambda n: ("deeper" in n, n)), "natural order: files, then folders"
    for row in rows:
        if row["error"]:
            assert (row["decision"], row["ood_score"], row["neighbours"]) == ("", "", "")
            continue
        expected = model.explain(row["image"], neighbours=3)[0]
        assert row["decision"] == expected.decision
        assert row["likely"] == expected.likely
        assert float(row["ood_score"]) == pytest.approx(expected.ood_score, abs=1e-5)
        assert float(row["p_value"]) == pytest.approx(expected.p_value)
        assert row["neighbours"].split(" | ") == [n.name for n in expected.neighbours]
    rejected = sum(row["decision"] == "rejected" for row in rows)
    assert f"12 rows, {10 - rejected} kept, {rejected} rejected, 2 unreadable" in out


def test_parquet_has_the_same_rows(run: Any, folder: Path, tmp_path: Path) -> None:
    for name in ("s.csv", "s.parquet"):
        run("score", tiny_model.bundle(), folder, "--out", tmp_path / name, "--device", "cpu", "--neighbours", "2")
    table = pq.read_table(tmp_path / "s.parquet").to_pylist()
    for wide, row in zip(table, csv.DictReader((tmp_path / "s.csv").open(newline="")), strict=True):
        assert wide["image"] == row["image"]
        assert (wide["decision"] or "") == row["decision"]
        for name in ("probability", "ood_score", "p_value"):
            assert row[name] == ("" if wide[name] is None else f"{wide[name]:.7g}")
        assert wide["neighbours"] == (row["neighbours"].split(" | ") if row["neighbours"] else [])


def test_all_readable_is_status_0_and_inputs_mix(run: Any, folder: Path, tmp_path: Path) -> None:
    for name in ("broken.png", "empty.jpg"):
        (folder / name).unlink()
    np.save(tmp_path / "more.npy", tiny_model.pictures({"ring": 3}, 60)[0])
    one = next(folder.glob("*.png"))
    status, out, _ = run(
        "score", tiny_model.bundle(), one, tmp_path / "more.npy", folder, "--out", tmp_path / "s.csv", "--json"
    )
    assert status == 0
    rows = list(csv.DictReader((tmp_path / "s.csv").open(newline="")))
    assert [row["image"] for row in rows[:4]] == [str(one), "0", "1", "2"]
    assert json.loads(out)["rows"] == len(rows) == 14


def test_a_missing_file_is_a_row_a_missing_folder_an_error(run: Any, folder: Path, tmp_path: Path) -> None:
    status, _, _ = run("score", tiny_model.bundle(), tmp_path / "gone.png", folder, "--out", tmp_path / "s.csv")
    rows = list(csv.DictReader((tmp_path / "s.csv").open(newline="")))
    assert status == 1
    assert "cannot be opened" in rows[0]["error"]
    status, _, err = run("score", tiny_model.bundle(), tmp_path / "gone", "--out", tmp_path / "t.csv")
    assert status == 2
    assert "does not exist" in err
    assert not (tmp_path / "t.csv").exists()


def test_without_a_file_to_write_decisions_are_printed(run: Any, folder: Path, tmp_path: Path) -> None:
    run("score", tiny_model.bundle(), folder, "--out", tmp_path / "s.csv", "--device", "cpu")
    written = list(csv.DictReader((tmp_path / "s.csv").open(newline="")))
    before = sorted(tmp_path.iterdir())
    status, out, _ = run("score", tiny_model.bundle(), folder, "--device", "cpu")
    assert status == 1, "one could not be read"
    first = next(row for row in written if row["error"])
    assert f"not read: {first['image']}: {first['error']}" in out
    lines = [line.split() for line in out.splitlines()[1:]]
    good = [row for row in written if not row["error"]]
    for line, row in zip(lines, good, strict=False):
        assert line[:3] == [row["decision"], row["likely"], f"{float(row['probability']):.2f}"]
        assert line[-1] == row["image"]
    status, out, _ = run("score", tiny_model.bundle(), folder, "--device", "cpu", "--json")
    found = json.loads(out)
    assert [row["image"] for row in found["results"]] == [row["image"] for row in written]
    assert (found["out"], found["rows"]) == (None, len(written))
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_and_images_in_the_wrong_order_are_told(run: Any, folder: Path) -> None:
    status, _, err = run("score", folder, tiny_model.bundle())
    assert (status, err.count("\n")) == (2, 1)
    assert "the model first" in err


def test_score_says_no_in_one_line(run: Any, folder: Path, tmp_path: Path) -> None:
    status, _, err = run("score", tiny_model.bundle(), folder, "--out", tmp_path / "s.txt")
    assert (status, err.count("\n")) == (2, 1)
    assert ".csv or .parquet" in err
    status, _, err = run("score", folder, folder, "--out", tmp_path / "s.csv")
    assert (status, err.count("\n")) == (2, 1)
    assert "is not a wildspec bundle" in err


def test_an_interrupted_score_leaves_the_old_table(
    monkeypatch: pytest.MonkeyPatch, run: Any, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.csv").write_text("old")

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        yield []
        raise KeyboardInterrupt

    monkeypatch.setattr("wildspec.serving.bulk.score_sources", interrupted)
    status, _, _ = run("score", tiny_model.bundle(), folder, "--out", tmp_path / "s.csv")
    assert status == 130
    assert (tmp_path / "s.csv").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "s.csv"], "no temporary file is left"


def test_memory_is_bounded_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than two blocks are decoded before the first rows come out."""
    from wildspec.data import ArraySource
    from wildspec.serving.bulk import score_sources

    source = ArraySource(tiny_model.pictures({"bar": 60}, 1)[0])
    loaded = []
    real = source.load
    monkeypatch.setattr(source, "load", lambda i: (loaded.append(i), real(i))[1])
    blocks = score_sources(tiny_model.fitted(), [source], block=8, threads=1)
    first = next(blocks)
    assert [row["image"] for row in first] == [str(i) for i in range(8)]
    assert len(loaded) <= 16
    assert sum(len(rows) for rows in blocks) == 52


def test_nothing_is_written_into_the_model(run: Any, folder: Path, tmp_path: Path) -> None:
    """With one file more in it the model could not be read again."""
    model = tmp_path / "model"
    shutil.copytree(tiny_model.bundle(), model)
    for words in (
        ("score", model, folder, "--out", model / "s.csv"), ("report", model, "--out", model / "r.html"),
        ("evaluate", model, "--out", model / "e.json"), ("export", model, "--onnx", model / "m.onnx"),
        ("fit", "--labelled", folder, "--out", model / "next"), ("embed", folder, "--out", model / "e.parquet"),
    ):  # fmt: skip
        status, _, err = run(*words)
        assert (status, err.count("\n")) == (2, 1)
        assert "another --" in err
    assert wildspec.load(model, device="cpu")


@pytest.mark.parametrize("command", ["fit", "train", "embed-fit"])
def test_a_seed_that_no_generator_takes_is_refused_at_once(run: Any, tmp_path: Path, command: str) -> None:
    """A model with such a seed could be written, and not be read again."""
    given = ("a", "b") if command == "embed-fit" else ("--labelled", "a")
    status, _, err = run(command, *given, "--out", tmp_path / "m", "--seed", 2**32)
    assert (status, err.count("\n")) == (2, 1)
    assert "--seed" in err
