"""The service under load on loopback: micro-batching against a plain server that runs one forward pass per request.

    python benchmarks/serving.py --out benchmarks/results/serving.json
    python benchmarks/serving.py --out benchmarks/results/serving.json --page docs/howto-deploying.md

Both servers are processes of their own with the same model, the same HTTP stack and the same body (one JPEG, multipart); the
clients are a third. Beside them, to see where the gain comes from: the service with one pass at a time on all processors,
and the service from the exported ONNX graph. Runs alternate, so that a busy moment of the machine meets all; the medians
count. Then 10,000 connections are opened at once and dropped, and the service must still answer. `decide_ms` is what a pass
costs an image on one processor without any server, by batch size: what micro-batching can save at most.
"""

import argparse
import asyncio
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

BOUNDARY = "wildspec-benchmark"
MARKS = ("<!-- serving:begin -->", "<!-- serving:end -->")


# -- the servers --------------------------------------------------------------------------------------------------------
def make_model(path: Path, backbone: str, labelled: int, size: int) -> None:
    """A model with a bank of about ``labelled`` rows; barely trained: what it says does not matter here."""
    from wildspec import WildClassifier
    from wildspec.bundle.onnx_export import export_onnx
    from wildspec.serving.engine import BundleEngine

    rng = np.random.default_rng(0)
    labels = np.arange(labelled) % 10
    images = np.clip(labels[:, None, None, None] * 20 + rng.normal(40, 30, (labelled, size, size, 3)), 0, 255)
    model = WildClassifier(
        backbone=backbone, method="erm", epochs=0.05, size=size, device="cpu", held_out=0.1, detector="knn"
    )
    model.fit((images.astype(np.uint8), labels), images[:64].astype(np.uint8))
    model.save(path)
    export_onnx(model.fitted_, path.with_suffix(".onnx"), BundleEngine(model, path.name).describe())


def plain_server(bundle: Path, port: int) -> None:
    """What one would write first: decode, one forward pass, answer; the framework's thread pool does the rest."""
    import uvicorn
    from fastapi import FastAPI, File, UploadFile

    from wildspec.serving.bodies import Upload, decode_all
    from wildspec.serving.engine import open_engine
    from wildspec.serving.service import result

    engine = open_engine(bundle, "cpu")
    app = FastAPI()

    @app.post("/v1/predict")
    def predict(images: UploadFile = File()) -> Any:
        pixels = decode_all([Upload("image", images.file.read())], engine.size, 25_000_000)
        return {"results": [result(engine, engine.decide(pixels, 3), 0, "image", False)]}

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


def batching_server(bundle: Path, port: int) -> None:
    from wildspec.serving.engine import open_engine
    from wildspec.serving.run import serve

    serve(open_engine(bundle, "cpu"), port=port, quiet=True)


def one_pass_server(bundle: Path, port: int) -> None:
    from wildspec.serving.engine import open_engine
    from wildspec.serving.run import serve

    engine = open_engine(bundle, "cpu")
    engine.passes = 1
    serve(engine, port=port, quiet=True)


def onnx_server(bundle: Path, port: int) -> None:
    batching_server(bundle.with_suffix(".onnx"), port)


SERVERS = {
    "micro-batching": batching_server, "one pass at a time": one_pass_server, "ONNX": onnx_server, "plain": plain_server,
}  # fmt: skip


def decide_times(bundle: Path, sizes: tuple[int, ...] = (1, 8, 32), repeats: int = 7) -> dict[str, dict[str, float]]:
    """Milliseconds an image, best of some, on one processor: network, detector and neighbours, from pixels in memory."""
    import torch

    from wildspec.serving.engine import open_engine

    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    for kind, path in (("torch", bundle), ("ONNX", bundle.with_suffix(".onnx"))):
        engine = open_engine(path, "cpu")
        rng = np.random.default_rng(0)
        for size in sizes:
            pixels = rng.integers(0, 256, (size, 3, engine.size, engine.size), dtype=np.uint8)
            best = float("inf")
            for _ in range(repeats + 2):
                began = time.perf_counter()
                engine.decide(pixels, 3)
                best = min(best, time.perf_counter() - began)
            found.setdefault(kind, {})[str(size)] = round(1000 * best / size, 3)
    return found


