"""docs/dependencies.md gives a reason for every package that pyproject.toml asks for, and for no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")


def _names(block: str) -> set[str]:
    return {name.lower() for name in re.findall(r'"([A-Za-z0-9][A-Za-z0-9._-]*)', block)}


def test_core_dependencies_are_explained() -> None:
    block = PROJECT.partition("\ndependencies = [")[2].partition("\n]")[0]
    rows = PAGE.partition("## Core")[2].partition("## Extras")[0]
    explained = {name.lower() for name in re.findall(r"^\| ([A-Za-z0-9._-]+) >=", rows, re.MULTILINE)}
    assert explained == _names(block)
    bounds = dict(re.findall(r'"([A-Za-z0-9._-]+)>=([0-9.]+)"', block))
    for name, bound in bounds.items():
        assert f"| {name} >= {bound} |" in rows, f"{name}: the page must give the same lower bound"


def test_extras_are_explained() -> None:
    block = PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[project.scripts]")[0]
    extras = {name: _names(packages) for name, packages in re.findall(r"^([a-z]+) = \[(.*?)\]$", block, re.M | re.S)}
    for name, packages in extras.items():  # an extra that takes in others: "wildspec[serve,onnx]"
        if "wildspec" in packages:
            inner = re.search(rf"^{name} = \[.*?wildspec\[([a-z,]+)\]", block, re.M | re.S)
            assert inner is not None
            extras[name] = packages - {"wildspec"} | {f"`[{other}]`" for other in inner[1].split(",")}
    rows = dict(re.findall(r"^\| `\[([a-z]+)\]` \| ([^|]*) \|", PAGE, re.MULTILINE))
    assert set(rows) == set(extras)
    for extra, packages in extras.items():
        assert {name.strip().lower() for name in rows[extra].split(",")} == packages, extra
