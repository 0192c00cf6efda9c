"""A newcomer's way from two folders of real images to decisions: the commands as typed, then judged on images set aside.

    python benchmarks/own_images.py --data DIR --seeds 0 1 --out benchmarks/results/own_images.json
    python benchmarks/own_images.py --data DIR --init WEIGHTS --epochs 6 --extra '--method pu --backbone wrn40_2' --out ...
    python tools/make_results.py own-images           the page docs/results/own-images.md from the JSON

DIR holds CIFAR-10, for the task pacs PACS (with a column ``domain``), as parquet. Tasks:

vehicles    Labelled: 500 images of each of four vehicles. Incoming: 250 more of each, 250 of each under Gaussian noise, and
            60 of each of six animals, 15 % of the pool. Set aside: 100 clean and 100 noisy ones of each vehicle, 60 of each
            animal.
animals     Labelled: 400 of each of six animals. Incoming: 150 of each, 150 of each out of focus, 80 of each of four
            vehicles. Set aside: 80 clean and 80 unsharp ones of each animal, 100 of each vehicle.
pacs        Labelled: 110 photographs of dog, elephant, giraffe, horse. Incoming: 40 more of each, 80 of each painted, and 25
            photographs and 25 paintings of each of guitar, house, person. Set aside: the other photographs, 100 paintings of
            each, 80 photographs and 80 paintings of each unknown class.

WEIGHTS: a .safetensors file for --init. A run takes the place of an earlier one of the same task, command and seed.
All CIFAR-10 images come from the training split; none is used twice. A seed draws the images and is the seed of the fit.
"""

import argparse
import csv
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

TASKS = ("vehicles", "animals", "pacs")
VEHICLES = ("airplane", "automobile", "ship", "truck")
ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
PACS_KNOWN = ("dog", "elephant", "giraffe", "horse")
DETECTORS = ("energy", "knn", "wild_knn", "vim", "mahalanobis", "msp")
SETS = {"known": "known, clean", "shifted": "known, noisy", "unknown": "unknown"}


class Folders:
    """Image files under ``root``: labelled/CLASS/, incoming/, test/known/CLASS/, test/shifted/CLASS/, test/unknown/."""

    def __init__(self, data: Path, root: Path, split: str | None) -> None:
        from wildspec.data import ParquetSource

        self.source, self.root = ParquetSource(data, split=split) if split else ParquetSource(data), root
        self.labels = np.asarray(self.source.labels)

    def save(self, rows: np.ndarray, folder: str, shift: tuple[str, int, int] | None = None) -> None:
        """``shift``: kind, severity and seed of a corruption."""
        import torch

        from wildspec.data import corrupt

        (self.root / folder).mkdir(parents=True, exist_ok=True)
        images = np.stack([self.source.load(int(row)) for row in rows])
        if shift is not None:
            stacked = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
            images = corrupt(stacked, *shift).permute(0, 2, 3, 1).numpy()
        for row, image in zip(rows.tolist(), images, strict=True):
            Image.fromarray(image).save(self.root / folder / f"{row:05d}.png")


def make_vehicles(folders: Folders, rng: np.random.Generator) -> None:
    for number, name in enumerate(folders.source.classes):
        rows = rng.permutation(np.flatnonzero(folders.labels == number))
        if name in VEHICLES:
            folders.save(rows[:500], f"labelled/{name}")
            folders.save(rows[500:750], "incoming")
            folders.save(rows[750:1000], "incoming", ("gaussian_noise", 2, number))
            folders.save(rows[1000:1100], f"test/known/{name}")
            folders.save(rows[1100:1200], f"test/shifted/{name}", ("gaussian_noise", 2, 100 + number))
        elif name in ANIMALS:
            folders.save(rows[:60], "incoming")
            folders.save(rows[60:120], "test/unknown")


def make_animals(folders: Folders, rng: np.random.Generator) -> None:
    for number, name in enumerate(folders.source.classes):
        rows = rng.permutation(np.flatnonzero(folders.labels == number))
        if name in ANIMALS:
            folders.save(rows[:400], f"labelled/{name}")
            folders.save(rows[400:550], "incoming")
            folders.save(rows[550:700], "incoming", ("defocus_blur", 3, number))
            folders.save(rows[700:780], f"test/known/{name}")
            folders.save(rows[780:860], f"test/shifted/{name}", ("defocus_blur", 3, 100 + number))
        else:
            folders.save(rows[:80], "incoming")
            folders.save(rows[80:180], "test/unknown")


def make_pacs(folders: Folders, rng: np.random.Generator, domain: np.ndarray) -> None:
    for number, name in enumerate(folders.source.classes):
        photo, art = (
            rng.permutation(np.flatnonzero((folders.labels == number) & (domain == kind)))
            for kind in ("photo", "art_painting")
        )
        if name in PACS_KNOWN:
            folders.save(photo[:110], f"labelled/{name}")
            folders.save(photo[110:150], "incoming")
            folders.save(art[:80], "incoming")
            folders.save(photo[150:], f"test/known/{name}")
            folders.save(art[80:180], f"test/shifted/{name}")
        else:
            for rows in (photo, art):
                folders.save(rows[:25], "incoming")
                folders.save(rows[25:105], "test/unknown")


