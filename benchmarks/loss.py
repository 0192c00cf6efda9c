"""The moment form of the spectral loss against the pairwise form: time and memory, forward and backward, in one run.

    python benchmarks/loss.py --out benchmarks/results/loss.json

Each form runs in a process of its own, so that peak memory is its own; times are medians of alternating repetitions.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from wildspec.files import write_json
from wildspec.losses import spectral_loss
from wildspec.provenance import environment


def pairwise_loss(z1: Tensor, z2: Tensor, labels: Tensor, u1: Tensor, u2: Tensor, eta_l: float, eta_u: float) -> Tensor:
    """The same loss with every n x n, n x m and m x m matrix of inner products formed."""
    n, m = len(z1), len(u1)
    count = torch.bincount(labels)[labels].to(z1.dtype)
    same = (labels[:, None] == labels[None, :]).to(z1.dtype)
    zz, zu, uz, uu = z1 @ z2.T, z1 @ u2.T, u1 @ z2.T, u1 @ u2.T
    l1 = (same * zz / count[:, None] ** 2).sum()
    l2 = (u1 * u2).sum(1).mean()
    off_z, off_u = 1 - torch.eye(n), 1 - torch.eye(m)
    l3 = (off_z * zz**2 / (count[:, None] * count[None, :])).sum()
    l4 = 0.5 * ((zu**2 / count[:, None]).sum() + (uz**2 / count[None, :]).sum()) / m
    l5 = (off_u * uu**2).sum() / (m * (m - 1))
    return -2 * eta_l * l1 - 2 * eta_u * l2 + eta_l**2 * l3 + 2 * eta_l * eta_u * l4 + eta_u**2 * l5


def run(form: str, batch: int, dim: int, repeats: int) -> dict[str, float]:
    """Time and peak memory of forward + backward on ``batch`` samples, half labelled, half wild."""
    torch.manual_seed(0)
    half = batch // 2
    views = [torch.nn.functional.normalize(torch.randn(half, dim)).requires_grad_() for _ in range(4)]
    labels = torch.arange(half) % 10
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, value = [], 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        if form == "moments":
            loss = spectral_loss(views[0], views[1], labels, views[2], views[3], eta_l=0.5, eta_u=2.0, num_classes=10).total
        else:
            loss = pairwise_loss(views[0], views[1], labels, views[2], views[3], 0.5, 2.0)
        loss.backward()
        seconds.append(time.perf_counter() - started)
        value = loss.item()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": statistics.median(seconds), "memory_mib": (peak - before) / 1024, "loss": value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16_384)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--form", choices=("moments", "pairwise"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.form:
        print(json.dumps(run(arguments.form, arguments.batch, arguments.dim, arguments.repeats)))
        return
    found: dict[str, list[dict[str, float]]] = {"moments": [], "pairwise": []}
    for _ in range(2):  # alternate: the machine's mood is shared
        for form, results in found.items():
            command = [sys.executable, __file__, "--form", form, "--batch", str(arguments.batch),
                       "--dim", str(arguments.dim),
                       "--repeats", str(arguments.repeats)]
            results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    best = {form: {key: min(r[key] for r in results) for key in results[0]} for form, results in found.items()}
    out = {
        "benchmark": "loss", "batch": arguments.batch, "dim": arguments.dim, **best,
        "time_ratio": best["pairwise"]["seconds"] / best["moments"]["seconds"],
        "memory_ratio": best["pairwise"]["memory_mib"] / max(best["moments"]["memory_mib"], 1.0),
        "bar": {"time_ratio": 10, "memory_ratio": 10},
        "relative_difference": abs(best["pairwise"]["loss"] - best["moments"]["loss"]) / abs(best["pairwise"]["loss"]),
        "environment": environment(),
    }
    print(json.dumps({key: value for key, value in out.items() if key != "environment"}, indent=1))
    if arguments.out:
        write_json(arguments.out, out)


if __name__ == "__main__":
    main()
