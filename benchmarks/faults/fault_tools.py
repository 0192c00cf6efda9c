"""What the fault scripts share: a small model, the service as a process, a plain client, and the record of a run."""

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from wildspec.files import write_json
from wildspec.provenance import environment

RESULTS = Path(__file__).resolve().parents[1] / "results" / "faults"


def pictures(count: int, side: int = 32, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, S, S, 3) uint8 and class numbers 0, 1, 2: noise around three levels of grey."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = labels[:, None, None, None] * 70 + rng.normal(50, 20, (count, side, side, 3))
    return np.clip(images, 0, 255).astype(np.uint8), labels


def encoded(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(stream, kind, **options)
    return stream.getvalue()


def write_folder(root: Path, count: int, side: int = 32) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for i, image in enumerate(pictures(count, side)[0]):
        (root / f"{i:05d}.png").write_bytes(encoded(image))
    return root


def small_model(path: Path) -> Path:
    """A bundle; barely trained: what it says does not matter here."""
    from wildspec import Training, WildClassifier

    images, labels = pictures(120)
    model = WildClassifier("small", training=Training("erm", epochs=0.05, detector="knn"), size=32, device="cpu")
    model.fit((images, labels), pictures(40, seed=1)[0]).save(path)
    return path


def command(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """``wildspec WORDS`` in a process of its own."""
    options.setdefault("env", dict(os.environ))
    return subprocess.run(
        [sys.executable, "-m", "wildspec", *map(str, words)], capture_output=True, text=True, timeout=600, **options
    )


class Service:
    """A running service and how to ask it."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process, self.port = process, port

    def ask(
        self,
        body: bytes | None = None,
        path: str = "/v1/predict",
        timeout: float = 120,
        kind: str = "image/*",
        token: str = "",
    ) -> tuple[int, float]:
        """Status (0: no answer) and seconds; with a body a POST of one image, or of what ``kind`` says."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {token}"} if token else {})
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status, time.monotonic() - began
        except OSError:
            return 0, time.monotonic() - began
        finally:
            connection.close()

    def end(self) -> float:
        """SIGTERM; seconds until the process is gone."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(300)
        return time.monotonic() - began

    def megabytes(self) -> float:
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serving(model: Path, *options: object) -> Iterator[Service]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = int(holder.getsockname()[1])
    words = [sys.executable, "-m", "wildspec", "serve", model, "--port", port, "--device", "cpu", "--quiet", *options]
    process = subprocess.Popen([*map(str, words)], stderr=subprocess.PIPE, text=True)
    service = Service(process, port)
    try:
        until = time.monotonic() + 120
        while service.ask(path="/readyz", timeout=5)[0] != 200:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(process.stderr.read() if process.stderr else "the service did not start")
            time.sleep(0.1)
        yield service
    finally:
        process.kill()
        process.wait()


def record(name: str, found: dict[str, Any]) -> None:
    """Write benchmarks/results/faults/NAME.json and print it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_json(RESULTS / f"{name}.json", {"fault": name, **found, "environment": environment()})
    print(json.dumps(found, indent=1))