# -- the clients --------------------------------------------------------------------------------------------------------
def request_bytes(port: int, side: int) -> bytes:
    """One POST of one JPEG, ready to send."""
    from PIL import Image

    stream = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=85)
    body = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    ).encode() + stream.getvalue() + f"\r\n--{BOUNDARY}--\r\n".encode()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: int, clients: int, seconds: float, side: int) -> dict[str, Any]:
    """Clients that ask, wait for the answer, and ask again, each on its own connection."""
    message = request_bytes(port, side)
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    began = time.perf_counter()
    counted_from, until = began + 0.25 * seconds, began + 1.25 * seconds  # the first part warms up

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while (start := time.perf_counter()) < until:
                writer.write(message)
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:")
                await reader.readexactly(length)
                status = int(head[9:12])
                statuses[status] = statuses.get(status, 0) + 1
                if start >= counted_from and status == 200:
                    latencies.append(time.perf_counter() - start)
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    ordered = sorted(latencies)
    return {
        "requests_per_s": len(ordered) / seconds,
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        "statuses": statuses,
    }


async def storm(port: int, connections: int) -> dict[str, Any]:
    """Open many connections at once, send half a request on each, drop them all; then ask properly."""
    allow_files()
    gate = asyncio.Semaphore(1000)
    opened: list[asyncio.StreamWriter] = []
    refused = 0

    async def one(i: int) -> None:
        nonlocal refused
        async with gate:
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 60)
            except (OSError, asyncio.TimeoutError):
                refused += 1
                return
            if i % 2:
                writer.write(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\nhalf")
            opened.append(writer)

    await asyncio.gather(*(one(i) for i in range(connections)))
    at_once = len(opened)
    for writer in opened:
        writer.transport.abort()
    answers = await load(port, 8, 2.0, 64)
    return {"opened_at_once": at_once, "refused": refused, "afterwards": answers}


def allow_files() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))


# -- putting them together ----------------------------------------------------------------------------------------------
def free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


class Server:
    """One server in its own process."""

    def __init__(self, kind: str, bundle: Path) -> None:
        self.port = free_port()
        words = [sys.executable, __file__, "--server", kind, "--bundle", str(bundle), "--port", str(self.port)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def wait(self) -> None:
        import urllib.request

        until = time.monotonic() + 180
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.2)
        raise SystemExit("a server did not start")

    def processor_seconds(self) -> float:
        """Processor time it has used so far, all threads: unlike wall-clock rates, not changed by who else is at work."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def counters(self) -> dict[str, float]:
        import urllib.request

        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def clients_process(port: int, clients: int, seconds: float, side: int) -> dict[str, Any]:
    """The load from a process of its own: the servers' processors are theirs as far as there are enough."""
    words = [sys.executable, __file__, "--clients-of", str(port), "--clients", str(clients), "--seconds", str(seconds),
             "--side", str(side)]  # fmt: skip
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=600).stdout)


def compare(args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "model"
        make_model(bundle, args.backbone, args.bank, args.size)
        alone = decide_times(bundle)
        servers = {kind: Server(kind, bundle) for kind in SERVERS}
        rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in SERVERS}
        try:
            for server in servers.values():
                server.wait()
            for _ in range(args.repeats):
                for kind, server in servers.items():
                    before = server.processor_seconds()  # the other servers are idle meanwhile
                    row = clients_process(server.port, args.clients, args.seconds, args.side)
                    used = server.processor_seconds() - before
                    row["cpu_ms_per_request"] = 1000 * used / sum(row["statuses"].values())
                    rows[kind].append(row)
                    print(kind, {k: round(v, 2) for k, v in row.items() if k != "statuses"}, flush=True)
            counters = servers["micro-batching"].counters()
            single = clients_process(servers["micro-batching"].port, 1, min(5.0, args.seconds), args.side)
            dropped = asyncio.run(storm(servers["micro-batching"].port, args.storm)) if args.storm else None
        finally:
            for server in servers.values():
                server.stop()
    summary = {
        kind: {
            **{key: round(statistics.median(run[key] for run in runs), 2) for key in ("requests_per_s", "p50_ms", "p99_ms")},
            "runs": [round(run["requests_per_s"], 1) for run in runs],
            "cpu_ms_per_request": round(statistics.median(run["cpu_ms_per_request"] for run in runs), 3),
            "statuses": dict(sum((Counter(run["statuses"]) for run in runs), Counter())),
        }
        for kind, runs in rows.items()
    }
    batches = counters["wildspec_batch_images_count"]
    return {
        "backbone": args.backbone, "input_size": args.size, "bank": args.bank, "image_side": args.side,
        "clients": args.clients, "seconds": args.seconds, "repeats": args.repeats, "servers": summary,
        "speedup": round(summary["micro-batching"]["requests_per_s"] / summary["plain"]["requests_per_s"], 2),
        "cpu_speedup": round(
            summary["plain"]["cpu_ms_per_request"] / summary["micro-batching"]["cpu_ms_per_request"], 2
        ),
        "mean_batch": round(counters["wildspec_batch_images_sum"] / batches, 1),
        "decide_ms": alone,
        "one_client": {key: round(single[key], 2) for key in ("requests_per_s", "p50_ms", "p99_ms")},
        "storm": dropped,
    }  # fmt: skip


