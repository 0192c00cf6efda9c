"""Speed of spectral pre-training end to end: augmented, trained views per second through `wildspec.training.train`.

    python benchmarks/pretrain.py --out benchmarks/results/pretrain.json            # on a GPU
    python benchmarks/pretrain.py --quick                                           # a few steps, anywhere

Every variant runs the real loop (sampling, augmentation, forward, loss, backward, optimizer) on random CIFAR-sized images;
the rate is the median over logged windows after warm-up. A long run (2 million views and more) compiles the network, so
the variants do too, whatever their number of steps; what compilation takes is in ``start_s``, not in the rate. Beside it:
the floor from counted operations and bytes, as the maps are read and written today, with the machine's own measured
ceilings, peak memory, and the share of time by kernel family.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from wildspec.data import ImageArrays, WildMixture
from wildspec.files import write_json
from wildspec.methods import Stage, build_method
from wildspec.models import build_model
from wildspec.models.fused import able, can_fuse
from wildspec.provenance import environment
from wildspec.training import Settings, TrainData, resolve_device, train

FUSED = ("active_", "given_", "normed_", "joined_", "weigh_", "spread_", "channel_sums", "finish_")
PUBLISHED = {"loader_workers_4": 2770, "loader_workers_15": 3177, "network_alone_fp32_eager": 9800}


def random_images(n: int, size: int, classes: int | None, seed: int) -> ImageArrays:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (n, 3, size, size), generator=generator, dtype=torch.uint8)
    labels = None if classes is None else torch.arange(n) % classes
    return ImageArrays(images, labels)


def measure(
    views: int, steps: int, device: torch.device, *, model: str = "wrn40_2", dropout: float = 0.0,
    compiled: bool | None = None, graph: bool | str = "auto", precision: str = "auto", scale: int = 1, ema: float = 0.0,
) -> dict[str, Any]:
    """One variant: views per second of ``steps`` steps of ``views`` views; ``compiled``: None as a long run does."""
    compiled = device.type == "cuda" if compiled is None else compiled
    labelled = random_images(max(25_000 // scale, views), 32, 10, 0)
    parts = [random_images(max(n // scale, views), 32, None, seed) for seed, n in enumerate((15_000, 25_000, 15_000), 1)]
    data = TrainData(labelled, WildMixture(*parts))
    method = build_method("spectral", 10)
    stage: Stage = method.stages("fast")[0].scaled(
        batch_labelled=views // 4, batch_wild=views // 4, warmup=0.0, ema=ema,
        epochs=steps / (len(labelled) // (views // 4)),
    )
    torch.manual_seed(0)
    network = build_model(model, 10, dropout=dropout)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    window = max(1, steps // 10)
    settings = Settings(device=str(device), compile=compiled, graph=graph, precision=precision,
                        log_every=window, progress=False)
    started = time.perf_counter()
    result = train(network, method, data, settings, stages=[stage])
    rates = [row["views_per_s"] for row in result.history[len(result.history) // 2 :]]
    record = {
        "model": model, "views_per_step": views, "dropout": dropout, "compile": compiled, "graph": graph, "ema": ema,
        "precision": precision, "steps": steps, "views_per_s": round(statistics.median(rates)), "windows": rates,
        "start_s": round(time.perf_counter() - started - sum(views * window / r for r in rates) * 2, 1),
    }
    if device.type == "cuda":
        record["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return record


def profile(views: int, device: torch.device) -> dict[str, float]:
    """Share of GPU time by kernel family over 20 captured steps."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as trace:
        measure(views, 20, device)
    families: dict[str, float] = {}
    for event in trace.key_averages():
        families[_family(event.key)] = families.get(_family(event.key), 0.0) + event.device_time_total
    total = sum(families.values()) or 1.0
    top = sorted(trace.key_averages(), key=lambda event: -event.device_time_total)[:25]
    for event in top:
        print(f"{event.device_time_total / 1e3:9.2f} ms {event.count:6d} x  {event.key[:110]}")
    return {name: round(value / total, 4) for name, value in sorted(families.items(), key=lambda item: -item[1])}


def _family(kernel: str) -> str:
    name = kernel.lower()
    if name.startswith(FUSED):
        return "fused blocks (convolution with batch norm)"
    if any(word in name for word in ("conv", "xmma", "cutlass", "cudnn", "wgrad", "dgrad", "sm90_", "sm80_", "gemm")):
        return "convolutions and products"
    if name.startswith(("triton_red", "triton_per")):
        return "compiled reductions (batch norm sums)"
    if name.startswith("triton_poi"):
        return "compiled pointwise (normalize, activate, add, cast)"
    if "memcpy" in name or "memset" in name:
        return "copies"
    return "other"


