"""A clock that jumps by days, forwards and back, at every look (a machine whose time is set while it works).

    python benchmarks/faults/clock.py

The wall clock of the process is replaced before anything is loaded; the monotonic one is left alone, as systems leave it.
A fit with a time budget, a score, and a service with limits of seconds.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import command, encoded, pictures, record, serving, small_model, write_folder
from surroundings import write_sets

JUMPS = """
import random, time
_clock, _random = time.time, random.Random(0)
time.time = lambda: _clock() + _random.uniform(-1e7, 1e7)
time.time_ns = lambda: int(time.time() * 1e9)
"""


def main() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "site").mkdir()
        (root / "site" / "sitecustomize.py").write_text(JUMPS, encoding="utf-8")
        write_sets(root)
        model = small_model(root / "small")
        write_folder(root / "images", 200)
        image = encoded(pictures(1)[0][0])
        path = os.pathsep.join([str(root / "site"), os.environ.get("PYTHONPATH", "")])
        variables = {**os.environ, "PYTHONPATH": path}
        learn = ["--method", "erm", "--minutes", "0.5", "--backbone", "small", "--size", "16", "--device", "cpu"]
        sets = ["--labelled", root / "labelled", "--wild", root / "wild"]
        fit = command("fit", *sets, "--out", root / "m", *learn, env=variables)
        score = command("score", model, root / "images", "--out", root / "s.csv", "--device", "cpu", env=variables)
        before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", ""), path
        try:
            with serving(model) as service:
                answers = Counter(str(service.ask(image)[0]) for _ in range(50))
                ended = service.end()
        finally:
            os.environ["PYTHONPATH"] = before
        rows = len((root / "s.csv").read_text().splitlines()) - 1
        found = {
            "fit": fit.returncode, "score": score.returncode, "rows": rows, "service": dict(answers),
            "ended_after_s": round(ended, 2),
        }  # fmt: skip
    return found


if __name__ == "__main__":
    record("clock", main())
