"""Writes the generated pages of the documentation from the committed records; nothing in them is typed.

    python tools/make_results.py                     every page that is out of date
    python tools/make_results.py cifar10 scale       these pages only
    python tools/make_results.py --check             exit status 1 when something is out of date

Each page has a function here that says which JSON it is made from and which file it is. A page's own module is imported when
the page is made, so that one page takes no longer than it must.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from wildspec.bench.records import load_records
from wildspec.files import read_json, write_text

ROOT = Path(__file__).resolve().parent.parent
RESULTS, DEV, SPEED = "docs/results", "docs/dev", "benchmarks/results"

Files = dict[Path, str]


def cifar10(root: Path) -> Files:
    """Every record under docs/results/records/ (wildspec bench cifar10); the picture is drawn beside the page."""
    import cifar_page
    from paper_today import as_today

    found = [record for record in load_records([root / RESULTS / "records"]) if record["protocol"] == "cifar10"]
    found = as_today(found)
    cifar_page.picture(found, root / "docs" / "img" / "cifar10.png")
    return {
        root / RESULTS / "cifar10.md": cifar_page.page(found),
        root / DEV / "cifar10.md": cifar_page.full(found),
        root / DEV / "cifar10-all.csv": cifar_page.all_numbers(found),
    }


def pacs_embeddings(root: Path) -> Files:
    """wildspec bench pacs-embeddings, benchmarks/pacs_classes.py."""
    import pacs_page

    found, classes = (read_json(root / RESULTS / f"pacs-{name}.json") for name in ("embeddings", "classes"))
    return {
        root / RESULTS / "pacs-embeddings.md": pacs_page.page(found, classes),
        root / DEV / "pacs-embeddings.md": pacs_page.full(found),
    }


def open_set(root: Path) -> Files:
    """wildspec bench pacs-open-set; the picture is drawn beside the page."""
    import open_set_page

    document = read_json(root / RESULTS / "open-set.json")
    images = read_json(root / RESULTS / "open-set-images.json")
    open_set_page.picture(document, root / "docs" / "img" / "open-set.png")
    return {
        root / RESULTS / "open-set.md": open_set_page.page(document, images),
        root / DEV / "open-set.md": open_set_page.full(document),
    }


def joint_digits(root: Path) -> Files:
    """benchmarks/joint_digits.py."""
    import joint_page

    return {root / DEV / "joint-digits.md": joint_page.to_page(read_json(root / RESULTS / "joint-digits.json"))}


def digits(root: Path) -> Files:
    """benchmarks/digits.py."""
    import digits_page

    document = read_json(root / RESULTS / "digits.json")
    return {
        root / RESULTS / "digits.md": digits_page.page(document), root / DEV / "digits.md": digits_page.full(document)
    }  # fmt: skip


def own_images(root: Path) -> Files:
    """benchmarks/own_images.py and own_images_frozen.py."""
    import own_images_page

    source = f"{SPEED}/own_images.json"
    record, frozen = read_json(root / source), read_json(root / SPEED / "own_images_frozen.json")
    whole = filled(root / DEV / "own-images.md", {"own-images": own_images_page.block(record, source)})
    return {root / RESULTS / "own-images.md": own_images_page.page(record, source, frozen)} | whole


def scale(root: Path) -> Files:
    """benchmarks/estimator.py, benchmarks/pretrain.py."""
    import scale_page

    documents = [read_json(root / SPEED / f"{name}.json") for name in ("estimator", "pretrain")]
    return filled(root / "docs" / "scale.md", scale_page.blocks(*documents))


def serving(root: Path) -> Files:
    """benchmarks/serving.py."""
    import serving_page

    source = f"{SPEED}/serving.json"
    return filled(root / "docs" / "dev" / "faults.md", {"serving": serving_page.block(read_json(root / source), source)})


def front_door(root: Path) -> Files:
    """front_door_blind.py, front_door.py, front_door_pool.py, few_labelled.py and backbones.py of benchmarks/; pictures are
    drawn beside."""
    import front_door_page

    names = ("front_door_blind", "front_door", "front_door_pool", "few_labelled", "backbones")
    blind, document, pool, few, networks = (read_json(root / SPEED / f"{name}.json") for name in names)
    front_door_page.picture(blind, root / "docs" / "img" / "front-door.png")
    front_door_page.picture_of_worlds(blind, root / "docs" / "img" / "front-door-worlds.png")
    return {
        root / RESULTS / "front-door.md": front_door_page.page(blind, document, pool, few, networks),
        root / DEV / "front-door.md": front_door_page.full(blind, document),
    }


def review(root: Path) -> Files:
    """benchmarks/review.py, benchmarks/aha.py; the picture is drawn beside the page."""
    import review_page

    document, blind, aha = (read_json(root / SPEED / f"{name}.json") for name in ("review", "review_blind", "aha"))
    review_page.picture(document["records"], root / "docs" / "img" / "review-answers.png")
    return {root / RESULTS / "review.md": review_page.page(document, blind, aha)}


PAGES: dict[str, Callable[[Path], Files]] = {
    "cifar10": cifar10, "pacs-embeddings": pacs_embeddings, "open-set": open_set, "digits": digits,
    "joint-digits": joint_digits,
    "own-images": own_images, "front-door": front_door, "review": review, "scale": scale, "serving": serving,
}  # fmt: skip


def filled(page: Path, blocks: dict[str, str]) -> Files:
    """A page with what stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->`` replaced, for each name."""
    text = page.read_text(encoding="utf-8")
    for name, block in blocks.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, found, rest = text.partition(begin)
        _, found_end, tail = rest.partition(end)
        if not found or not found_end:
            raise SystemExit(f"{page}: the markers {begin} and {end} are missing; put them where the block belongs")
        text = f"{head}{begin}\n{block}\n{end}{tail}"
    return {page: text}


def out_of_date(names: Sequence[str] = (), root: Path = ROOT) -> Files:
    """File -> text as it should be, of every file that is something else."""
    wanted: Files = {}
    for name in names or PAGES:
        wanted |= PAGES[name](root)
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", help=f"some of: {', '.join(PAGES)}")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when something is out of date")
    given = parser.parse_args()
    if unknown := [name for name in given.pages if name not in PAGES]:
        parser.error(f"no page is called {', '.join(unknown)}; there are {', '.join(PAGES)}")
    stale = out_of_date(given.pages)
    for path, text in stale.items():
        if not given.check:
            write_text(path, text)
        print(f"{'out of date' if given.check else 'wrote'}: {path.relative_to(ROOT)}")
    raise SystemExit(1 if given.check and stale else 0)


if __name__ == "__main__":
    main()