def floor(device: torch.device) -> dict[str, Any]:
    """Operations and bytes a view needs at the least, and the time they take at this machine's measured ceilings."""
    network = build_model("wrn40_2", 10)
    x = torch.zeros(1, 3, 32, 32)
    with FlopCounterMode(display=False) as counter:
        network.train()
        network.features(x.repeat(2, 1, 1, 1)).sum().backward()
    flops = counter.get_total_flops() / 2
    maps: dict[bool, list[int]] = {True: [], False: []}
    together = fused_convolutions(network) if able(device) else set()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(lambda m, inputs, out: maps[m in together].append(out.numel()))
    network.eval()(x)
    values = {fused: sum(sizes) for fused, sizes in maps.items()}
    # bf16 maps. One by one, forward: write conv out, read for statistics, read + write normalized, read by the next = 5.
    # Backward: read gradient and map for the sums (2), again for the input gradient (2) + write (1), read by the
    # data-gradient conv + write (2), read gradient and input by the weight-gradient conv (2) = 9.
    # Fused, two convolutions of a block, forward: read, write; read, read the residual, write = 5. Backward: read dv, map
    # and g, write their sum, read the map before, write dv (6), read two for the weights (2), without g (4), three (3) = 15.
    bytes_view = 2 * (14 * values[False] + 10 * values[True])
    record: dict[str, Any] = {
        "flops_per_view": flops, "bytes_per_view": bytes_view,
        "convolution_outputs_per_view": {"one_by_one": values[False], "fused": values[True]},
        "passes_over_maps": {"one_by_one": 14, "fused": 10},
    }
    if device.type == "cuda":
        a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
        big = torch.empty(2**30, device=device, dtype=torch.float32)
        record["tflops"] = round(2 * 8192**3 / _seconds(lambda: a @ a) / 1e12)
        half, other = big[: 2**29], big[2**29 :]
        record["tb_per_s"] = round(2 * half.numel() * 4 / _seconds(lambda: half.copy_(other)) / 1e12, 2)
        record["views_per_s_by_arithmetic"] = round(record["tflops"] * 1e12 / flops)
        record["views_per_s_by_memory"] = round(record["tb_per_s"] * 1e12 / bytes_view)
    return record


def fused_convolutions(network: Any) -> set[torch.nn.Module]:
    """Of the groups whose blocks are fused, all but the first convolution and the shortcut."""
    found: set[torch.nn.Module] = set()
    for group, side in zip(network.backbone.groups(), (32, 32, 16), strict=True):
        x = torch.zeros(1, group[0].bn1.num_features, side, side, dtype=torch.bfloat16)
        if can_fuse(group, x):
            found |= {conv for block in group for conv in (block.conv1, block.conv2)} - {group[0].conv1}
    return found


def _seconds(call: Any, repeats: int = 10) -> float:
    call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--views", default="1024,2048,4096")
    parser.add_argument("--quick", action="store_true", help="tiny: to see that it runs")
    parser.add_argument("--profile", action="store_true", help="share of GPU time by kernel family")
    parser.add_argument("--ablate", action="store_true", help="also without graph, without compile, with dropout, with EMA")
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    views = [int(v) for v in arguments.views.split(",")]
    variants: list[dict[str, Any]] = [{"views": v} for v in views]
    if arguments.ablate:
        first = {"views": views[0]}
        variants += [{**first, "dropout": 0.3}, {**first, "ema": 0.999}, {**first, "graph": False},
                     {**first, "compiled": False}, {**first, "compiled": False, "graph": False}]
    steps, scale = (4, 100) if arguments.quick else (arguments.steps, 1)
    if arguments.quick:
        variants = [{"views": 64}]
    records = []
    for variant in variants:
        record = measure(steps=steps, device=device, scale=scale, **variant)
        records.append(record)
        print(json.dumps({k: v for k, v in record.items() if k != "windows"}), flush=True)
    best = max(record["views_per_s"] for record in records)
    out = {
        "benchmark": "pretrain", "views_per_s": best, "published_views_per_s": PUBLISHED, "bar": 100_000, "aim": 130_000,
        "floor": floor(device), "variants": records, "environment": environment(),
    }
    if arguments.profile and device.type == "cuda":
        out["time_by_kernel"] = profile(views[0], device)
        print(json.dumps(out["time_by_kernel"], indent=1))
    by_memory = out["floor"].get("views_per_s_by_memory")
    if by_memory:
        out["share_of_floor"] = round(best / min(by_memory, out["floor"]["views_per_s_by_arithmetic"]), 3)
    print(json.dumps({key: out[key] for key in ("views_per_s", "bar", "aim", "floor")}, indent=1))
    if arguments.out:
        write_json(arguments.out, out)


if __name__ == "__main__":
    main()
