"""Writes the generated parts of the documentation from the committed records; nothing in them is typed.

    python docs/make_results.py            write
    python docs/make_results.py --check    exit status 1 when something is out of date

Records live under docs/results/records/. Generated: one page per protocol (docs/results/PROTOCOL.md) with its pictures of
quality against time, docs/results/pacs-embeddings.md and joint-digits.md, docs/dev/shift-worlds.md, the blocks in
docs/scale.md and the block in README.md.
"""

import sys
from pathlib import Path

from wildspec.bench import embedding_page, front_page, joint_page, protocol_page, scale_page, worlds_page
from wildspec.bench.figures import draw_time, time_figure_name
from wildspec.bench.records import Record, load_records
from wildspec.files import read_json, write_text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "docs/results"
NOTHING = "No result has been committed yet."


def records(root: Path) -> list[Record]:
    folder = root / RESULTS / "records"
    return load_records([folder]) if folder.is_dir() and any(folder.rglob("*.json")) else []


def protocol_pages(found: list[Record]) -> dict[str, str]:
    """File name -> page, one per protocol that has records."""
    names = dict.fromkeys(record["protocol"] for record in found)
    return {
        f"{name}.md": protocol_page.page(name, [record for record in found if record["protocol"] == name]) for name in names
    }


def readme_block(root: Path, found: list[Record]) -> str:
    """Three short tables: digits, embeddings, images."""
    parts = []
    for name, table in (("joint-digits.json", front_page.digits), ("pacs-embeddings.json", front_page.embeddings)):
        path = root / RESULTS / name
        if path.exists():
            parts.append(table(read_json(path)))
    parts.append(front_page.images(found))
    return "\n\n".join(part for part in parts if part) or NOTHING


def embeddings_page(root: Path) -> dict[str, str]:
    """The embeddings route on PACS (wildspec bench pacs-embeddings, benchmarks/pacs_*.py)."""
    path, *others = (root / RESULTS / f"pacs-{name}.json" for name in ("embeddings", "ablation", "classes"))
    if not path.exists():
        return {}
    more = [read_json(other) if other.exists() else None for other in others]
    return {"pacs-embeddings.md": embedding_page.page(read_json(path), *more)}


def scale_file(root: Path) -> dict[Path, str]:
    """docs/scale.md with its blocks filled in (benchmarks/estimator.py, benchmarks/pretrain.py)."""
    path, folder = root / "docs" / "scale.md", root / "benchmarks" / "results"
    if not path.exists() or not (folder / "estimator.json").exists():
        return {}
    text = path.read_text(encoding="utf-8")
    blocks = scale_page.blocks(read_json(folder / "estimator.json"), read_json(folder / "pretrain.json"))
    for name, block in blocks.items():
        text = between(text, name, block)
    return {path: text}


def joint_digits_page(root: Path) -> dict[str, str]:
    """The joint decision on digits (benchmarks/joint_digits.py)."""
    path = root / RESULTS / "joint-digits.json"
    return {"joint-digits.md": joint_page.to_page(read_json(path))} if path.exists() else {}


def worlds(root: Path) -> dict[Path, str]:
    """Shift or unknown classes (benchmarks/shift_worlds.py)."""
    path = root / "docs" / "dev" / "shift-worlds.json"
    return {path.with_suffix(".md"): worlds_page.page(read_json(path))} if path.exists() else {}


def between(text: str, name: str, block: str) -> str:
    """The text with what stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->`` replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, found, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"the markers {begin} and {end} are missing")
    return f"{head}{begin}\n{block}\n{end}{tail}"


def wanted_files(root: Path = ROOT) -> dict[Path, str]:
    """Path -> text of every generated file, as it should be."""
    found = records(root)
    pages = {**protocol_pages(found), **embeddings_page(root), **joint_digits_page(root)}
    files = {root / RESULTS / name: text for name, text in pages.items()} | scale_file(root) | worlds(root)
    readme = root / "README.md"
    files[readme] = between(readme.read_text(encoding="utf-8"), "results", readme_block(root, found))
    return files


def out_of_date(root: Path = ROOT) -> list[Path]:
    return [
        path for path, text in wanted_files(root).items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> None:
    stale = out_of_date()
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"out of date: {path.relative_to(ROOT)}; run: python docs/make_results.py")
        raise SystemExit(1 if stale else 0)
    files = wanted_files()
    for path in stale:
        write_text(path, files[path])
        print(f"wrote {path.relative_to(ROOT)}")
    for path in draw_pictures(stale):
        print(f"drew {path.relative_to(ROOT)}")


def draw_pictures(stale: list[Path], root: Path = ROOT) -> list[Path]:
    """The pictures that pages out of date refer to, from the same records; no other picture is drawn by this script."""
    found = records(root)
    pages = [name for name in protocol_pages(found) if root / RESULTS / name in stale]
    texts = [(root / RESULTS / name).read_text(encoding="utf-8") for name in pages]
    groups = {time_figure_name(r["protocol"], r["semantic"]): (r["protocol"], r["semantic"]) for r in found}
    wanted = [names for file, names in groups.items() if any(f"../img/{file})" in text for text in texts)]
    return draw_time([r for r in found if (r["protocol"], r["semantic"]) in wanted], root / "docs" / "img")


if __name__ == "__main__":
    main()
