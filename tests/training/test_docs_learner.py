"""The page on training: its example runs, and its numbers are those of the committed measurements."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "learner.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "docs/learner.md", "exec"), {})
    views, loss = capsys.readouterr().out.split()
    assert int(views) == 2 * 4 * (64 * 4) + 2 * 4 * 64
    assert float(loss) > 0


def test_the_numbers_are_the_measured_ones() -> None:
    speed = json.loads((ROOT / "benchmarks" / "results" / "pretrain.json").read_text())
    loss = json.loads((ROOT / "benchmarks" / "results" / "loss.json").read_text())
    (usual,) = speed["variants"]
    published = speed["published_views_per_s"]
    page = " ".join((PAGE + (ROOT / "docs" / "dev" / "speed.md").read_text(encoding="utf-8")).split())
    for text in (
        f"{usual['views_per_s']:,} augmented",
        f"{usual['views_per_s'] / published['loader_workers_15']:.0f} to "
        f"{usual['views_per_s'] / published['loader_workers_4']:.0f} times faster",
        f"Peak memory {usual['peak_gib']:.1f} GiB",
        f"reach {100 * speed['share_of_floor']:.0f} %",
        f"{speed['floor']['tflops']} TFLOP/s", f"{speed['floor']['tb_per_s']} TB/s",
        f"{100 * speed['time_by_kernel']['convolutions and products']:.0f} % in convolutions",
        f"{loss['time_ratio']:.0f} times less time and {loss['memory_ratio']:.0f} times less memory",
    ):
        assert text in page, text
