"""The picture of the joint decision says what the committed scores say."""

import json

import numpy as np
from tests.scripts import ROOT, load_script

DOCS = ROOT / "docs"


def test_words_and_lines_are_those_of_the_scores() -> None:
    script = load_script("tools/make_joint_figure.py")
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
