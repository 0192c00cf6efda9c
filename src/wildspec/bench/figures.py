"""The paper's pictures of a run: score distributions, the embedding, and quality against training time.

Drawn from what the runner left (``*.samples.safetensors`` and records), so neither the data nor a GPU is needed.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.bench.protocols import protocol_names, rows_of
from wildspec.bench.published import paper_numbers
from wildspec.bench.records import HEADINGS, LOWER_IS_BETTER, PAPER, Record, load_records, read_record
from wildspec.errors import DataError, one_line
from wildspec.files import replacing

KINDS = {"id": "ID", "covariate": "covariate OOD", "semantic": "semantic OOD"}
COLOURS = {"id": "#2b6cb0", "covariate": "#dd8a1c", "semantic": "#b03a5b"}
DPI = 130
LEAST = 1e-4  # a share of errors that is told apart from none
_MARKERS = ("o", "s", "D", "^", "v", "p", "h")


def draw_all(runs: Iterable[str | Path], out: str | Path, *, seed: int = 0) -> list[Path]:
    """Every figure that the run folders have material for; returns the files written."""
    folders = [Path(run) for run in runs]
    made: list[Path] = []
    for samples in sorted(path for folder in folders for path in folder.rglob("*.samples.safetensors")):
        made += draw_samples(samples, Path(out), seed=seed)
    return made + draw_time(load_records(folders), out)


def draw_time(records: Sequence[Record], out: str | Path) -> list[Path]:
    """Quality against training time, one figure per protocol and semantic set."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["protocol"], record["semantic"]), []).append(record)
    return [
        save(quality_against_time(members), Path(out) / time_figure_name(*names)) for names, members in groups.items()
    ]


def time_figure_name(protocol: str, semantic: str) -> str:
    return f"{protocol}-{semantic.replace('->', '-to-')}-time.png"


