"""The generated parts of docs/scale.md: what was measured, and what follows for 100 million and a billion samples.

Everything is arithmetic on benchmarks/results/estimator.json and pretrain.json, shown with its factors.
"""

from typing import Any

from wildspec.bench.render import markdown_table

SIZES = (10**8, 10**9)
CORES = 2  # of the machine that was measured
NODE = 16  # cores of the machines that the projections count in
PIECE = 10**6  # rows of the bank that one Ray task holds (wildspec.graph.ray_engine)
EPOCHS = 10  # of the network's first stage, for the sake of an example
PARAMETERS = 2_243_546  # of WRN-40-2
FEATURES = 128
IMAGE_BYTES = 3 * 32 * 32


def blocks(estimator: dict[str, Any], pretrain: dict[str, Any]) -> dict[str, str]:
    """Name of the block in docs/scale.md -> text."""
    largest = max((run for run in estimator["spectral"] if "fit_seconds" in run), key=lambda run: run["samples"])
    return {
        "scale-measured": measured(estimator),
        "scale-parts": parts(estimator),
        "scale-banks": banks(estimator),
        "scale-sample": sample_route(largest),
        "scale-graph": graph_route(largest),
        "scale-network": network_route(pretrain),
    }


def measured(document: dict[str, Any]) -> str:
    """Fit, scoring and memory by size, LabelSpreading beside it, the growth."""
    other = {run["samples"]: run for run in document["label_spreading"]}
    sizes = sorted({run["samples"] for run in document["spectral"]} | set(other))
    mine = {run["samples"]: run for run in document["spectral"]}
    titles = ["samples", "fit, s", "fit, CPU s", "scores per s", "peak, GiB", "search", "recall", "accuracy",
              "LabelSpreading: fit, s", "peak, GiB", "accuracy"]  # fmt: skip
    lines = []
    for size in sizes:
        run, rival = mine.get(size, {}), other.get(size, {})
        lines.append([
            f"{size:,}", _number(run, "fit_seconds"), _number(run, "fit_cpu_seconds"),
            _number(run, "scores_per_second", ",.0f"), _number(run, "peak_gib", ".2f"), str(run.get("search") or "–"),
            _number(run, "recall", ".3f"), _number(run, "accuracy", ".3f"), _number(rival, "fit_seconds"),
            _number(rival, "peak_gib", ".2f"), _number(rival, "accuracy", ".3f"),
        ])  # fmt: skip
    hardware = document["environment"]["hardware"]
    slope = document["growth"]
    return markdown_table(titles, lines, 0) + (
        f"\n\n{hardware['cores']} cores of {hardware['cpu']}, {hardware['memory_gib']:g} GiB. Fit time grows as the number "
        f"of samples to the power {slope['fit_seconds']:.2f} (CPU time: {slope['fit_cpu_seconds']:.2f})."
    )


def parts(document: dict[str, Any]) -> str:
    """Where the time of a fit goes."""
    runs = [run for run in document["spectral"] if "parts_seconds" in run]
    names = list(runs[0]["parts_seconds"])
    lines = []
    for run in runs:
        spent = run["parts_seconds"]
        rest = run["fit_seconds"] - sum(spent.values())
        lines.append([f"{run['samples']:,}", *(f"{spent[name]:.1f}" for name in names), f"{rest:.1f}"])
    return markdown_table(["samples", *names, "rest"], lines, 0)


def banks(document: dict[str, Any]) -> str:
    """What a row of the bank costs, and what squeezing it loses."""
    found = max(document["quantized"], key=lambda run: run["samples"])
    lines = []
    for bank in found["banks"]:
        sizes = [_bytes(bank["bytes_per_row"] * size) for size in SIZES]
        lines.append([bank["kind"], str(bank["bytes_per_row"]), f"{bank['recall_at_10']:.3f}", *sizes])
    titles = ["row of 256 numbers", "bytes", "recall of 10 neighbours", *(f"{size:,} rows" for size in SIZES)]
    return markdown_table(titles, lines, 1) + f"\n\nRecall on a bank of {found['samples']:,} rows, 1,000 queries."


