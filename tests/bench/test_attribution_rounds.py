"""The rounds of attribution, counted from the samples of a run: a world whose far end only later rounds reach."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tests.scripts import ROOT, load_script

SCRIPT = "benchmarks/attribution_rounds.py"


def samples() -> dict[str, torch.Tensor]:
    """Two classes; covariate samples lean away from them by up to 60 degrees, ever fewer the farther; an unknown group."""
    rng = np.random.default_rng(0)
    axes = np.eye(6)

    def lean(start: int, end: int, degrees: np.ndarray) -> np.ndarray:
        turned = np.radians(degrees)[:, None]
        return np.cos(turned) * axes[start] + np.sin(turned) * axes[end] + 0.02 * rng.normal(size=(len(degrees), 6))

    still, leaning = np.zeros(60), 60 * np.linspace(0, 1, 60) ** 2
    labels = torch.arange(2).repeat_interleave(60)
    order = torch.from_numpy(rng.permutation(120))  # a quarter of the ID samples is set aside: of both classes
    rows = {
        "id": np.concatenate([lean(0, 1, still), lean(2, 3, still)]),
        "covariate": np.concatenate([lean(0, 1, leaning), lean(2, 3, leaning)]),
        "semantic": lean(4, 5, np.zeros(200)),
    }
    features = {kind: torch.from_numpy(value).float() for kind, value in rows.items()}
    return {
        "id.features": features["id"][order], "id.labels": labels[order], "covariate.features": features["covariate"],
        "covariate.labels": labels, "semantic.features": features["semantic"],
    }  # fmt: skip


def test_counts() -> None:
    rows = load_script(SCRIPT).count(samples())
    assert [row["rounds"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 2
    assert rows[0]["covariate"] < 0.95
    assert rows[-1]["covariate"] == rows[-1]["covariate_right"] == rows[-1]["id"] == 1.0
    assert {row["semantic"] for row in rows} == {0.0}


def test_the_command_writes_what_it_counted_and_no_paths(tmp_path: Path) -> None:
    save_file({key: value.contiguous() for key, value in samples().items()}, tmp_path / "one.safetensors")
    out = tmp_path / "rounds.json"
    words = [sys.executable, str(ROOT / SCRIPT), "--samples", f"seed 0={tmp_path / 'one.safetensors'}", "--out", str(out)]
    subprocess.run(words, check=True, capture_output=True)
    found = json.loads(out.read_text())
    assert found["runs"]["seed 0"][-1]["covariate"] == 1.0
    assert "one.safetensors" not in found["environment"]["command"]
