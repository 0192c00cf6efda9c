"""Two processes of a training group, started as a user starts them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def two_processes(*words: str, out: Path, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
    """``torchrun WORDS`` with two processes; ``out``: the folder they write into, empty when they start."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1",
                   "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip  # whatever this machine calls itself, they meet on loopback
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", *words],
        cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done
