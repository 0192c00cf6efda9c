"""The table of the how-to page is made of the committed measurement, and the measurement is what the page promises."""

import json
import runpy
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RECORD, PAGE = ROOT / "benchmarks/results/serving.json", ROOT / "docs/howto-deploying.md"


def test_the_page_shows_the_committed_record(tmp_path: Path) -> None:
    copy = shutil.copy(PAGE, tmp_path / "page.md")
    program = runpy.run_path(str(ROOT / "benchmarks/serving_page.py"))
    program["fill_page"](copy, json.loads(RECORD.read_text()), RECORD.relative_to(ROOT).as_posix())
    assert copy.read_text() == PAGE.read_text(), "run benchmarks/serving.py --page docs/howto-deploying.md"


def test_the_record_is_of_64_clients_all_of_whom_were_answered_and_of_the_storm() -> None:
    results = json.loads(RECORD.read_text())["results"]
    for result in results:
        assert result["clients"] == 64
        assert all(set(server["statuses"]) == {"200"} for server in result["servers"].values())
        assert result["speedup"] >= 3, "micro-batching against the plain server"
    storm = results[0]["storm"]
    assert storm["opened_at_once"] + storm["refused"] == 10_000
    assert set(storm["afterwards"]["statuses"]) == {"200"}
