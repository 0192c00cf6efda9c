"""The paper-to-code map names things that exist: modules, functions, test files, pictures."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(wildspec(?:\.\w+)+)`", MAP))))
def test_dotted_names_can_be_imported(name):
    module, _, attribute = name.rpartition(".")
    try:
        assert hasattr(import_module(module), attribute) or import_module(name)
    except ModuleNotFoundError:
        assert hasattr(import_module(module), attribute), name


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/]+(?:\.py)?)", MAP))))
def test_test_files_are_there(path):
    assert (ROOT / path).exists()


def test_theory_names_in_the_map():
    import wildspec.graph
    import wildspec.theory
    from wildspec.theory import first_order, theorems

    for name in re.findall(r"`(theorem_\w+|first_order|critical_\w+|class_advantage|separability_\w+|five_node)", MAP):
        assert any(hasattr(place, name) for place in (wildspec.theory, first_order, theorems)) or hasattr(
            import_module("wildspec.theory.first_order"), name
        ), name
    for name in re.findall(r"`AugmentationGraph\.(\w+)", MAP):
        assert hasattr(wildspec.graph.AugmentationGraph, name) or name == "total"


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
