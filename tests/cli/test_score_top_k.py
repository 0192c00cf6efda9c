"""score --top-k: the head of the whole table, sorted by score, without the table in memory."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import command
import tiny_model
from wildspec.serving.rows import top_rows


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    return command.runner(monkeypatch, capsys)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_first_are_the_head_of_all_sorted_by_score(run: Any, tmp_path: Path) -> None:
    images, _ = tiny_model.pictures({"bar": 5, "stripes": 5, "ring": 5}, 9)
    folder, model = tmp_path / "in", tmp_path / "m"
    folder.mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{i:02d}.png")
    shutil.copy(folder / "07.png", folder / "99.png")  # two of one score: the earlier stands first
    (folder / "broken.png").write_bytes(b"x")
    tiny_model.fitted().save(model)
    status, said, _ = run("score", model, folder, "--out", tmp_path / "all.csv")
    assert (status, "17 rows" in said) == (1, True)
    readable = [row for row in _rows(tmp_path / "all.csv") if not row["error"]]
    order = np.argsort([-float(row["ood_score"]) for row in readable], kind="stable")
    for count in (1, 6, 100):
        status, said, _ = run("score", model, folder, "--top-k", count, "--out", tmp_path / "first.csv")
        assert status == 1, "one could not be read"
        assert _rows(tmp_path / "first.csv") == [readable[i] for i in order[:count]]
        assert f"the {min(count, 16)} most unlike the labelled ones of 17 rows (" in said
        assert ", 1 unreadable)" in said
    status, said, _ = run("score", model, folder, "--top-k", 2, "--out", tmp_path / "first.parquet", "--json")
    assert {name: json.loads(said)[name] for name in ("rows", "written", "unreadable")} == {
        "rows": 17, "written": 2, "unreadable": 1
    }  # fmt: skip


def test_of_equal_scores_the_earlier_stands_first(rng: np.random.Generator) -> None:
    scores = rng.integers(0, 9, 500).astype(float)
    rows = [{"ood_score": score, "error": "broken" if i % 7 == 0 else None, "i": i} for i, score in enumerate(scores)]
    good = np.array([i for i in range(500) if i % 7])
    expected = good[np.argsort(-scores[good], kind="stable")[:20]]
    assert [row["i"] for row in top_rows(rows, 20)] == expected.tolist()
