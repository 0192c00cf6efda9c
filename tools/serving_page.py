"""The table of benchmarks/serving.py for people."""

from typing import Any


def block(record: dict[str, Any], source: str) -> str:
    """The tables of a record."""
    made, first = record["environment"], record["results"][0]
    rows = [
        f"| {result['backbone']} at {result['input_size']} px | {kind} | {row['requests_per_s']:.0f} | "
        f"{row['p50_ms']:.0f} | {row['p99_ms']:.0f} | {row['cpu_ms_per_request']:.2f} |"
        for result in record["results"]
        for kind, row in result["servers"].items()
    ]
    gains = [
        f"{r['backbone']}: {r['speedup']:.1f} times the requests a second of the plain server ({r['speedup_ordered']:.1f} "
        f"times those of the one in order), at {r['cpu_speedup']:.1f} times fewer processor seconds each"
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
        f"medians of {first['repeats']} alternating runs; `{source}`. Plain: one forward pass per request, as many at a "
        "time as the framework has threads; in order: no more at a time than processors, each on one thread. One pass at a "
        "time: the same service with one batch on all processors instead of one on each.",
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
    return "\n".join(lines)
