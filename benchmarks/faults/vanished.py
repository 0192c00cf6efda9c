"""Files that vanish, shrink or turn into something else while they are being scored.

    python benchmarks/faults/vanished.py --images 3000

Every third image is changed after the folder was listed: removed, cut short, replaced by a folder or by a pipe. Every image
keeps its row, in order; what could not be read says why; nothing waits and nothing ends early.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import record, small_model, write_folder


def spoil(path: Path, how: int) -> None:
    size = path.stat().st_size
    path.unlink()
    if how == 1:
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(size // 2))
    elif how == 2:
        path.mkdir()
    elif how == 3:
        os.mkfifo(path)


def main(model: Path, images: int) -> dict[str, Any]:
    import wildspec
    from wildspec.serving.bulk import score_sources
    from wildspec.serving.inputs import open_inputs

    with tempfile.TemporaryDirectory() as folder:
        root = write_folder(Path(folder) / "images", images)
        sources = open_inputs([str(root)])
        names = [source.name(i) for source in sources for i in range(len(source))]
        rows: list[dict[str, Any]] = []
        for number, block in enumerate(score_sources(wildspec.load(model, device="cpu"), sources)):
            if number == 0:  # two blocks are decoded by now, the rest is not
                for i, path in enumerate(sorted(root.iterdir())[::3]):
                    spoil(path, i % 4)
            rows += block
    told = Counter(" ".join(row["error"].split()[:4]) for row in rows if row["error"])
    return {
        "images": images, "rows": len(rows), "in_order": [row["image"] for row in rows] == names,
        "unreadable": sum(told.values()), "reasons": dict(told),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=3000)
    with tempfile.TemporaryDirectory() as place:
        record("vanished", main(small_model(Path(place) / "model"), parser.parse_args().images))
