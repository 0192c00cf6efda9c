"""A newcomer's way from two folders of real images to decisions: the commands as typed, then judged on images set aside.

    python benchmarks/own_images.py --data DIR --out benchmarks/results/own_images.json
    python benchmarks/own_images.py --out benchmarks/results/own_images.json --page docs/howto-images.md

DIR holds CIFAR-10 as parquet. Labelled: 500 images of each of four vehicles. Incoming: 250 more of each, 250 of each under
Gaussian noise, and 60 of each of six animals, 15 % of the pool. Set aside: 100 clean and 100 noisy ones of each vehicle, 60
of each animal. All come from the training split, none twice.
"""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

KNOWN = ("airplane", "automobile", "ship", "truck")
UNKNOWN = ("bird", "cat", "deer", "dog", "frog", "horse")
SEVERITY = 2
MARKS = ("<!-- own-images:begin -->", "<!-- own-images:end -->")
SETS = {"known": "known, clean", "shifted": "known, noisy", "unknown": "unknown"}


def make_folders(data: Path, root: Path, seed: int) -> None:
    """The images as files: labelled/CLASS/, incoming/, test/known/CLASS/, test/shifted/CLASS/, test/unknown/."""
    import torch

    from wildspec.data import ParquetSource, corrupt

    source = ParquetSource(data, split="train")
    labels, rng = np.asarray(source.labels), np.random.default_rng(seed)

    def save(rows: np.ndarray, folder: str, noise: int | None = None) -> None:
        (root / folder).mkdir(parents=True, exist_ok=True)
        images = np.stack([source.load(int(row)) for row in rows])
        if noise is not None:
            stacked = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
            images = corrupt(stacked, "gaussian_noise", SEVERITY, noise).permute(0, 2, 3, 1).numpy()
        for row, image in zip(rows.tolist(), images, strict=True):
            Image.fromarray(image).save(root / folder / f"{row:05d}.png")

    for number, name in enumerate(source.classes):
        rows = rng.permutation(np.flatnonzero(labels == number))
        if name in KNOWN:
            save(rows[:500], f"labelled/{name}")
            save(rows[500:750], "incoming")
            save(rows[750:1000], "incoming", noise=number)
            save(rows[1000:1100], f"test/known/{name}")
            save(rows[1100:1200], f"test/shifted/{name}", noise=100 + number)
        elif name in UNKNOWN:
            save(rows[:60], "incoming")
            save(rows[60:120], "test/unknown")


def type_in(line: str, root: Path) -> tuple[float, str]:
    """Run a command line in the folder; seconds and what it said."""
    began = time.monotonic()
    words = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{line}: {done.stderr}")
    print(f"$ {line}\n{done.stderr}{done.stdout}", flush=True)
    return time.monotonic() - began, done.stdout


def judge(table: Path) -> dict[str, dict[str, float]]:
    """Shares in [0, 1], counted from the written table and the names of the folders."""
    rows = list(csv.DictReader(table.open()))
    found: dict[str, dict[str, float]] = {}
    for kind in SETS:
        mine = [row for row in rows if f"test/{kind}/" in row["image"]]
        kept = [row["decision"] != "rejected" for row in mine]
        shares = {"images": len(mine), "kept": float(np.mean(kept))}
        if kind != "unknown":
            right = [row["likely"] == Path(row["image"]).parent.name for row in mine]
            shares |= {"accuracy": float(np.mean(right)), "right_and_kept": float(np.mean(np.logical_and(kept, right)))}
        found[kind] = shares
    scores = {kind: np.array([float(r["ood_score"]) for r in rows if f"test/{kind}/" in r["image"]]) for kind in SETS}
    for kind in ("known", "shifted"):
        pairs = scores["unknown"][:, None] - scores[kind][None, :]  # AUROC is the share of pairs in the right order
        found["unknown"][f"auroc_against_{kind}"] = float(np.mean(pairs > 0) + 0.5 * np.mean(pairs == 0))
    return found


def one_run(data: Path, minutes: float, extra: str, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_folders(data, root, 0)
        options = f"--minutes {minutes:g}{' ' + extra if extra else ''}{f' --seed {seed}' if seed else ''}"
        lines = {
            "fit": f"wildspec fit --labelled labelled --wild incoming {options} --out model",
            "score": "wildspec score model test --out scores.csv",
            "report": "wildspec report model --test test/known --covariate test/shifted --semantic test/unknown "
            "--out report.html",
        }
        seconds = {}
        for name, line in lines.items():
            seconds[name] = round(type_in(line, root)[0], 1)
        record = json.loads((root / "model" / "model.json").read_text())
        return {
            "commands": list(lines.values()), "seconds": seconds, "seed": seed, "training": _find(record, "training"),
            "validation": _find(record, "metrics")["validation"], "sets": judge(root / "scores.csv"),
            "report_bytes": (root / "report.html").stat().st_size,
        }  # fmt: skip


def _find(record: dict[str, Any], key: str) -> Any:
    """The entry of a record wherever it lies."""
    if key in record:
        return record[key]
    return next(found for value in record.values() if isinstance(value, dict) and (found := _find(value, key)) is not None)


def fill_page(page: Path, record: dict[str, Any], source: str) -> None:
    """Put the table of a record between the marks of a page."""
    made = record["environment"]
    lines = [
        f"Measured by `{made['command']}` on {made['hardware']['cores']} cores (load {record['load_before']:g} before the "
        f"run); `{source}`. Four vehicles of CIFAR-10 are known (500 labelled images each); 2,360 came in: vehicles, "
        "vehicles under noise, and six kinds of animals (15 %), of which nobody told the model. Per cent, on 1,160 images "
        "set aside; accuracy counts the class given whether or not the image was rejected.",
        "",
        "| typed | accuracy | accuracy, noisy | kept | kept, noisy | unknown rejected | AUROC |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in record["runs"]:
        known, shifted, unknown = (run["sets"][kind] for kind in SETS)
        cells = [known["accuracy"], shifted["accuracy"], known["kept"], shifted["kept"], 1 - unknown["kept"],
                 unknown["auroc_against_known"]]  # fmt: skip
        lines.append(f"| `{run['commands'][0]}` | " + " | ".join(f"{100 * cell:.1f}" for cell in cells) + " |")
    head, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    page.write_text("\n".join([head + MARKS[0], *lines, MARKS[1] + rest.split(MARKS[1])[1]]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10 parquet files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, nargs="+", default=[5.0])
    parser.add_argument("--extra", nargs="+", default=[""], help="further options of fit, one run each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="only fill this page from the JSON at --out")
    args = parser.parse_args()
    if args.page:
        fill_page(args.page, json.loads(args.out.read_text()), args.out.as_posix())
        return
    if args.data is None:
        parser.error("--data is needed")
    from wildspec.files import write_json
    from wildspec.provenance import environment

    load_before = os.getloadavg()[0]
    runs: list[dict[str, Any]] = []
    for minutes in args.minutes:
        for extra in args.extra:
            runs.append(one_run(args.data.resolve(), minutes, extra, args.seed))
            write_json(args.out, {"load_before": round(load_before, 2), "runs": runs, "environment": environment()})
    print(json.dumps([run["sets"] for run in runs], indent=2))


if __name__ == "__main__":
    main()
