"""SpectralClassifier from 10 thousand to a million samples: fit time, scoring rate, peak memory, beside LabelSpreading.

    python benchmarks/estimator.py --sizes 10000,30000,100000
    python benchmarks/estimator.py --sizes 1000000 --spreading-up-to 0 --quantized ""

At every size up to --spreading-up-to LabelSpreading(kernel="knn") runs right after ours, in one run on the same samples.
Results are kept in benchmarks/results/estimator.json by size: a later run replaces its own sizes and leaves the others.
Every size runs in a process of its own, so that peak memory is its own. The data are made: 20 known and 5 unknown classes
as clouds of low intrinsic dimension in 256 dimensions, a shift that moves and stretches them; 10 % of the samples (at most
20,000) are labelled, of the rest 40 % are like them, 50 % shifted, 10 % shifted and unknown. No figure is a promise for
other data; the growth with the number of samples is what is measured. Up to 100,000 samples the graph falls into 25 pieces,
one a class; with fewer eigenvectors than that the pieces themselves would be taken and nothing solved
(`wildspec.graph.pieces`). --components 32 makes the solver work as it must on samples that hang together.
"""

import argparse
import json
import multiprocessing
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.files import read_json, write_json
from wildspec.provenance import environment

PARTS = {  # what the fit spends its time on: name -> a function of a module of wildspec
    "shift": "decision.rule:find_shift",
    "neighbours": "graph.wild_graph:_neighbors",
    "eigenvectors": "graph.wild_graph:_factorize",
    "comparison": "decision.rule:evidence",
    "probes": "decision.rule:fit_probe",
}

WIDTH, KNOWN, UNKNOWN, INNER = 256, 20, 5, 12
QUERIES = 10_000


