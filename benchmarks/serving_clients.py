"""The clients of benchmarks/serving.py: a steady load, and a storm of connections that are opened and dropped."""

import asyncio
import io
import time
from typing import Any

import numpy as np

BOUNDARY = "wildspec-benchmark"


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
            except (TimeoutError, OSError):
                refused += 1
                return
            if i % 2:
                writer.write(b"POST /v1/predict HTTP/1.1\r\nHost: 127.1.1.1\r\nContent-Length: 9999\r\n\r\nhalf")
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
