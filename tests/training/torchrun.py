"""Two processes of a training group, started as a user starts them."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Rarely, on a loaded machine, a process that has done its work is ended by the C++ side of torch with a
# thread still running. It says nothing about what is tested; everything else that goes wrong fails the test at once.
ABORT = "terminate called without an active exception"
TRIES = 3


def two_processes(*words: str, out: Path) -> "subprocess.CompletedProcess[str]":
    """``torchrun WORDS`` with two processes; ``out``: what they write, taken away before another try."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1",
                   "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip  # whatever this machine calls itself, they meet on loopback
    for number in range(TRIES):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", *words],
            cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        if done.returncode == 0 or ABORT not in done.stderr:
            break
        warnings.warn(f"try {number + 1}: torch aborted a process of the group", stacklevel=2)
    assert done.returncode == 0, done.stderr[-3000:]
    return done
