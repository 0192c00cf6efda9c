"""Other classes of PACS known: the turn itself, the record."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.scripts import load_script, run_script

from wildspec.bench.pacs_embeddings import DOMAINS, Embeddings, make_task

SCRIPT = "benchmarks/pacs_classes.py"
script = load_script(SCRIPT)
NAMES = np.array(["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"])


def embeddings(per_class: int = 8) -> Embeddings:
    """Each sample is its class and its domain, written out."""
    labels, domains = np.tile(np.repeat(np.arange(7), per_class), 4), np.repeat(np.arange(4), 7 * per_class)
    features = np.stack([labels, domains, np.arange(len(labels))], axis=1).astype(np.float32)
    return Embeddings(features, labels, np.array(DOMAINS)[domains], "")


@pytest.mark.parametrize("by", [0, 1, 5])
def test_a_turn_makes_other_classes_known_and_touches_nothing_else(by: int) -> None:
    data = embeddings()
    before = data.labels.copy()
    task = make_task(script.turned(data, by), "photo", "sketch", seed=0)
    known = set(NAMES[task.labelled[:, 0].astype(int)])
    assert known == set(script.known_classes(by)) == set(NAMES[(np.arange(4) + by) % 7])
    assert set(NAMES[task.semantic[:, 0].astype(int)]) == set(NAMES) - known
    np.testing.assert_array_equal(NAMES[task.labelled[:, 0].astype(int)], np.array(script.known_classes(by))[task.labels])
    np.testing.assert_array_equal(data.labels, before)


def test_the_command_keeps_a_record_for_every_turn_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    data = embeddings()
    rows = rng.normal(size=(7, 8))[data.labels] + 0.3 * rng.normal(size=(len(data.labels), 8))
    np.savez(tmp_path / "e.npz", features=rows.astype(np.float16), labels=data.labels, domain=data.domain)
    words = ["--data", tmp_path / "e.npz", "--out", tmp_path / "o.json", "--turns", "1"]
    for more in (["--methods", "lr"], ["6", "--methods", "lr", "knn-1"]):
        run_script(monkeypatch, SCRIPT, *words, *more)
    document = json.loads((tmp_path / "o.json").read_text())
    assert {turn: len(entry["records"]) for turn, entry in document["runs"].items()} == {"1": 24, "6": 24}
    assert document["runs"]["6"]["known"] == ["person", "dog", "elephant", "giraffe"]
    assert "--data e.npz" in document["environment"]["command"]
