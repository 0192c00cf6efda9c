"""The paper-to-code map names things that exist: modules, functions, test files, pictures."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
SPEED = (ROOT / "docs" / "dev" / "speed.md").read_text(encoding="utf-8")


NAMES = sorted(set(re.findall(r"`([^`]+)`", MAP)))
# where a name without its module is looked up: the line names the module of its first entry
HOMES = [
    "wildspec.graph", "wildspec.theory", "wildspec.theory.theorems", "wildspec.theory.first_order", "wildspec.losses",
    "wildspec.methods", "wildspec.methods.spectral", "wildspec.detectors", "wildspec.evaluation", "wildspec.data",
]  # fmt: skip


def dotted(name: str) -> bool:
    """Is ``name`` a module, or an attribute (of an attribute) of one? cached properties and dataclass fields count."""
    words = name.split(".")
    for cut in range(len(words), 0, -1):
        try:
            place = import_module(".".join(words[:cut]))
        except ModuleNotFoundError:
            continue
        for word in words[cut:]:
            if not hasattr(place, word) and word not in getattr(place, "__annotations__", {}):
                return False
            place = getattr(place, word, None)
        return True
    return False


def command(words: list[str]) -> bool:
    """Does the program have this command with these options, and these methods?"""
    import typer

    from wildspec.cli.main import app
    from wildspec.methods.registry import METHODS

    place = typer.main.get_command(app)
    for position, word in enumerate(words):
        if word.startswith("--"):
            if not any(word in option.opts for option in place.params):
                return False
            if word == "--methods" and not set(words[position + 1].split(",")) <= set(METHODS):
                return False
        elif word in getattr(place, "commands", {}):
            place = place.commands[word]
    return not getattr(place, "commands", {})


def resolves(name: str) -> bool:
    """A table's LaTeX label, a test file or test, a picture, a command, or something of the package."""
    if name.startswith("tab:") or name == "paper":  # a label of the paper; a preset, which is no object
        return True
    if name.startswith(("tests/", "test_", "::")):
        path, _, test = name.partition("::")
        files = [ROOT / path] if path.startswith("tests/") else list((ROOT / "tests").rglob(path or "test_first_order.py"))
        return any(file.exists() and (not test or f"def {test}(" in file.read_text(encoding="utf-8")) for file in files)
    if name.endswith(".png"):
        return (ROOT / "docs" / "img" / name).exists()
    if name.startswith("wildspec "):
        return command(name.split()[1:])
    path = re.sub(r"\([^)]*\)", "", name)
    results = {"spectral_embedding": "SpectralEmbedding", "five_node": "FiveNode"}  # of a call we look at what it returns
    if "(" in name and "." in path:
        head, _, rest = path.partition(".")
        path = f"{results.get(head, head)}.{rest}"
    if path.startswith("."):
        path = f"AugmentationGraph{path}"
    return dotted(path) or any(dotted(f"{home}.{path}") for home in HOMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_the_map_is_there(name):
    assert resolves(name)


@pytest.mark.parametrize(
    "name",
    ["theorem_9_9", "wildspec.graph.nothing", "AugmentationGraph.colour", ".colour", "five_node(1).colour", "tests/nowhere",
     "test_nothing.py", "::test_nothing", "theory-nothing.png", "wildspec dance", "wildspec bench cifar10 --methods magic",
     "wildspec bench cifar10 --colour", "wildspec bench"],
)  # fmt: skip
def test_a_name_that_is_not_there_is_seen(name):
    assert not resolves(name)


def test_every_number_of_the_paper_has_its_row():
    rows = [line.split("|")[1] for line in MAP.splitlines() if line.startswith("| ")]
    numbers = {int(n) for row in rows if "eq." in row for n in re.findall(r"\d+", row.split("eq.")[1])}
    assert numbers == set(range(1, 20))
    for kind, wanted in {
        "Definition": ["2.1", "2.2", "3.1", "3.2"],
        "Theorem": ["3.1", "4.1", "4.2", "B.1", "B.2", "C.1", "C.2"],
        "Figure": list("123456"),
        "Table": list("123456789"),
    }.items():
        for number in wanted:
            assert any(re.search(rf"{kind} {re.escape(number)}\b", row) for row in rows), f"{kind} {number}"


@pytest.mark.parametrize("section", ["Section 3", "Section 4", "Appendix A", "Appendix B", "Appendix C", "Appendix D"])
def test_nothing_of_the_theory_is_missing(section):
    body = MAP.split(f"## {section}", 1)[1].split("\n## ", 1)[0]
    assert body.count("|") > 8
    assert "missing" not in body


def test_pictures_are_there():
    pictures = re.findall(r"\]\((img/[\w-]+\.png)\)", THEORY)
    assert len(pictures) >= 5
    for picture in pictures:
        assert (ROOT / "docs" / picture).stat().st_size > 10_000


def test_examples_in_the_theory_page_are_true():
    import doctest

    result = doctest.testfile(
        str(ROOT / "docs" / "theory.md"), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 10
    assert result.failed == 0


def test_figures_of_speed_are_those_of_the_record():
    record = json.loads((ROOT / "benchmarks" / "results" / "spectrum.json").read_text(encoding="utf-8"))
    for case in record["cases"]:
        row = next(line for line in SPEED.splitlines() if line.startswith(f"| {case['spectrum']}"))
        cells = [f"{case['nonzeros']:,}", f"{case['wildspec']['seconds']:.1f}", f"{case['eigsh_ratio']:.2f}",
                 f"{case['randomized_svd_ratio']:.1f}"]  # fmt: skip
        assert [cell.strip() for cell in row.split("|")[2:-1]] == cells
        for solver in ("wildspec", "eigsh"):
            assert f"{case[solver]['residual']:.1e}" in SPEED
        assert not case["randomized_svd_reached_equal_residual"]  # "at least"
    for size in record["scaling"]:
        row = f"| {size['nodes']:,} | {size['nonzeros']:,} | {size['seconds']:.1f} | {size['peak_gib']:.1f} |"
        assert row in SPEED
    assert f"to the power {record['bars']['growth exponent of time']['value']:.2f} " in SPEED
