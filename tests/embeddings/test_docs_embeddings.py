"""The how-to's Python runs as printed, and what it says of thresholds and tables is so."""

import re
from pathlib import Path

import numpy as np
import pytest

import wildspec
from shifted_world import make_world
from wildspec.data.embeddings import EmbeddingTable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto-embeddings.md"


def test_the_ten_lines_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S).group(1)
    world = make_world(2)
    exec(code, {"X": world.labelled, "y": world.labels, "X_wild": world.wild, "X_new": world.shifted})
    assert "threshold" in capsys.readouterr().out
    assert np.isfinite(wildspec.load(tmp_path / "MODEL").ood_score(world.shifted)).all()


def _block(first_line: str) -> str:
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return next(code for code in found if code.startswith(first_line))


def test_names_are_scored_by_any_metric_with_wild_samples_among_them():
    world = make_world(2)
    names = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])[world.labels]
    given = {"SpectralClassifier": wildspec.SpectralClassifier, "X": world.labelled, "y": names, "X_wild": world.wild}
    exec(_block("import numpy"), given)
    assert given["found"].shape == (3,)
    assert given["found"].mean() > 0.8, given["found"]
    exec(_block("from sklearn.model_selection import GridSearchCV"), {**given, "X_new": world.shifted}, given)
    assert given["search"].best_score_ > 0.8


@pytest.mark.parametrize("shifted", [True, False])
def test_a_p_value_of_a_hundredth_is_what_one_per_cent_rejects(shifted):
    world = make_world(2, per_class=200)
    wild = world.wild if shifted else np.random.default_rng(0).normal(size=(60, 24)).astype(np.float32) - 20
    usual = wildspec.SpectralClassifier(random_state=0).fit(world.labelled, world.labels, wild)
    strict = wildspec.SpectralClassifier(random_state=0, alpha=0.01).fit(world.labelled, world.labels, wild)
    asked = np.concatenate([world.labelled, world.wild, wild])
    above = strict.ood_score(asked) > strict.threshold_
    assert np.array_equal(usual.p_value(asked) <= 0.01, above)
    assert 0 < np.mean(above) < 1


def test_a_csv_is_a_table(tmp_path, rng):
    rows = rng.normal(size=(7, 5)).astype(np.float32)
    lines = [",".join(map(repr, row.tolist())) + f",c{i % 2}" for i, row in enumerate(rows)]
    (tmp_path / "labelled.csv").write_text("\n".join([",".join(f"e{i}" for i in range(5)) + ",label", *lines]))
    table = EmbeddingTable(tmp_path / "labelled.csv")
    assert np.allclose(table.read(), rows)
    assert table.labels.tolist() == [f"c{i % 2}" for i in range(7)]