def fill_page(page: Path, record: dict[str, Any], source: str) -> None:
    """Put the table of a record between the marks of a page."""
    made, first = record["environment"], record["results"][0]
    rows = [
        f"| {result['backbone']} at {result['input_size']} px | {kind} | {row['requests_per_s']:.0f} | "
        f"{row['p50_ms']:.0f} | {row['p99_ms']:.0f} | {row['cpu_ms_per_request']:.2f} |"
        for result in record["results"]
        for kind, row in result["servers"].items()
    ]
    gains = [
        f"{r['backbone']}: {r['speedup']:.1f} times the requests a second of the plain server, at {r['cpu_speedup']:.1f} "
        "times fewer processor seconds each"
        for r in record["results"]
    ]
    alone = [
        f"| {r['backbone']} | {kind} | " + " | ".join(f"{times[size]:.2f}" for size in ("1", "8", "32")) + " |"
        for r in record["results"]
        for kind, times in r["decide_ms"].items()
    ]
    lines = [
        f"Measured by `{made['command']}` on {made['hardware']['cores']} shared cores (load {record['load_before']:g} "
        f"before the run): {first['clients']} clients that ask again as soon as they are answered, one JPEG a request; "
        f"medians of {first['repeats']} alternating runs; `{source}`. Plain: one forward pass per request. One pass at "
        "a time: the same service with one batch on all processors instead of one on each.",
        "",
        "| network | server | requests/s | p50, ms | p99, ms | processor ms a request |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "; ".join(gains) + ".",
        "",
        "What batching can save is what a pass costs beyond arithmetic. Milliseconds an image, one processor, no server, by "
        "images in a pass:",
        "",
        "| network | from | 1 | 8 | 32 |",
        "|---|---|---|---|---|",
        *alone,
        "",
    ]
    if storm := first["storm"]:
        after = ", ".join(f"{count:,} with status {status}" for status, count in storm["afterwards"]["statuses"].items())
        lines.append(f"{storm['opened_at_once']:,} connections opened at once and dropped; answered after that: {after}.")
    head, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    tail = rest.split(MARKS[1])[1]
    page.write_text("\n".join([head + MARKS[0], *lines, MARKS[1] + tail]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--backbone", nargs="+", default=["small", "wrn40_2"])
    parser.add_argument("--size", type=int, default=32, help="side of the network's input")
    parser.add_argument("--side", type=int, default=64, help="side of the images sent")
    parser.add_argument("--bank", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--storm", type=int, default=10_000, help="connections opened at once and dropped")
    parser.add_argument("--server", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--bundle", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--clients-of", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, help="only fill this page from the JSON at --out")
    args = parser.parse_args()
    if args.page:
        fill_page(args.page, json.loads(args.out.read_text()), args.out.as_posix())
        return
    if args.server:
        SERVERS[args.server](args.bundle, args.port)
        return
    if args.clients_of:
        print(json.dumps(asyncio.run(load(args.clients_of, args.clients, args.seconds, args.side))))
        return
    from wildspec.files import write_json
    from wildspec.provenance import environment

    load_before = os.getloadavg()[0]
    results = [compare(argparse.Namespace(**{**vars(args), "backbone": name, "storm": args.storm if i == 0 else 0}))
               for i, name in enumerate(args.backbone)]  # fmt: skip
    record = {"load_before": round(load_before, 2), "results": results, "environment": environment()}
    print(json.dumps(record, indent=2))
    if args.out:
        write_json(args.out, record)


if __name__ == "__main__":
    main()
