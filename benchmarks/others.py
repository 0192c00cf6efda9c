"""A sixth semantic set for the CIFAR-10 protocol, of pictures that no protocol has: to choose recipes on, without the five.

    python benchmarks/others.py --data DIR --out DIR
    wildspec bench cifar10 --protocol DIR/others.json --semantic others --methods spectral+ --data DIR --out RUN

DIR holds ``pacs160`` and ``scenes8``. Written are ``DIR/others`` (32 px, the middle square) and ``DIR/others.json``:
photographs and paintings of elephants, giraffes, guitars, houses and people (not dogs and horses, which CIFAR-10 has), and
scenes but airports and skies (airplanes).
"""

import argparse
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from wildspec.files import write_json

SIDE = 32
OBJECTS, DOMAINS = ("elephant", "giraffe", "guitar", "house", "person"), ("photo", "art_painting")
NOT_SCENES = ("airport", "sky")


def small(picture: bytes) -> bytes:
    """The middle square at 32 px, lossless."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    held = io.BytesIO()
    square.save(held, "WEBP", lossless=True)
    return held.getvalue()


def read(data: Path, name: str) -> tuple[pa.Table, list[str]]:
    table = pq.read_table(next((data / name).glob("*.parquet")))
    names = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["label"]["names"]
    return table, [names[label] for label in table["label"].to_pylist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    objects, kinds = read(given.data, "pacs160")
    scenes, places = read(given.data, "scenes8")
    chosen = [i for i, domain in enumerate(objects["domain"].to_pylist()) if kinds[i] in OBJECTS and domain in DOMAINS]
    chosen.sort(key=lambda i: kinds[i])  # class by class, each in the order of its file
    there = sorted((i for i, place in enumerate(places) if place not in NOT_SCENES), key=lambda i: places[i])
    classes = [*OBJECTS, *sorted({places[i] for i in there})]
    rows = [(objects, kinds, i) for i in chosen] + [(scenes, places, i) for i in there]
    images = [{"bytes": small(table["image"][i].as_py()["bytes"]), "path": None} for table, _, i in rows]
    labels = [classes.index(names[i]) for _, names, i in rows]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    made = pa.table({"image": pa.array(images, kind), "label": pa.array(labels, pa.int64())})
    facts = {"info": {"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": classes}}}}
    (given.out / "others").mkdir(parents=True, exist_ok=True)
    made = made.replace_schema_metadata({"huggingface": json.dumps(facts)})
    pq.write_table(made, given.out / "others" / "all-00000-of-00001.parquet")
    write_json(given.out / "others.json", {"name": "cifar10-others", "semantic": [{"name": "others"}]})
    print(f"{len(rows):,} pictures of {len(classes)} classes")


if __name__ == "__main__":
    main()
