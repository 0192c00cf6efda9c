"""The documentation's generated parts are what the script generates from the committed records."""

from pathlib import Path

import pytest

import make_results


@pytest.mark.parametrize("name", make_results.PAGES)
def test_committed_pages_are_up_to_date(name: str) -> None:
    stale = [path.name for path in make_results.out_of_date([name])]
    assert stale == [], f"run: python tools/make_results.py {name}"


def test_a_block_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# x\n<!-- a:begin -->\nold\n<!-- a:end -->\nafter\n")
    assert make_results.filled(page, {"a": "new"}) == {page: "# x\n<!-- a:begin -->\nnew\n<!-- a:end -->\nafter\n"}
    with pytest.raises(SystemExit, match="markers"):
        make_results.filled(page, {"b": "new"})
