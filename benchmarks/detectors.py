"""Speed and memory of detectors and metrics; every ratio compares runs of this process, taken in turns.

    python benchmarks/detectors.py                    all of it (minutes on a CPU)
    python benchmarks/detectors.py --device cuda      on a GPU
    python benchmarks/detectors.py --quick            small sizes, to see that it works
    python benchmarks/detectors.py --table            the table of docs/dev/speed.md from the committed results

Writes benchmarks/results/detectors.json (detectors-cuda.json on a GPU): the KNN search of 50,000 x 128 bank rows by 10,000
queries against faiss, plain torch and scikit-learn; vectors per second and peak memory of every detector that scores
features or logits; the 1,000-class, 2,048-feature Mahalanobis fit; all metrics of 10 million scores.
"""

import argparse
import ctypes
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.detectors import KNN, Detector, Mahalanobis, build_detector, detector_names, names_for
from wildspec.evaluation import separation
from wildspec.files import read_json, write_json
from wildspec.provenance import environment

RESULTS = Path(__file__).parent / "results"
K = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of every contestant")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--search-vectors", type=int, default=1_000_000, help="vectors for the detectors that search a bank")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print(table())
        return
    device = torch.device(arguments.device)
    torch.set_num_threads(arguments.threads)
    if importlib.util.find_spec("faiss"):
        import faiss

        faiss.omp_set_num_threads(arguments.threads)
    shrink = 50 if arguments.quick else 1

    record: dict[str, Any] = {"environment": environment(), "device": device.type, "threads": arguments.threads}
    record["load_average_at_start"] = [round(value, 2) for value in os.getloadavg()]  # a busy machine shows here
    record["knn"] = knn(device, 50_000 // shrink, 10_000 // shrink, arguments.repeats)
    show(record["knn"])
    record["scoring"] = scoring(device, 1_000_000 // shrink, 50_000 // shrink, arguments.search_vectors // shrink)
    show(record["scoring"])
    record["mahalanobis_fit"] = mahalanobis_fit(device, 2_048 // (8 if arguments.quick else 1))
    show(record["mahalanobis_fit"])
    record["metrics"] = metrics(10_000_000 // shrink)
    show(record["metrics"])
    name = "detectors.json" if device.type == "cpu" else f"detectors-{device.type}.json"
    if arguments.out or not arguments.quick:
        write_json(arguments.out or RESULTS / name, record)


def knn(device: torch.device, bank_rows: int, queries: int, repeats: int) -> dict[str, Any]:
    """Seconds for the k-th distance of all queries, each contestant once per round."""
    generator = torch.Generator().manual_seed(0)
    bank = torch.randn(bank_rows, 128, generator=generator).relu().to(device)
    samples = torch.randn(queries, 128, generator=generator).relu().to(device)
    detector = KNN(k=K).fit(features=bank)
    unit_bank, unit = detector.bank_, nn.functional.normalize(samples, dim=1)

    def plain_torch() -> Tensor:
        parts = [(block @ unit_bank.T).topk(K, dim=1).values[:, -1] for block in unit.split(256)]
        return (2 - 2 * torch.cat(parts)).clamp(min=0).sqrt()

    contestants: dict[str, Callable[[], Any]] = {
        "wildspec": lambda: detector.score(features=samples),
        "plain_torch": plain_torch,
    }
    if device.type == "cpu" and importlib.util.find_spec("faiss"):
        import faiss
        from sklearn.neighbors import NearestNeighbors

        index = faiss.IndexFlatIP(128)
        index.add(unit_bank.numpy())
        contestants["faiss_flat_ip"] = lambda: index.search(unit.numpy(), K)
        brute = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(unit_bank.numpy())
        contestants["scikit_learn"] = lambda: brute.kneighbors(unit.numpy())
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        call()  # warm up
    for _ in range(repeats):
        for name, call in contestants.items():
            seconds[name].append(timed(call, device))
    difference = float((detector.score(features=samples) - plain_torch()).abs().max())
    best = {name: min(values) for name, values in seconds.items()}
    result: dict[str, Any] = {
        "bank": bank_rows, "queries": queries, "width": 128, "k": K, "repeats": repeats,
        "seconds_best": rounded(best),
        "seconds_median": rounded({name: statistics.median(values) for name, values in seconds.items()}),
        "largest_difference_to_plain_torch": difference,
    }  # fmt: skip
    if "faiss_flat_ip" in best:
        result["one_thread_cpu_seconds"] = one_thread(contestants, ("wildspec", "faiss_flat_ip"))
        alone = result["one_thread_cpu_seconds"]
        result["ratio_to_faiss_one_thread_cpu"] = round(alone["wildspec"] / alone["faiss_flat_ip"], 3)
        result["ratio_to_faiss_best"] = round(best["wildspec"] / best["faiss_flat_ip"], 3)
        in_turn = [a / b for a, b in zip(seconds["wildspec"], seconds["faiss_flat_ip"], strict=True)]
        result["ratio_to_faiss_median_of_rounds"] = round(statistics.median(in_turn), 3)
    return result


def one_thread(contestants: dict[str, Callable[[], Any]], names: tuple[str, ...], repeats: int = 3) -> dict[str, float]:
    """Least processor seconds of one thread: what other programs on the machine do not disturb."""
    import faiss

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            start = time.process_time()
            contestants[name]()
            seconds[name].append(time.process_time() - start)
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    return rounded({name: min(values) for name, values in seconds.items()})


def scoring(device: torch.device, vectors: int, train: int, search_vectors: int) -> dict[str, Any]:
    """Vectors per second and extra peak memory of every detector that needs no input gradient; width 128, 10 classes."""
    generator = torch.Generator().manual_seed(0)
    network = nn.Module()
    network.head = nn.Linear(128, 10)
    network.to(device)

    def draw(n: int) -> tuple[Tensor, Tensor, Tensor]:
        labels = torch.randint(0, 10, (n,), generator=generator)
        centers = torch.eye(10, 128) * 3
        features = (torch.randn(n, 128, generator=generator) + centers[labels]).relu().to(device)
        with torch.no_grad():
            return features, network.head(features), labels.to(device)

    features, logits, _ = draw(train)
    # the drawn head is untrained; its own predictions as labels let SHE find samples that are classified right
    fit = {"features": features, "logits": logits, "labels": logits.argmax(dim=1), "model": network}
    rows = []
    usual = {name: build_detector(name) for name in names_for(network)}
    fitted = {name: one.fit(**fit) for name, one in usual.items() if "inputs" not in one.score_needs}
    features, logits, _ = draw(vectors)
    for name, detector in fitted.items():
        detector.score(features=features[:1000], logits=logits[:1000])  # warm up

        n = search_vectors if "bank_" in detector.state_names else vectors

        def call(detector: Detector = detector, n: int = n) -> Tensor:
            return detector.score(features=features[:n], logits=logits[:n])

        with PeakMemory(device) as memory:
            seconds = timed(call, device)
        rows.append(
            {"detector": name, "vectors": n, "vectors_per_s": round(n / seconds), "seconds": round(seconds, 4),
             "peak_extra_mib": round(memory.extra_mib, 1)}
        )  # fmt: skip
    return {"width": 128, "classes": 10, "fitted_on": train, "detectors": rows}


def mahalanobis_fit(device: torch.device, width: int) -> dict[str, Any]:
    """1,000 classes, streamed in batches of 500 samples: the memory does not depend on how many come."""
    generator = torch.Generator().manual_seed(0)
    detector = Mahalanobis()
    batches = 10
    with PeakMemory(device) as memory:
        start = time.perf_counter()
        for number in range(batches):
            block = torch.randn(500, width, generator=generator).to(device)
            places = (torch.arange(500) % 100 + 100 * number).to(device)
            detector.partial_fit(features=block, labels=places)
        streamed = time.perf_counter() - start
        detector.finalize()
        detector.score(features=block)
    return {
        "classes": 1000, "width": width, "samples": 500 * batches, "seconds_streaming": round(streamed, 2),
        "seconds_total": round(time.perf_counter() - start, 2), "peak_extra_mib": round(memory.extra_mib, 1),
    }  # fmt: skip


def metrics(scores: int) -> dict[str, Any]:
    """AUROC, both AUPR and both FPR95 together."""
    rng = np.random.default_rng(0)
    known, unknown = rng.normal(size=scores // 2), rng.normal(size=scores // 2) + 1
    start, start_cpu = time.perf_counter(), time.process_time()
    found = separation(known, unknown)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    return {
        "scores": scores, "seconds_all_five": round(seconds, 3), "processor_seconds": round(cpu, 3), "values": found,
    }  # fmt: skip


def table() -> str:
    """Markdown: vectors per second and extra peak memory of each detector, CPU and GPU."""
    cpu, gpu = (
        {row["detector"]: row for row in read_json(RESULTS / name)["scoring"]["detectors"]}
        for name in ("detectors.json", "detectors-cuda.json")
    )
    lines = ["| detector | CPU, vectors/s | CPU, MiB | GPU, vectors/s | GPU, MiB |", "|---|---|---|---|---|"]
    for name in sorted(set(cpu | gpu) & set(detector_names())):
        rows = (device.get(name) for device in (cpu, gpu))
        cells = (f"{row['vectors_per_s']:,} | {row['peak_extra_mib']:.0f}" if row else "not measured | –" for row in rows)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def timed(call: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


class PeakMemory:
    """Peak memory above what was held on entry: of the GPU's allocator, or of the process (Linux)."""

    extra_mib = float("nan")

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> "PeakMemory":
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated() / 2**20
        else:
            ctypes.CDLL(None).malloc_trim(0)  # give freed memory back first, or it would hide what is used next
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak of resident memory
            self.before = self._status("VmRSS")
        return self

    def __exit__(self, *exception: object) -> None:
        peak = torch.cuda.max_memory_allocated() / 2**20 if self.device.type == "cuda" else self._status("VmHWM")
        self.extra_mib = peak - self.before

    @staticmethod
    def _status(field: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def show(record: dict[str, Any]) -> None:
    for key, value in record.items():
        if isinstance(value, list):
            for row in value:
                print("  " + "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        else:
            print(f"{key}: {value}", flush=True)
    print(flush=True)


if __name__ == "__main__":
    main()
