"""The import graph of src/wildspec: a room imports only from rooms before it, and no two modules import each other.

An edge is an import at the top of a file, in a function or under TYPE_CHECKING, or a string that is the dotted name of a
module (given to import_module, or in a table of lazy names). An edge against the room order is "upward"; a cycle across
rooms holds one, so cycles are looked for inside a room.

There are no exceptions.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "wildspec"
ORDER = (
    "_version", "errors", "checks", "files", "provenance", "plugins", "blas", "tensors",
    "graph", "theory", "losses", "models", "data", "decision", "detectors", "methods", "training", "evaluation",
    "bundle", "embeddings", "images", "loading", "bench", "report", "serving", "cli", "__init__", "__main__",
)  # fmt: skip

Edge = tuple[str, str]


def modules(source: Path) -> dict[str, Path]:
    """Dotted name -> file; a package has the name of its folder."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def targets(tree: ast.AST, name: str, is_package: bool, known: set[str]) -> Iterator[str]:
    """Modules that a file imports or names."""
    package = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                base = f"{above}.{base}" if base else above
            for alias in node.names:  # a module of the package, or a name in it
                inner = f"{base}.{alias.name}"
                if inner in known or base in known:
                    yield inner if inner in known else base
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value.partition(":")[0]
            if re.fullmatch(r"\w+(\.\w+)+", named) and named in known and named != package:  # its own package: resources
                yield named


def import_graph(source: Path) -> set[Edge]:
    found = modules(source)
    return {
        (name, target)
        for name, path in found.items()
        for target in targets(ast.parse(path.read_text(encoding="utf-8")), name, path.name == "__init__.py", set(found))
        if target != name
    }


def room(name: str) -> str:
    parts = name.split(".")
    return "__init__" if len(parts) == 1 else parts[1]


def upward(edges: set[Edge]) -> set[str]:
    return {f"{a} -> {b}" for a, b in edges if ORDER.index(room(b)) > ORDER.index(room(a))}


def cycles(edges: set[Edge]) -> set[frozenset[str]]:
    """Groups of modules of one room in which each reaches each."""
    inside: dict[str, set[str]] = {}
    for a, b in edges:
        if room(a) == room(b):
            inside.setdefault(a, set()).add(b)
    reach = {name: _reached(name, inside) for name in inside}
    groups = {frozenset(b for b in reached if a in reach.get(b, set())) for a, reached in reach.items() if a in reached}
    return {group for group in groups if group}


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    open_ = list(edges.get(start, ()))
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_.extend(edges.get(name, ()))
    return found


@pytest.fixture(scope="module")
def graph() -> set[Edge]:
    return import_graph(SOURCE)


def test_every_room_has_its_place(graph: set[Edge]) -> None:
    assert {room(name) for name in modules(SOURCE)} <= set(ORDER), "a new room needs a place in ORDER"
    assert len(graph) > 300, "the drawing lost most of the graph"


def test_rooms_import_only_from_rooms_before_them(graph: set[Edge]) -> None:
    assert not upward(graph), "imports against the room order"


def test_no_cycle_between_modules(graph: set[Edge]) -> None:
    assert not cycles(graph), "modules that import each other"


def test_every_kind_of_edge_is_drawn(tmp_path: Path) -> None:
    texts = {
        "__init__": '_PUBLIC = {"A": "wildspec.graph.a"}\n',
        "errors": "",
        "graph/__init__": "from wildspec.graph.a import A\n",
        "graph/a": "def f():\n    from wildspec.data import loading\n",
        "graph/b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import wildspec.cli.main\n",
        "graph/c": 'import_module("wildspec.bundle.store")\nfiles("wildspec.graph")\n',
        "graph/d": "from . import e\nfrom ..errors import WildspecError\n",
        "graph/e": "from .d import x\n",
        "data/__init__": "from wildspec.graph import A\n",
        "data/loading": '"""Unlike wildspec.cli.main."""\nname = "see wildspec.cli.main"\n',
        "bundle/__init__": "",
        "bundle/store": "",
        "cli/__init__": "",
        "cli/main": "import wildspec.errors\n",
    }
    for name, text in texts.items():
        path = tmp_path / "wildspec" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = import_graph(tmp_path / "wildspec")
    assert upward(found) == {
        "wildspec.graph.a -> wildspec.data.loading",
        "wildspec.graph.b -> wildspec.cli.main",
        "wildspec.graph.c -> wildspec.bundle.store",
    }
    assert cycles(found) == {frozenset({"wildspec.graph.d", "wildspec.graph.e"})}
    assert {("wildspec", "wildspec.graph.a"), ("wildspec.cli.main", "wildspec.errors")} <= found
    assert ("wildspec.graph.d", "wildspec.errors") in found
    assert ("wildspec.data", "wildspec.graph") in found


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for name, path in modules(SOURCE).items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(name)
    assert not {name: places for name, places in found.items() if len(places) > 1}
