"""A machine that lacks what programs take for granted: no HOME, a read-only install, no room for temporary files.

    python benchmarks/faults/surroundings.py          (as root, for mounts that only the tried command sees)

fit, score and report of a small set in each; status and last line. What cannot be tried here is said so.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import encoded, pictures, record

SOURCE = Path(__file__).resolve().parents[2] / "src"
READ_ONLY = f"mount --bind {SOURCE} {SOURCE} && mount -o remount,ro,bind {SOURCE} {SOURCE}"
NO_TMP = "mount -t tmpfs -o ro tmpfs /tmp && mount -t tmpfs -o ro tmpfs /var/tmp && mount -t tmpfs -o ro tmpfs /dev/shm"


def write_sets(root: Path) -> None:
    images, labels = pictures(90)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = root / "labelled" / f"class {label}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(encoded(image))
    (root / "wild").mkdir()
    for i, image in enumerate(pictures(40, seed=1)[0]):
        (root / "wild" / f"{i}.png").write_bytes(encoded(image))


def commands(root: Path) -> dict[str, list[str]]:
    model = str(root / "model")
    learn = ["--method", "erm", "--epochs", "0.2", "--backbone", "small", "--size", "16", "--device", "cpu"]
    return {
        "fit": ["fit", "--labelled", str(root / "labelled"), "--wild", str(root / "wild"), "--out", model, *learn],
        "score": ["score", model, str(root / "wild"), "--out", str(root / "scores.csv"), "--device", "cpu"],
        "report": ["report", model, "--out", str(root / "report.html"), "--no-map", "--device", "cpu"],
    }


def tried(root: Path, mounts: str, **changes: str | None) -> dict[str, Any]:
    """Every command in these surroundings."""
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    for name, value in changes.items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    found: dict[str, Any] = {}
    for name, words in commands(root).items():
        command = [sys.executable, "-m", "wildspec", *words]
        if mounts:
            command = ["unshare", "--mount", "sh", "-c", f'{mounts} || exit 99; exec "$@"', "sh", *command]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=root, timeout=600)
        if done.returncode == 99 or "unshare failed" in done.stderr:
            return {"tried": False, "why": (done.stderr.strip().splitlines() or ["no mounts here"])[-1][:200]}
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        found[name] = {"status": done.returncode, "last_line": "".join(last).replace(str(root), "DIR")[:200]}
    return found


def main(folder: str | None = None) -> dict[str, Any]:
    """``folder``: where the sets are written; not under /tmp, which is to be missing."""
    found: dict[str, Any] = {}
    cases: dict[str, tuple[str, dict[str, str | None]]] = {
        "no HOME": ("", {"HOME": None, "XDG_CACHE_HOME": None}),
        "a HOME that cannot be made": ("", {"HOME": "/proc/nobody", "XDG_CACHE_HOME": None}),
        "read-only install": (READ_ONLY, {}),
        "no room for temporary files": (NO_TMP, {}),
    }
    for name, (mounts, changes) in cases.items():
        with tempfile.TemporaryDirectory(dir=folder or Path.cwd(), prefix=".fault-") as place:
            write_sets(Path(place))
            found[name] = tried(Path(place), mounts, **changes)
        print(name, found[name], flush=True)
    return found


if __name__ == "__main__":
    record("surroundings", main())
