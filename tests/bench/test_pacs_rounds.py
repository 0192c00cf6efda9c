"""Attribution in rounds on embeddings: measured with the product's own decision, counted by truth, shown as a table."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.scripts import ROOT, load_script

from wildspec.bench.pacs_embeddings import DOMAINS, Task
from wildspec.bench.rounds_page import changes, in_words, section, summary_table
from wildspec.evaluation import decide_jointly

SCRIPT = "benchmarks/pacs_rounds.py"
script = load_script(SCRIPT)


def leaning_task() -> Task:
    """Two classes; shifted samples lean away from them by up to 60 degrees, ever fewer the farther; an unknown group."""
    rng = np.random.default_rng(0)
    axes = np.eye(6)

    def lean(start: int, end: int, degrees: np.ndarray) -> np.ndarray:
        turned = np.radians(degrees)[:, None]
        rows = np.cos(turned) * axes[start] + np.sin(turned) * axes[end] + 0.02 * rng.normal(size=(len(degrees), 6))
        return rows.astype(np.float32)

    def classes(degrees: np.ndarray) -> np.ndarray:
        return np.concatenate([lean(0, 1, degrees), lean(2, 3, degrees)])

    still, leaning = np.zeros(80), 60 * np.linspace(0, 1, 60) ** 2
    parts = [classes(np.zeros(20)), classes(leaning), lean(4, 5, np.zeros(50))]
    counts = (len(parts[0]), len(parts[1]), len(parts[2]))
    return Task(
        labelled=classes(still), labels=np.repeat([0, 1], 80), wild=np.concatenate(parts), counts=counts,
        id_test=classes(still), id_labels=np.repeat([0, 1], 80), covariate=classes(leaning),
        covariate_labels=np.repeat([0, 1], 60), semantic=lean(4, 5, np.zeros(60)), seed=3,
    )  # fmt: skip


def test_later_rounds_reach_further_and_the_default_is_the_products() -> None:
    task = leaning_task()
    one, default = (script.measure(task, *script.VARIANTS[name]) for name in ("one", "default"))
    assert one["rounds"] == 1
    assert default["rounds"] > 1
    assert one["attributed"]["covariate"] < default["attributed"]["covariate"] == 1.0
    assert one["attributed"]["semantic"] == default["attributed"]["semantic"] == 0.0
    held = script.held_out_rows(task.labels, script.HELD_OUT, np.random.default_rng(task.seed))
    kept = np.setdiff1d(np.arange(len(task.labels)), held)
    plain = decide_jointly(task.labelled[kept], task.labels[kept], task.wild, task.labelled[held])
    rejected = [plain.reject(torch.from_numpy(rows)).float().mean().item() for rows in task.tests]
    assert default["id_kept"] == pytest.approx(1 - rejected[0])
    assert default["covariate_kept"] == pytest.approx(1 - rejected[1])
    assert default["detection_rate"] == pytest.approx(rejected[2])
    known = torch.cat([plain.score(torch.from_numpy(rows)) for rows in task.tests[:2]])
    unknown = plain.score(torch.from_numpy(task.semantic))
    assert default["fs_auroc"] == pytest.approx((known[:, None] < unknown).float().mean().item())


def test_without_the_condition_a_pool_of_one_group_goes_on() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 3)).astype(np.float32)
    task = Task(
        labelled=rows[:100], labels=np.arange(100) % 2, wild=rows[100:200], counts=(40, 40, 20), id_test=rows[200:300],
        id_labels=np.arange(100) % 2, covariate=rows[300:350], covariate_labels=np.arange(50) % 2, semantic=rows[350:],
        seed=0,
    )  # fmt: skip
    found = {name: script.measure(task, *how)["rounds"] for name, how in script.VARIANTS.items()}
    assert found["one"] == found["default"] == 1
    assert found["unconditional"] > 1


def record(variant: str, seed: int, value: float, claimed: float, target: str = "sketch") -> dict:
    return {
        "mixture": "all", "source": "photo", "target": target, "seed": seed, "variant": variant, "rounds": 1 + seed,
        "attributed": {"id": 1.0, "covariate": claimed, "semantic": 0.0}, "fs_auroc": value, "id_kept": 0.95,
        "covariate_kept": value / 2, "detection_rate": 0.9,
    }  # fmt: skip


def test_the_page_shows_means_spread_and_only_pairs_that_changed() -> None:
    records = [record(variant, seed, 0.5 + 0.1 * seed, 0.25) for variant in ("one", "default") for seed in (0, 1)]
    records += [record("one", s, 0.5, 0.25, "cartoon") for s in (0, 1)]
    records += [record("default", s, 0.7, 0.25 + 0.5 * s, "cartoon") for s in (0, 1)]
    lines = summary_table(records).splitlines()
    assert len(lines) == 4, "no line for what was not measured"
    # seeds 0 and 1: means over both pairs 60 and 65, so 62.5 and a deviation of 5 / sqrt(2)
    metrics, counts = "62.5 ± 3.5 | 95.0 ± 0.0 | 31.2 ± 1.8 | 90.0 ± 0.0", "37.5 | 0.0 | 1.5"
    assert lines[3] == f"| all wild samples | as it comes | {metrics} | {counts} |"
    assert in_words(records).startswith(
        "Rounds after the first, in points: fs-AUROC +10.0, shifted kept +5.0, unknown rejected +0.0 (all wild samples). "
    )
    told = changes(records)
    assert "in so many of the 12 pairs: 1 (all wild samples)." in told
    assert told.splitlines()[-1] == "| all wild samples | photo → cartoon | 50.0 | 70.0 | 25.0 | 35.0 | 90.0 | 90.0 |"
    text = section({"records": records, "environment": {"command": "python benchmarks/pacs_rounds.py"}})
    assert "2 seeds" in text
    assert "```\npython benchmarks/pacs_rounds.py\n```" in text


def test_the_command_names_no_place_on_a_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels, domains = np.tile(np.repeat(np.arange(7), 48), 4), np.repeat(np.arange(4), 336)
    features = rng.normal(size=(7, 8))[labels] + rng.normal(size=(4, 8))[domains] + 0.3 * rng.normal(size=(1344, 8))
    np.savez(tmp_path / "e.npz", features=features.astype(np.float16), labels=labels, domain=np.array(DOMAINS)[domains])
    command = [sys.executable, SCRIPT, "--data", str(tmp_path / "e.npz"), "--out", str(tmp_path / "o.json"), "--seeds", "1"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    document = json.loads((tmp_path / "o.json").read_text())
    assert len(document["records"]) == 2 * 12 * 3
    assert "--data e.npz" in document["environment"]["command"]
