"""A hook of mkdocs: the search index as a script too, which a browser also loads from a folder on disk (docs/search.js)."""

from pathlib import Path
from typing import Any


def on_post_build(config: dict[str, Any], **more: Any) -> None:
    folder = Path(config["site_dir"], "search")
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"window.searchIndex = {index};\n", encoding="utf-8")