def make_folders(task: str, data: Path, root: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if task == "pacs":
        import pyarrow.dataset

        files = sorted(str(path) for path in data.rglob("*.parquet"))
        domain = np.array(pyarrow.dataset.dataset(files).to_table(columns=["domain"])["domain"].to_pylist())
        make_pacs(Folders(data, root, None), rng, domain)
    else:
        {"vehicles": make_vehicles, "animals": make_animals}[task](Folders(data, root, "train"), rng)


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
        found["unknown"][f"auroc_against_{kind}"] = auroc(scores["unknown"], scores[kind])
    return found


def other_detectors(root: Path, seed: int) -> dict[str, dict[str, float]]:
    """The fitted network under every detector of `DETECTORS`: fitted and calibrated on the very images `fit` used."""
    import wildspec
    from wildspec.data import load_images, open_source
    from wildspec.evaluation import Outputs, collect
    from wildspec.images.decision import learn_decision
    from wildspec.images.parts import split_labelled

    fitted = wildspec.load(root / "model", device="cpu").fitted_
    labelled = load_images(open_source(root / "labelled", labelled=True), fitted.preprocess.size)
    split = split_labelled(labelled, 0.2, 0.05, seed)

    def seen(images: Any) -> Outputs:
        return collect(fitted.model, images, fitted.preprocess)

    def read(folder: str) -> Outputs:
        return seen(load_images(open_source(root / folder, labelled=False), fitted.preprocess.size))

    train, calibration = labelled.subset(split["train"]), labelled.subset(split["calibration"])
    parts = seen(train), seen(calibration)
    wild, tests, found = read("incoming"), {kind: read(f"test/{kind}") for kind in SETS}, {}
    for name in DETECTORS:
        decision = learn_decision(parts[0], wild, parts[1], detector=name)
        scores = {kind: images.score(decision.detector).double().cpu().numpy() for kind, images in tests.items()}
        found[name] = {kind: float(np.mean(~decision.calibration.reject(values))) for kind, values in scores.items()}
        for kind in ("known", "shifted"):
            found[name][f"auroc_{kind}"] = auroc(scores["unknown"], scores[kind])
    return found


def auroc(high: np.ndarray, low: np.ndarray) -> float:
    """The share of pairs in the right order."""
    pairs = high[:, None] - low[None, :]
    return float(np.mean(pairs > 0) + 0.5 * np.mean(pairs == 0))


def one_run(
    task: str, data: Path, length: str, extra: str, seed: int, keep: Path | None, init: Path | None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = keep or Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        make_folders(task, data, root, seed)
        if init is not None:
            shutil.copyfile(init, root / "weights.safetensors")
            extra = f"{extra} --init weights.safetensors".strip()
        options = f"{length}{' ' + extra if extra else ''}{f' --seed {seed}' if seed else ''}"
        lines = {
            "fit": f"wildspec fit --end-to-end --labelled labelled --wild incoming {options} --out model",
            "score": "wildspec score model test --out scores.csv",
            "report": "wildspec report model --test test/known --covariate test/shifted --semantic test/unknown "
            "--out report.html",
        }
        seconds = {}
        for name, line in lines.items():
            seconds[name] = round(type_in(line, root)[0], 1)
        record = json.loads((root / "model" / "model.json").read_text())
        return {
            "task": task, "commands": list(lines.values()), "seconds": seconds, "seed": seed,
            "threads": os.environ.get("OMP_NUM_THREADS"), "load_after": round(os.getloadavg()[0], 2),
            "training": record["training"],
            "mixture": record["decision"]["calibration"].get("mixture"),
            "validation": record["metrics"]["validation"], "sets": judge(root / "scores.csv"),
            "detectors": other_detectors(root, seed), "report_bytes": (root / "report.html").stat().st_size,
        }  # fmt: skip


def add_run(runs: list[dict[str, Any]], run: dict[str, Any]) -> None:
    """In the place of an earlier run of the same, or as the last one."""

    def key(one: dict[str, Any]) -> tuple[Any, ...]:
        return one["task"], one["commands"][0], one["seed"]

    same = [i for i, one in enumerate(runs) if key(one) == key(run)]
    if same:
        runs[same[0]] = run
    else:
        runs.append(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of parquet files")
    parser.add_argument("--task", choices=TASKS, default="vehicles")
    parser.add_argument("--out", type=Path, required=True, help="JSON; runs are added to those that are there")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--epochs", type=float, help="instead of minutes")
    parser.add_argument("--init", type=Path, help="weights to start from")
    parser.add_argument("--note", help="said beside the command in the table")
    parser.add_argument("--extra", nargs="+", default=[""], help="further options of fit, one run each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--keep", type=Path, help="work in this folder and leave images and models there")
    args = parser.parse_args()
    if args.data is None:
        parser.error("--data is needed")
    from wildspec.files import write_json
    from wildspec.provenance import environment

    made = environment()
    record = json.loads(args.out.read_text()) if args.out.exists() else {"runs": [], "made_by": []}
    made["command"] = made["command"].replace(str(args.data), "DIR")  # where things lie is nobody's business
    if args.init is not None:
        made["command"] = made["command"].replace(str(args.init), "WEIGHTS")
    if args.keep is not None:
        made["command"] = made["command"].replace(f" --keep {args.keep}", "")
    length = f"--minutes {args.minutes:g}" if args.epochs is None else f"--epochs {args.epochs:g}"
    record["environment"] = made
    record["made_by"] = list(dict.fromkeys([*record["made_by"], made["command"]]))
    for extra in args.extra:
        for seed in args.seeds:
            keep = None if args.keep is None else args.keep / f"{args.task}-{seed}"
            run = one_run(args.task, args.data.resolve(), length, extra, seed, keep, args.init)
            if args.note:
                run["note"] = args.note
            add_run(record["runs"], run)
            write_json(args.out, record)
    print(json.dumps([run["sets"] for run in record["runs"]], indent=2))


if __name__ == "__main__":
    main()
