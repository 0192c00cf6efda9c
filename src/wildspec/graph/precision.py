"""Detectors compute in the precision of their numbers, whatever the training script around them has switched on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def exact_arithmetic(device: torch.device) -> Iterator[None]:
    """No autocast and no TF32: its ten bits of mantissa would shuffle neighbours that are 0.03 apart."""
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda":
            yield
            return
        matmul = torch.backends.cuda.matmul
        # torch 2.9 renamed the switch; reading the old one after someone set the new one is an error there
        name, exact = ("fp32_precision", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", False)
        before = getattr(matmul, name)
        setattr(matmul, name, exact)
        try:
            yield
        finally:
            setattr(matmul, name, before)
