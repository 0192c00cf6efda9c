"""The paper's pictures of a run: score distributions, the embedding, and quality against training time.

Drawn from what the runner left (``*.samples.safetensors`` and records), so neither the data nor a GPU is needed.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.benchmark.protocols import rows_of
from wildspec.benchmark.published import paper_numbers
from wildspec.benchmark.records import LOWER_IS_BETTER, PAPER, Record, load_records
from wildspec.benchmark.render import HEADINGS
from wildspec.errors import DataError
from wildspec.files import replacing

KINDS = {"id": "ID", "covariate": "covariate OOD", "semantic": "semantic OOD"}
COLOURS = {"id": "#2b6cb0", "covariate": "#dd8a1c", "semantic": "#b03a5b"}
DPI = 130


def draw_all(runs: Iterable[str | Path], out: str | Path, *, seed: int = 0) -> list[Path]:
    """Every figure that the run folders have material for; returns the files written."""
    folders = [Path(run) for run in runs]
    made: list[Path] = []
    for samples in sorted(path for folder in folders for path in folder.rglob("*.samples.safetensors")):
        made += draw_samples(samples, Path(out), seed=seed)
    records = load_records(folders)
    for semantic in dict.fromkeys(record["semantic"] for record in records):
        chosen = [record for record in records if record["semantic"] == semantic]
        made.append(save(quality_against_time(chosen), Path(out) / f"{semantic}-quality-against-time.png"))
    return made


def draw_samples(path: Path, out: Path, *, seed: int = 0) -> list[Path]:
    """Histograms of each detector's scores and the t-SNE map of one model."""
    from safetensors.numpy import load_file

    found = load_file(path)
    semantic = path.name.removesuffix(".samples.safetensors")
    stem = f"{semantic}-{path.parent.parent.name}-{path.parent.name}"
    made = []
    for name in sorted(key.removeprefix("id.score.") for key in found if key.startswith("id.score.")):
        scores = {kind: found[f"{kind}.score.{name}"] for kind in KINDS}
        title = f"{name} scores of {path.parent.parent.name}; semantic OOD: {semantic}"
        made.append(save(score_histogram(scores, name, title), out / f"{stem}-{name}-scores.png"))
    features = {kind: found[f"{kind}.features"] for kind in KINDS}
    labels = {kind: found[f"{kind}.labels"] for kind in KINDS}
    made.append(save(embedding_map(features, labels, seed=seed), out / f"{stem}-tsne.png"))
    return made


def score_histogram(scores: dict[str, np.ndarray], name: str, title: str) -> Any:
    """Densities of the three kinds on one axis, with the threshold that keeps 95 % of ID."""
    figure, axes = _figure(7.5, 4)
    everything = np.concatenate(list(scores.values()))
    low, high = np.quantile(everything, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1, 80)
    for kind, values in scores.items():
        density, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges, density=True)
        axes.stairs(density, edges, fill=True, color=COLOURS[kind], alpha=0.3)
        axes.stairs(density, edges, color=COLOURS[kind], linewidth=1.5, label=KINDS[kind])
    threshold = float(np.quantile(scores["id"], 0.95, method="higher"))
    axes.axvline(threshold, color="0.2", linestyle="--", linewidth=1, label="keeps 95 % of ID")
    axes.set(xlabel="KNN distance" if name == "knn" else f"{name} score (high = OOD)", ylabel="density", title=title)
    axes.legend(frameon=False)
    return figure


