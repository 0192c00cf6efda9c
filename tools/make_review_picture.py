"""A picture of the review page for docs/howto-review.md, with drawn shapes: discs, squares and triangles on white are known,
stars and rings are not, and the pool shows all of them on coloured ground.

    python tools/make_review_picture.py docs/img/review.png

It fits a model on them (a minute or two), answers a dozen questions as a person would, and looks at the page in Chromium.
"""

import http.client
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

SIDE, LABELLED, WILD = 160, 40, 36
KNOWN, UNKNOWN = ("disc", "square", "triangle"), ("ring", "star")
TAB = "0123456789abcdef"


def draw(kind: str, rng: np.random.Generator, wild: bool) -> Image.Image:
    """One shape, anywhere and of any size; ``wild``: dark on coloured ground with streaks."""
    ground = tuple(int(v) for v in rng.integers(90, 235, 3)) if wild else (250, 250, 250)
    ink = tuple(int(v) for v in rng.integers(0, 90, 3)) if wild else (40, 60, 120)
    image = Image.new("RGB", (SIDE, SIDE), ground)
    pen = ImageDraw.Draw(image)
    for _ in range(14 if wild else 0):
        ends = [int(v) for v in rng.integers(0, SIDE, 4)]
        pen.line(ends, fill=tuple(min(255, v + 18) for v in ground), width=5)
    r = float(rng.uniform(34, 56))
    x, y, turn = *(float(v) for v in rng.uniform(64, 96, 2)), float(rng.uniform(0, math.tau))
    corners = {"square": 4, "triangle": 3, "star": 10}.get(kind, 0)
    if corners:
        lengths = [r if kind != "star" or i % 2 == 0 else 0.45 * r for i in range(corners)]
        angles = [turn + math.tau * i / corners for i in range(corners)]
        pen.polygon([(x + s * math.cos(a), y + s * math.sin(a)) for s, a in zip(lengths, angles, strict=True)], fill=ink)
    else:
        box = (x - r, y - r, x + r, y + r)
        pen.ellipse(box, fill=ink if kind == "disc" else None, outline=ink, width=12)
    return image


def write_shapes(root: Path) -> dict[str, str]:
    """Folders ``labelled`` and ``wild``; name of a wild image -> what it shows."""
    rng = np.random.default_rng(0)
    truth = {}
    for kind in KNOWN:
        (root / "labelled" / kind).mkdir(parents=True)
        for i in range(LABELLED):
            draw(kind, rng, False).save(root / "labelled" / kind / f"{i}.png")
    (root / "wild").mkdir()
    for i, kind in enumerate(rng.permutation(np.repeat([*KNOWN, *UNKNOWN], WILD)).tolist()):
        truth[f"{i:04d}.png"] = kind if kind in KNOWN else "unknown"
        draw(kind, rng, True).save(root / "wild" / f"{i:04d}.png")
    return truth


def answer(port: int, token: str, truth: dict[str, str], count: int) -> None:
    """As a person would, over the page's own service."""

    def ask(method: str, path: str, body: Any = None) -> Any:
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        one.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {token}"})
        found = json.loads(one.getresponse().read())
        one.close()
        return found

    for i in range(count):
        card = ask("GET", f"/v1/card?tab={TAB}")["card"]
        said = truth[card["title"]]
        ask("POST", "/v1/answer", {"tab": TAB, "act": f"act{i:06d}", "class": said, "samples": [card["id"]]})
        while ask("GET", "/v1/state")["learning"]:
            pass


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        truth = write_shapes(root)
        wildspec = [sys.executable, "-m", "wildspec"]
        words = ["--labelled", "labelled", "--wild", "wild", "--out", "shapes"]
        subprocess.run([*wildspec, "fit", *words], cwd=root, check=True)
        review = subprocess.Popen(
            [*wildspec, "review", "shapes", "--no-browser"], cwd=root, stderr=subprocess.PIPE, text=True
        )
        try:
            assert review.stderr is not None
            address = re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", review.stderr.readline())
            assert address is not None
            answer(int(address[1]), address[2], truth, 23)
            shot = root / "page.png"
            subprocess.run(
                ["chromium", "--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,880",
                 "--virtual-time-budget=8000", f"--user-data-dir={root / 'profile'}", f"--screenshot={shot}", address[0]],
                check=True, capture_output=True,
            )  # fmt: skip
        finally:
            review.terminate()
            review.wait(60)
        out.parent.mkdir(parents=True, exist_ok=True)
        Image.open(shot).convert("RGB").save(out, optimize=True)  # of 256 colours none would be left for a legend's dots


if __name__ == "__main__":
    main(Path(sys.argv[1]))
