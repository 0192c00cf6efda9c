"""The search index as a script: what docs/search.js reads is what the generator wrote."""

import json
from pathlib import Path

import search_from_disk


def test_the_index_is_an_assignment_of_the_same_document(tmp_path: Path) -> None:
    index = {"docs": [{"location": "a.html#b", "title": "α", "text": 'says "</script>"'}]}
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text(json.dumps(index), encoding="utf-8")
    search_from_disk.on_post_build({"site_dir": str(tmp_path)})
    name, _, value = (tmp_path / "search" / "search_index.js").read_text(encoding="utf-8").partition(" = ")
    assert name == "window.searchIndex"
    assert json.loads(value.rstrip(";\n")) == index
