"""The service under load on loopback: micro-batching against a plain server that runs one forward pass per request.

    python benchmarks/serving.py --out benchmarks/results/serving.json
    python tools/make_results.py serving              the table of docs/dev/faults.md from the JSON

The servers are processes of their own with the same model, the same HTTP stack and the same body (one JPEG, multipart); the
clients are another. To see where the gain comes from: the service with one pass at a time on all processors, the one from
the exported ONNX graph, and a plain server that runs no more passes at a time than there are processors. Runs alternate, so
that a busy moment of the machine meets all; the medians count. Then 10,000 connections are opened at once and dropped, and
the service must still answer. `decide_ms` is what a pass costs an image on one processor without any server, by batch size:
what micro-batching can save at most.
"""

import argparse
import asyncio
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

from serving_clients import load, storm
from serving_servers import SERVERS, decide_times, make_model


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
        **{
            name: round(summary["micro-batching"]["requests_per_s"] / summary[kind]["requests_per_s"], 2)
            for name, kind in (("speedup", "plain"), ("speedup_ordered", "plain, in order"))
        },
        "cpu_speedup": round(
            summary["plain"]["cpu_ms_per_request"] / summary["micro-batching"]["cpu_ms_per_request"], 2
        ),
        "mean_batch": round(counters["wildspec_batch_images_sum"] / batches, 1),
        "decide_ms": alone,
        "one_client": {key: round(single[key], 2) for key in ("requests_per_s", "p50_ms", "p99_ms")},
        "storm": dropped,
    }  # fmt: skip


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
    args = parser.parse_args()
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
