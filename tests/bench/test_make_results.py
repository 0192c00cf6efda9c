"""The documentation's generated parts are what the script generates from the committed records."""

from pathlib import Path
from types import ModuleType

import pytest
from tests.bench.making import ran, record

from wildspec.bench import front_page, protocol_page
from wildspec.bench.embedding_methods import METHODS
from wildspec.bench.protocols import rows
from wildspec.bench.records import write_record
from wildspec.bench.render import SPACE
from wildspec.files import write_json
from wildspec.training.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]


def test_committed_pages_are_up_to_date(script: ModuleType) -> None:
    stale = [str(path.relative_to(ROOT)) for path in script.out_of_date()]
    assert stale == [], "run: python docs/make_results.py"


def test_without_records(script: ModuleType, site: Path) -> None:
    files = script.wanted_files(site)
    assert files[site / "README.md"] == (
        "# x\n<!-- results:begin -->\nNo result has been committed yet.\n<!-- results:end -->\nafter\n"
    )


def test_with_records(script: ModuleType, site: Path) -> None:
    folder = site / "docs" / "results" / "records"
    write_record(folder / "a.json", record(seed=0, id_acc=0.94))
    write_record(folder / "b.json", record(seed=1, id_acc=0.95, semantic="textures10"))
    files = script.wanted_files(site)
    readme = files[site / "README.md"].replace(SPACE, " ")
    assert "**94.00**<br>93.10, +0.90" in readme
    assert "textures10" not in readme, "the front page shows the main table only"
    assert readme.startswith("# x\n")
    assert readme.endswith("after\n")
    page = files[site / "docs" / "results" / "cifar10.md"]
    assert "textures10 stands in for textures" in page
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


def test_front_page_shows_one_recipe_per_method_named_as_on_the_page() -> None:
    long = Recipe("fast", changes={"pretrain.epochs": 200, "pretrain.lr": 0.3, "rounds": 2})
    made = [record(seed=0), record(seed=0, recipe="long"), record(seed=1, recipe="long")]
    made += [ran(long, detector="wild_knn"), ran(long, detector="wild_knn", mirror=True), ran(long, semantic="miniplaces")]
    made += [record(method="scone", detector="energy"), record(method="mixup", detector="energy")]
    text = front_page.images([*made, record(protocol="impact", recipe="x" * 40)])
    lines = [line for line in text.splitlines() if line.startswith(("| s", "| **s"))]
    assert [line.split(" | ")[:3] for line in lines] == [
        ["| **spectral+**", "wild_knn", "fast-A"], ["| **spectral+**", "wild_knn", "fast-A, mirrored"],
        ["| scone", "energy", "fast"], ["| spectral", "knn", "long"],
    ]  # fmt: skip
    assert long.label not in text
    assert "| mixup |" not in text
    page = protocol_page.page("cifar10", made)
    assert all(line in page for line in ("| fast-A | `--preset fast --set pretrain.epochs=200 ", "| fast-A, mirrored |"))
    assert front_page.images([record(semantic="textures10")]) == ""


def test_front_page_names_methods_that_exist() -> None:
    assert set(front_page.EMBEDDINGS) <= set(METHODS)
    assert {row.row for row in rows()} | {"spectral+"} >= set(front_page.IMAGES)


def test_missing_markers_are_an_error(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="markers"):
        script.between("no markers here", "results", "x")
