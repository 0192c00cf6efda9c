"""Faults of benchmarks/faults that take seconds: files that vanish, a service that is stopped, a clock that jumps."""

import io
import random
import time
from pathlib import Path

import pytest
from PIL import Image
from service import running

import tiny_model
from scripts import load_script
from wildspec.serving.app import Limits
from wildspec.serving.engine import BundleEngine


def test_files_that_vanish_while_they_are_scored_keep_their_rows() -> None:
    found = load_script("benchmarks/faults/vanished.py").main(tiny_model.bundle(), 700)
    assert (found["rows"], found["in_order"]) == (700, True)
    assert 0 < found["unreadable"] <= 234
    # others where a file was caught in the middle of its change
    assert len(found["reasons"]) >= 3, "gone, damaged, and no plain file"


def test_a_service_that_was_stopped_goes_on() -> None:
    found = load_script("benchmarks/faults/stopped.py").main(tiny_model.bundle(), 1.0)
    assert (found["before"], found["answered_while_stopped"]) == (200, 0)
    assert found["asked_while_stopped"] == {"200": 16}
    assert found["after"] == {"200": 20}


def test_a_clock_that_jumps_by_months_changes_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time are kept by the clock that only goes forward."""
    clock, rng = time.time, random.Random(0)
    monkeypatch.setattr(time, "time", lambda: clock() + rng.uniform(-1e7, 1e7))
    stream = io.BytesIO()
    Image.fromarray(tiny_model.pictures({"disc": 1}, 3)[0][0]).resize((700, 700)).save(stream, "PNG")
    with running(BundleEngine(tiny_model.fitted(), "shapes"), Limits(seconds=20)) as client:
        assert [client.predict(stream.getvalue())[0] for _ in range(10)] == [200] * 10


def test_every_fault_has_its_record() -> None:
    import json

    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    scripts = {path.stem for path in (folder / "faults").glob("*.py")} - {"fault_tools"}
    for name in sorted(scripts):
        assert json.loads((folder / "results" / "faults" / f"{name}.json").read_text())["fault"] == name
