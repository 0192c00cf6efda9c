"""The how-to's ten lines run as printed."""

import re
from pathlib import Path

import numpy as np
from shifted_world import make_world

import wildspec

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto-embeddings.md"


def test_the_ten_lines_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S).group(1)
    world = make_world(2)
    exec(code, {"X": world.labelled, "y": world.labels, "X_wild": world.wild, "X_new": world.shifted})
    assert "threshold" in capsys.readouterr().out
    assert np.isfinite(wildspec.load(tmp_path / "MODEL").ood_score(world.shifted)).all()