def draw_samples(path: Path, out: Path, *, seed: int = 0) -> list[Path]:
    """Histograms of each detector's scores and the t-SNE map of one model.

    The records beside the samples say what the model is and where its decision lies.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} is damaged ({one_line(error)}); remove it, and what is whole is drawn") from error
    if lacking := {f"{kind}.{part}" for kind in KINDS for part in ("features", "labels")} - found.keys():
        raise DataError(f"{path} lacks {', '.join(sorted(lacking))}; remove it, and what is whole is drawn")
    semantic, folder = path.name.removesuffix(".samples.safetensors"), path.parent
    stem = f"{semantic}-{folder.parent.name}-{folder.name}"
    title, unknown = f"{folder.parent.name}, {folder.name}", semantic
    made = []
    for name in sorted(key.removeprefix("id.score.") for key in found if key.startswith("id.score.")):
        record = _record_of(folder, semantic, name)
        if record:
            stem = f"{record['protocol']}-{semantic}-{folder.parent.name}-{folder.name}"
            title = f"{record['method']} ({_short(record['recipe'])}), seed {record['seed']}"
            unknown = record["semantic"]
        scores = {kind: found[f"{kind}.score.{name}"] for kind in KINDS}
        threshold = record.get("threshold") if record else None
        figure = score_histogram(scores, name, f"{title}; semantic OOD: {unknown}", threshold)
        made.append(save(figure, out / f"{stem}-{name}-scores.png"))
    features = {kind: found[f"{kind}.features"] for kind in KINDS}
    labels = {kind: found[f"{kind}.labels"] for kind in KINDS}
    figure = embedding_map(features, labels, title=f"{title}; semantic OOD: {unknown}", seed=seed)
    made.append(save(figure, out / f"{stem}-tsne.png"))
    return made


def _record_of(folder: Path, semantic: str, detector: str) -> Record | None:
    name, mirrored, _ = semantic.partition("-mirror")  # the samples of a mirrored model are called so, too
    path = folder / "records" / f"{name}-{detector}{mirrored}.json"
    return read_record(path) if path.exists() else None


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


AXES = {
    "knn": "distance to the k-th nearest labelled image (normalized features; high = OOD)",
    "wild_knn": "distance to the k-th nearest labelled or attributed wild image (normalized features; high = OOD)",
}


def score_histogram(scores: dict[str, np.ndarray], name: str, title: str, threshold: float | None = None) -> Any:
    """Densities of the three kinds on one axis, with the threshold that keeps 95 % of ID and the one that decides."""
    figure, axes = new_figure(8, 4.2)
    everything = np.concatenate(list(scores.values()))
    low, high = np.quantile(everything, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1, 80)
    for kind, values in scores.items():
        density, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges, density=True)
        axes.stairs(density, edges, fill=True, color=COLOURS[kind], alpha=0.3)
        axes.stairs(density, edges, color=COLOURS[kind], linewidth=1.5, label=KINDS[kind])
    kept = float(np.quantile(scores["id"], 0.95, method="higher"))
    axes.axvline(kept, color="0.2", linestyle="--", linewidth=1, label="keeps 95 % of ID")
    if threshold is not None and edges[0] <= threshold <= edges[-1]:
        axes.axvline(threshold, color="0.2", linewidth=1.2, label="decision: rejected above")
    axes.set(xlabel=AXES.get(name, f"{name} score (high = OOD)"), ylabel="density")
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9, columnspacing=1.2)
    return figure


def embedding_map(
    features: dict[str, np.ndarray], labels: dict[str, np.ndarray], *, title: str = "", per_kind: int = 700, seed: int = 0
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

    figure, (left, right) = new_figure(12, 5.5, columns=2)
    unknown = kinds == "semantic"
    left.scatter(*places[unknown].T, s=4, color="0.8", linewidths=0)
    palette = _palette(int(classes[~unknown].max()) + 1)
    for kind, marker, size in (("id", "o", 8), ("covariate", "^", 9)):
        mine = kinds == kind
        left.scatter(*places[mine].T, s=size, c=[palette[c] for c in classes[mine]], marker=marker, linewidths=0)
    left.set_title("by class (circle: ID, triangle: covariate OOD; grey: semantic OOD)", fontsize=10)
    for kind in ("semantic", "covariate", "id"):
        mine = kinds == kind
        right.scatter(*places[mine].T, s=6, color=COLOURS[kind], alpha=0.7, linewidths=0, label=KINDS[kind])
    right.set_title("by kind", fontsize=10)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, markerscale=3)
    for axes in (left, right):
        axes.set(xticks=[], yticks=[])
    figure.suptitle(f"t-SNE of normalized penultimate features{': ' if title else ''}{title}", fontsize=11)
    return figure


def quality_against_time(records: Sequence[Record]) -> Any:
    """The paper's four metrics of finished runs against training time; dashed: what the paper prints for its method.

    Our learners by name, the others by their group in the paper's table. A record with a ``curve`` adds a thin line: the
    same metrics on the way, by linear probe and KNN. The scale is that of log-odds: 99.93 and 99.98 are far apart.
    """
    if not records:
        raise DataError("there are no records to draw; make some with: wildspec bench cifar10")
    figure, panels = new_figure(11, 7.5, columns=2, rows=2)
    protocol, semantic = records[0]["protocol"], records[0]["semantic"]
    series: dict[str, list[Record]] = {}
    for record in sorted(records, key=_ours):  # ours last, on top of the others
        series.setdefault(_series(record), []).append(record)
    palette, looked = _palette(len(series)), with_curve(records)
    compared = protocol in protocol_names() and protocol not in ("impact", "sweep")
    printed = paper_numbers("spectral", semantic) if compared else {}
    for metric, axes in zip(PAPER, panels.flat, strict=True):
        for number, ((label, members), colour) in enumerate(zip(series.items(), palette, strict=True)):
            points = sorted((r["seconds"] / 60, _inside(r[metric])) for r in members if r[metric] is not None)
            style: dict[str, Any] = {"marker": "o", "markersize": 5, "alpha": 0.8}
            if _ours(members[0]):  # one model under several detectors is several marks at one time: hollow, each its shape
                style = {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 9, "fillstyle": "none", "mew": 1.8}
            axes.plot(*_columns(points), linestyle="", color=colour, label=label, **style)
            for record in (record for record in looked if _series(record) == label):
                looks = [row for row in record["curve"] if row.get(metric) is not None]
                way = [(row["seconds"] / 60, _inside(row[metric])) for row in looks]
                axes.plot(*_columns(way), "-", color=colour, linewidth=1)
        axes.set_yscale("logit")
        axes.yaxis.set_major_formatter(lambda value, place: f"{100 * value:.6g}")
        axes.yaxis.set_minor_formatter("")
        for value, _ in printed.get(metric, []):
            height = _inside(value / 100)
            axes.axhline(height, color="0.3", linestyle="--", linewidth=1, zorder=0)
            place = axes.get_yaxis_transform()  # across the panel, at the height of the value
            axes.text(0.01, height, f"paper {value:g}", transform=place, ha="left", va="bottom", fontsize=8)
        better = "lower is better" if metric in LOWER_IS_BETTER else "higher is better"
        axes.set(xlabel="training time (minutes)", ylabel=f"{HEADINGS[metric][0]} (per cent, {better})")
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
        axes.margins(x=0.08, y=0.1)
        axes.set_xlim(left=0)
    handles, names = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)), frameon=False)
    ways = any(record.get("curve") for record in records)
    what = "finished runs (points) and looks on the way (lines)" if ways else "finished runs"
    figure.suptitle(f"{protocol}, {semantic} in the wild pool: {what} against training time")
    return figure


def with_curve(records: Sequence[Record]) -> list[Record]:
    """One record per trained model that was looked at on the way: measured as the looks are, by KNN and without mirror
    images, where there is such a one."""
    found: dict[str, Record] = {}
    for record in sorted(records, key=lambda r: (r["config"].get("mirror", False), r["detector"] != "knn")):
        if record.get("curve"):
            found.setdefault(json.dumps(record["curve"]), record)
    return list(found.values())


def _inside(share: float) -> float:
    """Log-odds have no place for 0 and 1: drawn as the last that are told apart from them."""
    return min(max(share, LEAST), 1 - LEAST)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _ours(record: Record) -> bool:
    return bool(record["method"].startswith("spectral"))


def _series(record: Record) -> str:
    """Our learners by name; the many others by their group in the paper's table."""
    if _ours(record):
        return f"{record['method']} + {record['detector']}{', mirrored' if record['config'].get('mirror') else ''}"
    known = rows_of(record["method"], record["detector"])
    return known[0].group if known else "other methods"


def save(figure: Any, path: Path, dpi: int = DPI) -> Path:
    """Write a figure as PNG, whole or absent."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format="png")
    return path


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1, **more: Any) -> tuple[Any, Any]:
    """A figure of its own and its axes, outside pyplot: no global state, no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **more)


def _palette(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["tab10" if count <= 10 else "tab20"](number % 20) for number in range(max(1, count))]
