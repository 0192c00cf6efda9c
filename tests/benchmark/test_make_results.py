"""The documentation's generated parts are what the script generates from the committed records."""

from pathlib import Path
from types import ModuleType

import pytest
from tests.benchmark.making import record

from wildspec.benchmark import front_page
from wildspec.benchmark.embedding_methods import METHODS
from wildspec.benchmark.protocols import rows
from wildspec.benchmark.records import write_record
from wildspec.files import write_json

ROOT = Path(__file__).resolve().parents[2]


def test_committed_pages_are_up_to_date(script: ModuleType) -> None:
    stale = [str(path.relative_to(ROOT)) for path in script.out_of_date()]
    assert stale == [], "run: python docs/make_results.py"


def test_without_records(script: ModuleType, site: Path) -> None:
    files = script.wanted_files(site)
    assert files[site / "README.md"] == (
        "# x\n<!-- results:begin -->\nNo result has been committed yet.\n<!-- results:end -->\nafter\n"
    )
    assert "- [What was tried](log.md)" in files[site / "docs" / "results" / "index.md"]


def test_with_records(script: ModuleType, site: Path) -> None:
    folder = site / "docs" / "results" / "records"
    write_record(folder / "a.json", record(seed=0, id_acc=0.94))
    write_record(folder / "b.json", record(seed=1, id_acc=0.95, semantic="textures10"))
    files = script.wanted_files(site)
    readme = files[site / "README.md"]
    assert "**94.00** (93.10; +0.90)" in readme
    assert "textures10" not in readme, "the front page shows the main table only"
    assert readme.startswith("# x\n")
    assert readme.endswith("after\n")
    page = files[site / "docs" / "results" / "cifar10.md"]
    assert "textures10 stands in for textures" in page
    assert "[Benchmark: cifar10](cifar10.md)" in files[site / "docs" / "results" / "index.md"]
    assert set(script.out_of_date(site)) == set(files), "nothing is written yet"


def test_front_page_shows_chosen_rows_and_links_to_all(script: ModuleType, site: Path) -> None:
    folder = site / "docs" / "results"
    write_record(folder / "records" / "a.json", record(seed=0, id_acc=0.94))
    write_record(folder / "records" / "b.json", record(seed=0, method="irm", detector="energy"))
    metrics = dict.fromkeys(front_page.COLUMNS.values(), 0.125)
    rows = [{"title": title, "group": "x", "metrics": metrics} for title in (front_page.DIGITS[0], "a variant")]
    write_json(folder / "joint-digits.json", {"rows": rows, "seeds": [0, 1]})
    readme = script.readme_block(site, script.records(site))
    assert "(the demo's task, 2 seeds)" in readme
    assert f"| {front_page.DIGITS[0]} | {' | '.join(['12.5'] * 7)} |" in readme
    assert "a variant" not in readme
    assert "| spectral | knn |" in readme
    assert "| irm |" not in readme
    assert "(docs/results/cifar10.md)" in readme


def test_front_page_shows_the_recipe_with_the_most_seeds() -> None:
    made = [record(seed=0), record(seed=0, id_acc=0.91), record(seed=0, recipe="long"), record(seed=1, recipe="long")]
    made.append(record(method="scone", detector="energy"))
    lines = [line for line in front_page.images(made).splitlines() if line.startswith("| s")]
    assert [line.split(" | ")[:3] for line in lines] == [["| scone", "energy", "fast"], ["| spectral", "knn", "long"]]


def test_front_page_shows_mirrored_rows_instead_of_plain_ones() -> None:
    made = [record(recipe="long, mirrored"), record(recipe="long"), record(method="scone", detector="energy")]
    lines = [line for line in front_page.images(made).splitlines() if line.startswith("| s")]
    assert [line.split("|")[3].strip() for line in lines] == ["fast", "long, mirrored"]


def test_front_page_names_methods_that_exist() -> None:
    assert set(front_page.EMBEDDINGS) <= set(METHODS)
    assert {row.row for row in rows()} | {"spectral+"} >= set(front_page.IMAGES)


def test_missing_markers_are_an_error(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="markers"):
        script.between("no markers here", "results", "x")
