"""The README's tour, typed word for word in a folder as people have them, and what it printed.

    python benchmarks/tour.py --data DIR --out benchmarks/results/tour.json

DIR holds CIFAR-10 as parquet. labelled/: 400 images of each of four vehicles. wild/: 200 more of each, 200 of each under
noise, 50 of each of six kinds of animals (16 %). PNG and JPEG, grey, palette, RGBA, CMYK, turned by EXIF, 32 to 640 pixels
wide; four files are broken, two are no images at all. Afterwards the table is judged with the truth, which no command saw.
"""

import argparse
import csv
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
VEHICLES = ("airplane", "automobile", "ship", "truck")
KINDS = 12  # ways a file is written, one after the other


def write_image(pixels: np.ndarray, path: Path, number: int) -> None:
    """As a camera, a scanner or a web page would have left it; ``path`` without its ending."""
    image, kind = Image.fromarray(pixels), number % KINDS
    if kind == 8:  # lies on its side, and says so
        turned = Image.Exif()
        turned[0x0112] = 6
        image.rotate(90, expand=True).save(path.with_suffix(".jpeg"), exif=turned, quality=92)
        return
    if kind in (1, 2, 3):
        image = image.resize((640, 480) if kind == 3 else (96, 72), Image.Resampling.BICUBIC)
    image = image.convert({4: "L", 5: "RGBA", 6: "P", 7: "CMYK"}.get(kind, "RGB"))
    if kind in (2, 7, 9, 10):
        image.save(path.with_suffix(".jpg"), quality=92)
    else:
        image.save(path.with_suffix(".png"))


def make_folders(data: Path, root: Path) -> dict[str, str]:
    """labelled/ and wild/; name of each wild file (without ending) -> clean, noisy or unknown, and its class."""
    import torch

    from wildspec.data import ParquetSource, corrupt

    source = ParquetSource(data, split="train")
    labels, rng, truth = np.asarray(source.labels), np.random.default_rng(7), {}
    (root / "wild").mkdir(parents=True)

    def read(rows: np.ndarray) -> np.ndarray:
        return np.stack([source.load(int(row)) for row in rows])

    def wild(images: np.ndarray, kind: str) -> None:
        for i, image in enumerate(images):
            name = f"IMG_{len(truth):05d}"
            write_image(image, root / "wild" / name, i)
            truth[name] = kind

    for number, name in enumerate(source.classes):
        rows = rng.permutation(np.flatnonzero(labels == number))
        if name not in VEHICLES:
            wild(read(rows[:50]), "unknown")
            continue
        (root / "labelled" / name).mkdir(parents=True)
        for i, image in enumerate(read(rows[:400])):
            write_image(image, root / "labelled" / name / f"{name} {i:04d}", i)
        wild(read(rows[400:600]), f"clean {name}")
        pixels = torch.from_numpy(read(rows[600:800])).permute(0, 3, 1, 2).contiguous()
        wild(corrupt(pixels, "gaussian_noise", 2, number).permute(0, 2, 3, 1).numpy(), f"noisy {name}")
    whole = next((root / "wild").glob("*.jpg")).read_bytes()
    broken = {"wild/IMG_empty.png": b"", "wild/IMG_torn.jpg": whole[:400], "wild/notes.jpg": b"this is no image",
              "labelled/ship/broken ship.png": b"\x89PNG\r\n\x1a\n0000"}  # fmt: skip
    for name, content in {**broken, "wild/Thumbs.db": b"1", "labelled/readme.txt": b"vehicles"}.items():
        (root / name).write_bytes(content)
    return truth


def commands() -> list[str]:
    """The lines of the tour as they stand in the README, without their comments."""
    block = (ROOT / "README.md").read_text(encoding="utf-8").split("**Your images.**", 1)[1].split("```", 2)[1]
    return [line for row in block.splitlines() if (line := row.split("#")[0].strip())]


def type_in(line: str, root: Path) -> dict[str, Any]:
    """Run it in the folder; a service is looked at and stopped."""
    began, words = time.monotonic(), [sys.executable, "-m", *shlex.split(line)]
    if " serve " not in line:
        done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        status, printed = done.returncode, done.stdout
    else:
        with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as service:
            assert service.stdout is not None
            printed = service.stdout.readline()
            address = re.findall(r"http://\S+", printed)[0]
            printed += f"[GET {address} {_ask(address)}]\n"
            service.send_signal(signal.SIGINT)
            printed += service.stdout.read()
        status = service.returncode
    print(f"$ {line}\n{printed}[status {status}]", flush=True)
    return {"command": line, "printed": printed, "status": status, "seconds": round(time.monotonic() - began, 1)}


def _ask(address: str) -> int:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address) as answer:
                return int(answer.status)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def judge(table: Path, truth: dict[str, str]) -> dict[str, dict[str, float]]:
    """Shares of clean, noisy and unknown wild images that were kept, and given the right class whether kept or not."""
    found: dict[str, list[tuple[bool, bool]]] = {}
    for row in csv.DictReader(table.open()):
        kind, _, name = truth.get(Path(row["image"]).stem, "").partition(" ")
        if kind:
            found.setdefault(kind, []).append((row["decision"] != "rejected", row["likely"] == name))
    return {
        kind: {"images": len(rows), "kept": float(np.mean([kept for kept, _ in rows])),
               **({"accuracy": float(np.mean([right for _, right in rows]))} if kind != "unknown" else {})}
        for kind, rows in found.items()
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10: a folder of parquet files")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    from wildspec.files import write_json
    from wildspec.provenance import environment

    made = environment()
    made["command"] = made["command"].replace(str(args.data), "DIR")  # where the data lies is nobody's business
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        truth = make_folders(args.data.resolve(), root)
        typed = [type_in(line, root) for line in commands()]
        found = judge(root / "scores.csv", truth)
        report = (root / "report.html").read_text(encoding="utf-8")
    headline = re.findall(r"<h1>(.*?)</h1>", report)[0]
    write_json(args.out, {"typed": typed, "truth": found, "headline": headline, "environment": made})
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