def sample_route(run: dict[str, Any]) -> str:
    """Fit on a sample of the size that was measured, score everything."""
    rate = run["scores_per_second"]
    titles = [
        "samples", f"read once, {4 * run['width']:,} bytes a row", f"fit on {run['samples']:,} of them",
        f"score: samples / {rate:,.0f} per s", f"the same on 10 machines of {NODE} cores",
    ]  # fmt: skip
    lines = []
    for size in SIZES:
        times = [_time(seconds) for seconds in (run["fit_seconds"], size / rate, size / rate * CORES / (10 * NODE))]
        lines.append([f"{size:,}", _bytes(4 * run["width"] * size), *times])
    return markdown_table(titles, lines, 0)


def graph_route(run: dict[str, Any]) -> str:
    """Every sample in the graph: neighbours on Ray, eigenvectors on one machine."""
    nodes, spent = run["graph_nodes"], run["parts_seconds"]
    search, solve = CORES * spent["neighbours"] / nodes, spent["eigenvectors"] / nodes
    share = nodes / run["samples"]
    memory = (run["peak_gib"] - run["before_fit_gib"]) * 2**30 / run["samples"]
    said = (
        f"Measured at {run['samples']:,} samples, {nodes:,} of them in the graph ({share:.0%}): neighbours "
        f"{1e6 * search:.0f} microseconds of one core a node, eigenvectors {1e6 * solve:.0f} microseconds a node on "
        f"{CORES} cores, {memory:,.0f} bytes a sample at the peak beyond what was in use before.\n\n"
    )
    titles = ["samples", "nodes", f"pieces of {PIECE:,}", f"neighbours: nodes x pieces x {1e6 * search:.0f} us",
              "pieces moved to each machine", "eigenvectors, one machine", "its memory"]  # fmt: skip
    lines = []
    for size in SIZES:
        count = share * size
        pieces = count / PIECE
        hours = f"{count * pieces * search / 3600:,.0f} core hours"
        moved, kept = _bytes(4 * run["width"] * count), _bytes(memory * size)
        lines.append([f"{size:,}", f"{count:,.0f}", f"{pieces:,.0f}", hours, moved, _time(count * solve), kept])
    return said + markdown_table(titles, lines, 0)


def network_route(document: dict[str, Any]) -> str:
    """Training a network on images, from the rate of one GPU."""
    rate = document["views_per_s"]
    hardware = document["environment"]["hardware"]
    moments = 4 * (4 * FEATURES**2)
    said = (
        f"Measured: {rate:,} views a second on one {hardware.get('gpu', 'GPU')} (WRN-40-2, 32 x 32). Two views a sample. "
        f"Bytes exchanged a step: {PARAMETERS:,} gradients x 4 = {_bytes(4 * PARAMETERS)}, and 4 moments of "
        f"{FEATURES} x {FEATURES} x 4 = {_bytes(moments)}, whatever the batch.\n\n"
    )
    titles = ["samples", "pixels", f"one epoch: 2 x samples / {rate:,}", f"{EPOCHS} epochs on 8 GPUs", "read by each GPU",
              f"bank of {FEATURES} float32"]  # fmt: skip
    lines = []
    for size in SIZES:
        epoch = 2 * size / rate
        pixels, read, bank = (_bytes(count) for count in (IMAGE_BYTES * size, IMAGE_BYTES * rate / 2, 4 * FEATURES * size))
        lines.append([f"{size:,}", pixels, _time(epoch), _time(EPOCHS * epoch / 8), f"{read} a second", bank])
    return said + markdown_table(titles, lines, 0)


def _number(run: dict[str, Any], name: str, form: str = ".1f") -> str:
    if name in run:
        return format(run[name], form)
    return f"over {run['not_within_seconds']:.0f}" if "not_within_seconds" in run and name == "fit_seconds" else "–"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
