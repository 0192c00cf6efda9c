"""The picture of the joint decision says what the committed scores say."""

import importlib.util
import json
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_words_and_lines_are_those_of_the_scores() -> None:
    spec = importlib.util.spec_from_file_location("make_joint_figure", DOCS / "make_joint_figure.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = json.loads((DOCS / "results" / "joint-scores.json").read_text())
    figure = script.draw(found)
    for axes, panel in zip(figure.axes, ("plain", "joint"), strict=True):
        mine = found[panel]
        limits = [t for t in (mine["id_threshold"], mine["shift_threshold"]) if t is not None]
        assert [line.get_xdata()[0] for line in axes.lines] == limits
        kept = {kind: 100 * np.mean(np.array(values) <= max(limits)) for kind, values in mine["scores"].items()}
        said = " ".join(text.get_text() for text in axes.texts)
        assert f"kept: {kept['id']:.0f} % clean, {kept['covariate']:.0f} % noisy" in said
        assert f"rejected: {100 - kept['semantic']:.0f} % unknown" in said
    assert len(found["joint"]["scores"]["semantic"]) == 654