def embedding_map(
    features: dict[str, np.ndarray], labels: dict[str, np.ndarray], *, per_kind: int = 700, seed: int = 0
) -> Any:
    """t-SNE of normalized penultimate features, once coloured by class (known kinds only) and once by kind."""
    from sklearn.manifold import TSNE

    rng = np.random.default_rng(seed)
    chosen = {kind: rng.permutation(len(values))[:per_kind] for kind, values in features.items()}
    points = np.concatenate([features[kind][where] for kind, where in chosen.items()]).astype(np.float64)
    kinds = np.concatenate([np.full(len(where), kind) for kind, where in chosen.items()])
    classes = np.concatenate([labels[kind][where] for kind, where in chosen.items()])
    perplexity = max(2.0, min(30.0, (len(points) - 1) / 4))
    places = TSNE(perplexity=perplexity, init="pca", random_state=seed, learning_rate="auto").fit_transform(points)

    figure, (left, right) = _figure(12, 5.5, columns=2)
    unknown = kinds == "semantic"
    left.scatter(*places[unknown].T, s=4, color="0.8", linewidths=0)
    palette = _palette(int(classes[~unknown].max()) + 1)
    for kind, marker, size in (("id", "o", 8), ("covariate", "^", 9)):
        mine = kinds == kind
        left.scatter(*places[mine].T, s=size, c=[palette[c] for c in classes[mine]], marker=marker, linewidths=0)
    left.set_title("by class (circle: ID, triangle: covariate OOD, grey: semantic OOD)", fontsize=10)
    for kind in ("semantic", "covariate", "id"):
        mine = kinds == kind
        right.scatter(*places[mine].T, s=6, color=COLOURS[kind], alpha=0.7, linewidths=0, label=KINDS[kind])
    right.set_title("by kind", fontsize=10)
    right.legend(frameon=False, markerscale=3)
    for axes in (left, right):
        axes.set(xticks=[], yticks=[])
    return figure


def quality_against_time(records: Sequence[Record]) -> Any:
    """The paper's four metrics of finished runs against training time; dashed: what the paper prints for its method.

    Our learners by name, the others by their group in the paper's table. A record with a ``curve`` adds a thin line: the
    same metrics on the way, by linear probe and KNN.
    """
    if not records:
        raise DataError("there are no records to draw; make some with: wildspec bench cifar10")
    figure, panels = _figure(11, 7, columns=2, rows=2)
    semantic = records[0]["semantic"]
    series: dict[str, list[Record]] = {}
    for record in sorted(records, key=_ours):  # ours last, on top of the others
        series.setdefault(_series(record), []).append(record)
    palette = _palette(len(series))
    printed = paper_numbers("spectral", semantic)
    for metric, axes in zip(PAPER, panels.flat, strict=True):
        for (label, members), colour in zip(series.items(), palette, strict=True):
            points = sorted((r["seconds"] / 60, 100 * r[metric]) for r in members if r[metric] is not None)
            axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=8 if _ours(members[0]) else 4, label=label)
            for record in members:
                way = [(row["seconds"] / 60, 100 * row[metric]) for row in record.get("curve", [])]
                if way:
                    axes.plot(*zip(*way, strict=True), "-", color=colour, linewidth=1)
        for value, _ in printed.get(metric, []):
            axes.axhline(value, color="0.3", linestyle="--", linewidth=1)
            place = axes.get_yaxis_transform()  # across the panel, at the height of the value
            axes.text(0.01, value, f"paper {value:g}", transform=place, ha="left", va="bottom", fontsize=8)
        better = "lower is better" if metric in LOWER_IS_BETTER else "higher is better"
        axes.set(xlabel="training time (minutes)", ylabel=f"{HEADINGS[metric][0]} (per cent, {better})")
        axes.margins(x=0.12, y=0.15)
        if metric in LOWER_IS_BETTER:
            axes.set_yscale("symlog", linthresh=0.1)  # errors span decades, and may be 0
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlim(left=0)
    handles, names = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(5, len(names)), frameon=False)
    figure.suptitle(f"Semantic OOD: {semantic}. Finished runs, quality against training time")
    return figure


def _ours(record: Record) -> bool:
    return bool(record["method"].startswith("spectral"))


def _series(record: Record) -> str:
    """Our learners by name; the many others by their group in the paper's table."""
    if _ours(record):
        return f"{record['method']} + {record['detector']}{', mirrored' if record['config'].get('mirror') else ''}"
    known = rows_of(record["method"], record["detector"])
    return known[0].group if known else "other methods"


def save(figure: Any, path: Path) -> Path:
    """Write a figure as PNG, whole or absent."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI, format="png")
    return path


def _figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """A figure of its own, outside pyplot: no global state, no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns)


def _palette(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["tab10" if count <= 10 else "tab20"](number % 20) for number in range(max(1, count))]