def make(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, 256) float32, y (-1 = wild), and test rows with their classes (-1 = unknown), half of them shifted."""
    rng = np.random.default_rng(seed)
    centres = 0.4 * rng.normal(size=(KNOWN + UNKNOWN, WIDTH)).astype(np.float32)
    inner = rng.normal(size=(KNOWN + UNKNOWN, INNER, WIDTH)).astype(np.float32) / np.sqrt(INNER)
    move, stretch = rng.normal(size=WIDTH).astype(np.float32), np.exp(0.3 * rng.normal(size=WIDTH)).astype(np.float32)

    def draw(classes: np.ndarray, shifted: np.ndarray) -> np.ndarray:
        rows = np.empty((len(classes), WIDTH), np.float32)
        for c in range(KNOWN + UNKNOWN):
            at = np.flatnonzero(classes == c)
            noise = rng.normal(size=(len(at), INNER)).astype(np.float32) @ inner[c]
            rows[at] = centres[c] + noise + 0.3 * rng.normal(size=(len(at), WIDTH)).astype(np.float32)
        rows[shifted] = rows[shifted] * stretch + move
        return rows + 2

    labelled = min(count // 10, 20_000)
    wild = count - labelled
    kinds = rng.choice(3, size=wild, p=[0.4, 0.5, 0.1])
    classes = np.where(kinds == 2, rng.integers(KNOWN, KNOWN + UNKNOWN, wild), rng.integers(0, KNOWN, wild))
    y = rng.integers(0, KNOWN, labelled)
    rows = np.concatenate([draw(y, np.zeros(labelled, bool)), draw(classes, kinds > 0)])
    asked = rng.integers(0, KNOWN + UNKNOWN, QUERIES)
    tests = draw(asked, (np.arange(QUERIES) % 2 == 0) | (asked >= KNOWN))
    return rows, np.concatenate([y, np.full(wild, -1)]), tests, np.where(asked < KNOWN, asked, -1)


def ours(count: int, queue: Any, components: int) -> None:
    from scipy.sparse.csgraph import connected_components

    from wildspec import SpectralClassifier
    from wildspec.evaluation import auroc

    rows, y, tests, truth = make(count)
    before = _peak()
    parts = _timed_parts()
    start, spent = time.perf_counter(), time.process_time()
    model = SpectralClassifier(n_components=components, random_state=0).fit(rows, y)
    fit, spent = time.perf_counter() - start, time.process_time() - spent
    start = time.perf_counter()
    parts = dict(parts)  # of the fit alone
    scores = model.ood_score(tests)
    rate = len(tests) / (time.perf_counter() - start)
    likely = model.classes_[model.predict_proba(tests).argmax(axis=1)]
    known = truth >= 0
    right, shifted = (likely == truth)[known], (np.arange(len(truth)) % 2 == 0)[known]
    graph = model.model_.graph
    pieces = 0 if graph is None else connected_components(graph.neighbors.kernel, directed=False)[0]
    queue.put({
        "samples": count, "width": WIDTH, "n_components": components, "labelled": int((y >= 0).sum()), "fit_seconds": fit,
        "fit_cpu_seconds": spent, "parts_seconds": parts, "load_average": os.getloadavg()[0], "scores_per_second": rate,
        "peak_gib": _peak(), "data_gib": rows.nbytes / 2**30, "before_fit_gib": before, "recall": model.recall_,
        "kernel_entries": 0 if graph is None else int(graph.neighbors.kernel.nnz), "created": environment()["created"],
        "commit": environment()["commit"], "search": None if graph is None else graph.neighbors.method,
        "graph_nodes": 0 if graph is None else len(graph),
        "graph_pieces": int(pieces), "accuracy": float(right.mean()), "accuracy_shifted": float(right[shifted].mean()),
        "accuracy_by_class": [round(float(right[shifted & (truth[known] == c)].mean()), 4) for c in range(KNOWN)],
        "accuracy_clean": float(right[~shifted].mean()), "auroc": auroc(scores[known], scores[~known]),
    })  # fmt: skip


def _timed_parts() -> dict[str, float]:
    """Seconds by part, filled while the estimator works."""
    import importlib

    spent = dict.fromkeys(PARTS, 0.0)
    for part, place in PARTS.items():
        module, name = place.split(":")
        home = importlib.import_module(f"wildspec.{module}")
        setattr(home, name, _watched(getattr(home, name), part, spent))
    return spent


def _watched(work: Any, part: str, spent: dict[str, float]) -> Any:
    def run(*args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return work(*args, **options)
        finally:
            spent[part] += time.perf_counter() - start

    return run


def spreading(count: int, queue: Any) -> None:
    from sklearn.semi_supervised import LabelSpreading

    rows, y, tests, truth = make(count)
    start = time.perf_counter()
    model = LabelSpreading(kernel="knn", n_neighbors=10, n_jobs=-1).fit(rows, y)
    fit = time.perf_counter() - start
    start = time.perf_counter()
    found = model.predict(tests[:1000])
    rate = 1000 / (time.perf_counter() - start)
    known = truth[:1000] >= 0
    queue.put({
        "samples": count, "created": environment()["created"], "commit": environment()["commit"],
        "load_average": os.getloadavg()[0], "fit_seconds": fit, "scores_per_second": rate, "peak_gib": _peak(),
        "accuracy": float((found == truth[:1000])[known].mean()),
    })  # fmt: skip


def quantized(count: int, queue: Any) -> None:
    """Bytes of a bank row and the share of the 10 true neighbours found, by the number of bytes it is squeezed into."""
    import faiss

    from wildspec.graph.search import unit_rows

    rows, _, tests, _ = make(count)
    bank, asked = unit_rows(rows), unit_rows(tests)[:1000]
    truth = faiss.knn(asked, bank, 10)[1]
    found = []
    for name, key, size in (("float32", "Flat", 4 * WIDTH), ("float16", "SQfp16", 2 * WIDTH), ("int8", "SQ8", WIDTH)):
        index = faiss.index_factory(WIDTH, key, faiss.METRIC_L2)
        index.train(bank[:20_000])
        index.add(bank)
        hits = index.search(asked, 10)[1]
        recall = float(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(hits, truth, strict=True)]))
        found.append({"kind": name, "bytes_per_row": size, "recall_at_10": recall})
    queue.put({"samples": count, "created": environment()["created"], "banks": found})


def growth(runs: list[dict[str, Any]], name: str) -> float | None:
    """Slope of log(time) over log(samples), by least squares."""
    if len(runs) < 2:
        return None
    sizes, seconds = (np.log([run[key] for run in runs]) for key in ("samples", name))
    return float(np.polyfit(sizes, seconds, 1)[0])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _apart(work: Any, count: int, limit: float, *rest: Any) -> dict[str, Any]:
    """The work in a process of its own; where it gave no result, whether it ran out of time or died."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(count, queue, *rest))
    process.start()
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if not queue.empty():
            found = queue.get()
            process.join()
            return found
        if not process.is_alive():
            return queue.get() if not queue.empty() else {"samples": count, "died": process.exitcode}
        time.sleep(0.5)
    process.kill()
    return {"samples": count, "not_within_seconds": limit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,30000,100000")
    parser.add_argument("--components", type=int, default=32, help="n_components of ours")
    parser.add_argument("--spreading-up-to", type=int, default=100_000, help="largest size for LabelSpreading(kernel='knn')")
    parser.add_argument("--quantized", default="100000", help="sizes of the bank that is squeezed")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/estimator.json"))
    options = parser.parse_args()
    document: dict[str, Any] = {"spectral": [], "label_spreading": [], "quantized": []}
    if options.out.exists():
        document = read_json(options.out)
    document["environment"] = environment()
    document["commands"] = sorted({*document.get("commands", []), document["environment"]["command"]})
    jobs: list[tuple[str, Any, int, tuple[Any, ...]]] = []
    for count in (int(size) for size in options.sizes.split(",") if size):
        jobs.append(("spectral", ours, count, (options.components,)))
        if count <= options.spreading_up_to:
            jobs.append(("label_spreading", spreading, count, ()))
    jobs += [("quantized", quantized, int(size), ()) for size in options.quantized.split(",") if size]
    for name, work, count, rest in jobs:
        found = _apart(work, count, options.limit, *rest)
        kept = [run for run in document[name] if run["samples"] != count]
        document[name] = sorted([*kept, found], key=lambda run: run["samples"])
        print(name, json.dumps(found), flush=True)
        done = [run for run in document["spectral"] if "fit_seconds" in run]
        document["growth"] = {kind: growth(done, kind) for kind in ("fit_seconds", "fit_cpu_seconds")}
        write_json(options.out, document)
    print("fit time grows as samples ^", read_json(options.out)["growth"])


if __name__ == "__main__":
    main()
