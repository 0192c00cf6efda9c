"""A service at every one of its limits at once, for as long as is asked: what is answered, and whether memory grows.

    taskset -c 1 nice -n 15 python benchmarks/faults/limits.py --seconds 600        (on one core)

Clients ask again as soon as they are answered: requests of as many images as are allowed, bodies of the largest size, images
of the most pixels, more requests at once than fit the queue, clients that do not read, heads that never end.
"""

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import Service, encoded, pictures, record, serving, small_model

LIMITS = ("--max-images", 8, "--max-body-mb", 4, "--max-pixels", 1_000_000, "--max-request-pixels", 4_000_000,
          "--max-queue", 16, "--seconds", 5, "--decode-seconds", 3)  # fmt: skip


def form(files: list[bytes]) -> bytes:
    head = '--X\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
    return b"".join(head.encode() + data + b"\r\n" for data in files) + b"--X--\r\n"


def raw(service: Service, message: bytes, wait: float) -> str:
    """Send and do not read for ``wait`` seconds; what became of it."""
    try:
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as one:
            one.sendall(message)
            time.sleep(wait)
            return "closed" if one.recv(1 << 16) is not None else ""
    except OSError as error:
        return type(error).__name__


def clients(service: Service) -> dict[str, Any]:
    small, large = encoded(pictures(1)[0][0]), encoded(np.zeros((1000, 1000, 3), np.uint8))
    noise = np.random.default_rng(0).integers(0, 256, (1000, 1000, 3), dtype=np.uint8)
    head = b"POST /v1/predict?neighbours=20&pictures=true HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
    many, kind = form([small] * 8), "multipart/form-data; boundary=X"
    unread = head + kind.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(many) + many
    return {
        "one image": lambda: service.ask(small)[0],
        "most pixels": lambda: service.ask(large)[0],
        "too many pixels": lambda: service.ask(encoded(np.zeros((1001, 1000, 3), np.uint8)))[0],
        "most images": lambda: service.ask(many, kind=kind)[0],
        "too many images": lambda: service.ask(form([small] * 9), kind=kind)[0],
        "most pixels together": lambda: service.ask(form([large] * 4), kind=kind)[0],
        "too many pixels together": lambda: service.ask(form([large] * 5), kind=kind)[0],
        "largest body": lambda: service.ask(encoded(noise))[0],
        "too large a body": lambda: service.ask(bytes(4_100_000))[0],
        "unread": lambda: raw(service, unread, 1.0),
        "half a head": lambda: raw(service, b"GET / HTTP/1.1\r\nX: y", 1.0),
        "half a body": lambda: raw(service, head + b"image/png\r\nContent-Length: 999\r\n\r\nx", 1.0),
    }


def main(model: Path, seconds: float, each: int = 4) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = {}
    with serving(model, *LIMITS) as service:
        until = time.monotonic() + seconds

        def work(name: str, ask: Any) -> None:
            while time.monotonic() < until:
                counts.setdefault(name, Counter())[str(ask())] += 1

        chosen = clients(service)
        threads = [threading.Thread(target=work, args=item) for item in chosen.items() for _ in range(each)]
        for thread in threads:
            thread.start()
        memory = []
        while time.monotonic() < until:
            time.sleep(max(1.0, seconds / 20))
            memory.append(round(service.megabytes()))
        for thread in threads:
            thread.join()
        alive, after = service.process.poll() is None, service.ask(encoded(pictures(1)[0][0]))[0]
        ended = service.end()
    answers = {name: dict(found) for name, found in sorted(counts.items())}
    return {"seconds": seconds, "cores": len(os.sched_getaffinity(0)), "clients": len(threads), "answers": answers,
            "megabytes": memory, "alive": alive, "after": after, "ended_after_s": round(ended, 2)}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    with tempfile.TemporaryDirectory() as place:
        record("limits", main(small_model(Path(place) / "model"), parser.parse_args().seconds))
