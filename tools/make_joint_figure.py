"""Draws docs/img/joint-decision.png: who is kept and who rejected, by the paper's detector and by the joint decision.

    wildspec demo --seeds 1 && python tools/make_joint_figure.py --runs runs/demo     measure again, then draw
    python tools/make_joint_figure.py                                                 draw from the scores that are committed
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.bench.figures import COLOURS, save
from wildspec.files import read_json, write_json

DOCS = Path(__file__).resolve().parent.parent / "docs"
SCORES = DOCS / "results" / "joint-scores.json"
PICTURE = DOCS / "img" / "joint-decision.png"
KINDS = {"id": "known, clean", "covariate": "known, noisy", "semantic": "unknown"}
PANELS = {
    "plain": "The paper's decision: spectral, distance to labelled images",
    "joint": "The joint decision: spectral+, distance to labelled images and wild ones of known classes",
}


def measure(runs: Path) -> dict[str, Any]:
    """Scores of the test images and thresholds, from the models of the demo's first seed."""
    from wildspec import load
    from wildspec.bench.demo import DigitsNetwork, decide, observe
    from wildspec.data.digits_task import digits_task
    from wildspec.evaluation import JointCalibration
    from wildspec.provenance import environment

    task = digits_task(0)
    found: dict[str, Any] = {"environment": environment(), "seed": 0}
    for panel, method, detector in (("plain", "spectral", "knn"), ("joint", "spectral+", "wild_knn")):
        model = load(runs / f"{method}-seed0", device="cpu").model_
        seen = observe(model, task)
        decision = decide(DigitsNetwork(model, None, 0, 0, 0.0, (), seen), task, detector)  # type: ignore[arg-type]
        calibration = decision.calibration
        shifted = calibration.shifted if isinstance(calibration, JointCalibration) else None
        limit = calibration.id_threshold if isinstance(calibration, JointCalibration) else calibration.threshold
        values = {kind: seen[f"{kind}_test"].score(decision.detector).double().numpy().round(5).tolist() for kind in KINDS}
        found[panel] = {"id_threshold": limit, "shift_threshold": shifted, "scores": values}
    return found


def draw(found: dict[str, Any]) -> Any:
    """Two panels, one under the other: share of each kind by score, thresholds as lines, what they keep in words."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 6.2), layout="constrained")
    for axes, (panel, title) in zip(figure.subplots(2, 1, sharex=True), PANELS.items(), strict=True):
        mine = found[panel]
        scores = {kind: np.array(values) for kind, values in mine["scores"].items()}
        edges = np.linspace(0, max(values.max() for part in ("plain", "joint")
                                   for values in map(np.array, found[part]["scores"].values())) * 1.01, 56)  # fmt: skip
        for kind, values in scores.items():
            weights = np.full(len(values), 100 / len(values))
            axes.hist(values, edges, weights=weights, color=COLOURS[kind], alpha=0.55, label=KINDS[kind])
        lines = [(mine["id_threshold"], "t_id", "--")]
        if mine["shift_threshold"] is not None:
            lines.append((mine["shift_threshold"], "t_shift", "-"))
        for at, name, style in lines:
            axes.axvline(at, color="black", linestyle=style, linewidth=1.2)
            axes.annotate(name, (at, 0.97), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points",
                          va="top", fontsize=9)  # fmt: skip
        threshold = max(at for at, _, _ in lines)
        kept = {kind: 100 * np.mean(values <= threshold) for kind, values in scores.items()}
        axes.set_title(title, loc="left", fontsize=11)
        axes.text(0.995, 0.62, f"kept: {kept['id']:.0f} % clean, {kept['covariate']:.0f} % noisy\n"
                  f"rejected: {100 - kept['semantic']:.0f} % unknown", transform=axes.transAxes, ha="right", va="top",
                  fontsize=10)  # fmt: skip
        axes.set_ylabel("share of each kind, %")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="upper right", ncols=3)
    figure.axes[1].set_xlabel("score (distance); right of the last line: rejected")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder of wildspec demo: measure again")
    given = parser.parse_args()
    if given.runs is not None:
        write_json(SCORES, measure(given.runs))
    save(draw(read_json(SCORES)), PICTURE)


if __name__ == "__main__":
    main()
