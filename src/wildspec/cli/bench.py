"""``wildspec bench``: the paper's experiments, run, cut, resumed, and set beside the paper's numbers."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.bench_pacs import pacs_embeddings, pacs_open_set
from wildspec.cli.bench_sets import sets
from wildspec.cli.printing import print_json, print_table, show

app = typer.Typer(
    name="bench",
    help="The paper's experiments beside its published numbers: run what is missing, resume what was cut, make the tables.",
    epilog="Example:\n\nwildspec bench cifar10 --semantic svhn --methods erm,spectral --data DIR --out RUN",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

SUMMARIES = {
    "cifar10": "CIFAR-10 with corrupted CIFAR-10 as covariate shift (the paper's main tables).",
    "imagenet100": "ImageNet-100 with iNaturalist as semantic OOD, ResNet-34.",
    "office-home": "Office-Home: 25 known and 40 unknown classes, one of 12 ordered pairs of domains, ResNet-50.",
    "impact": "CIFAR-10 with 5 known and 5 unknown classes: does semantic OOD of the same domain help?",
    "sweep": "Sensitivity to eta_l and eta_u, chosen by ID validation accuracy.",
}
STAND_INS = "textures10, miniplaces, scenes9_crop, scenes9_resize"
SETS = {  # what --semantic takes; the first is the default
    "cifar10": f"svhn, lsun_c, textures, places365, lsun_r, {STAND_INS}",
    "imagenet100": "inaturalist",
    "office-home": "'Ar->Cl' and so on, two of Ar, Cl, Pr, Rw",
    "impact": f"svhn, lsun_c, textures, places365, lsun_r, {STAND_INS}, cifar10_unknown_gaussian_noise, cifar10_unknown",
    "sweep": f"textures, svhn, lsun_c, places365, lsun_r, {STAND_INS}",
}
EXAMPLES = {
    "cifar10": "--semantic svhn --methods all --seeds 1 --data DIR --out RUN",
    "imagenet100": "--semantic inaturalist --methods spectral --init WEIGHTS.safetensors --data DIR --out RUN",
    "office-home": "--semantic 'Ar->Cl' --methods spectral --init WEIGHTS.safetensors --data DIR --out RUN",
    "impact": "--semantic svhn,cifar10_unknown_gaussian_noise --methods spectral --data DIR --out RUN",
    "sweep": "--semantic textures10 --data DIR --out RUN",
}


def _register(name: str) -> None:
    @app.command(
        name, help=SUMMARIES[name], short_help=SUMMARIES[name], epilog=f"Example:\n\nwildspec bench {name} {EXAMPLES[name]}"
    )
    def command(
        data: shared.DataSets,
        out: Annotated[Path, typer.Option(help="Run folder: checkpoints, records, tables. Give it again to resume.")],
        semantic: Annotated[
            str | None,
            typer.Option(help=f"Semantic OOD sets in the wild pool, with commas: {SETS[name]}. Default: the first."),
        ] = None,
        methods: Annotated[
            str | None,
            typer.Option(help="Rows of the paper (msp, scone, ..., all), open-set, METHOD+DETECTOR (spectral++knn: "
                         f"spectral+ by knn). Default: {'spectral' if name == 'sweep' else 'spectral,spectral+'}."),
        ] = None,
        seeds: Annotated[int, typer.Option(min=1, help="How many seeds.", metavar="<int>")] = 1,
        first_seed: Annotated[int, typer.Option(min=0, help="The first of them.", metavar="<int>")] = 0,
        preset: shared.Preset = "fast",
        scale: Annotated[float, typer.Option(help="Factor on the epochs of every stage.")] = 1.0,
        change: shared.Change = None,
        own: Annotated[
            Path | None, shared.rare("--protocol", help="JSON file with what differs: own data sets, another corruption.")
        ] = None,
        label: Annotated[str | None, shared.rare(help="Short name of the recipe in tables.")] = None,
        backbone: Annotated[str | None, shared.rare(help="Another network than the protocol's.")] = None,
        size: Annotated[int | None, shared.rare(help="Another image size than the protocol's.")] = None,
        init: shared.Init = None,
        all_labels: Annotated[
            bool, shared.rare("--all-labels", help="Label the whole ID training set, not the protocol's half.")
        ] = False,
        severity: Annotated[int | None, shared.rare(help="Severity of the corruption; default: the protocol's.")] = None,
        unseen: Annotated[bool, shared.rare(help="Also test on semantic sets that are not in the wild pool.")] = True,
        cache: Annotated[Path | None, shared.rare(help="Where decoded images are kept; default: OUT/cache.")] = None,
        device: shared.Device = "auto",
        minutes_limit: shared.MinutesLimit = None,
        mirror: Annotated[
            bool, shared.rare("--mirror", help="Score every image together with its mirror image: rows of their own.")
        ] = False,
        curve: Annotated[
            float, shared.rare(min=0, help="Epochs between looks at the test sets, for the time-to-quality curve; 0: none.")
        ] = 0.0,
        as_json: shared.AsJson = False,
    ) -> None:
        from wildspec.bench.own_protocol import own_protocol
        from wildspec.bench.plan import BenchRequest
        from wildspec.bench.protocols import choose_rows
        from wildspec.bench.run import run
        from wildspec.checks import positive
        from wildspec.training.recipe import Recipe, parse_changes

        chosen = own_protocol(own, name)
        usual = chosen.default_semantic or chosen.semantic[0].name
        request = BenchRequest(
            chosen.resized(size),
            semantics=tuple(shared.words(usual if semantic is None else semantic)),
            methods=choose_rows(list(chosen.methods) if methods is None else shared.words(methods)),
            seeds=tuple(range(first_seed, first_seed + seeds)),
            data=data,
            out=out,
            recipe=Recipe(
                preset, scale, parse_changes(change or []), backbone, init=None if init is None else str(init), size=size,
                all_labels=all_labels, name=label,
            ),
            cache=cache,
            device=device,
            limit=None if minutes_limit is None else 60 * positive("--minutes-limit", minutes_limit),
            severity=severity,
            unseen=unseen,
            progress=not as_json,
            mirror=mirror,
            curve=curve,
        )
        outcome = run(request, say=lambda text: typer.echo(text, err=True))
        if as_json:
            print_json(outcome.to_json())
        else:
            _tell(outcome, chosen.name, request.semantics, out)
        raise typer.Exit(0 if outcome.complete else 1)


for _name in SUMMARIES:
    _register(_name)


app.command("pacs-embeddings", epilog="Example:\n\nwildspec bench pacs-embeddings --data FILE.npz --out RESULTS.json")(
    pacs_embeddings
)
app.command("pacs-open-set", epilog="Example:\n\nwildspec bench pacs-open-set --data FILE.npz --out RESULTS.json")(
    pacs_open_set
)
app.command("sets", epilog="Example:\n\nwildspec bench sets cifar10 --data DIR")(sets)


@app.command(epilog="Example:\n\nwildspec bench prepare cifar10 --semantic svhn --data DIR --cache CACHE")
def prepare(
    name: Annotated[str, typer.Argument(help="A protocol.")],
    data: shared.DataSets,
    cache: Annotated[Path, typer.Option(help="Where decoded images are kept.")],
    semantic: Annotated[str | None, typer.Option(help="Semantic OOD sets, separated by commas.")] = None,
    own: Annotated[Path | None, typer.Option("--protocol", help="JSON file with what differs, as for a run.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Decode the shards that are there, keep the arrays, and say what is still missing (exit status 1)."""
    from wildspec.bench.own_protocol import own_protocol
    from wildspec.bench.prepare import needed_splits
    from wildspec.bench.store import Store

    chosen, store = own_protocol(own, name), Store(data, cache)
    names = shared.words(chosen.default_semantic or chosen.semantic[0].name if semantic is None else semantic)
    needed = dict.fromkeys(pair for entry in names for pair in needed_splits(chosen, entry))
    rows: list[dict[str, Any]] = []
    for set_name, split in needed:
        new = store.decode(set_name, split, chosen.in_distribution["size"])
        whole = store.available(set_name, split)
        missing = [] if whole else store.missing(set_name, split)
        why = None if whole else store.what_is_missing(set_name, split)
        rows.append({"set": set_name, "split": split, "decoded_now": new, "complete": whole, "missing": missing, "why": why})
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            state = "complete" if row["complete"] else "missing"
            typer.echo(f"{row['set']:>16} {row['split']:<10} {state}; {row['decoded_now']} shards decoded now")
        for row in rows:
            if row["why"]:
                typer.echo(row["why"])
    raise typer.Exit(0 if all(row["complete"] for row in rows) else 1)


@app.command(epilog="Example:\n\nwildspec bench table RUN1 RUN2 --format latex")
def table(
    runs: Annotated[list[Path], typer.Argument(help="Run folders or record files; all are merged.")],
    form: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    as_json: shared.AsJson = False,
) -> None:
    """Merge records into one table: mean and spread, the paper's number, the difference, where it all comes from."""
    from wildspec.bench.records import load_records
    from wildspec.bench.render import render
    from wildspec.bench.tables import summarize

    tables = summarize(load_records(runs))
    if as_json:
        print_json([entry.to_json() for entry in tables])
    else:
        typer.echo(render(tables, form), nl=False)


@app.command(epilog="Example:\n\nwildspec bench figures RUN --out FIGURES")
def figures(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; all are searched.")],
    out: Annotated[Path, typer.Option(help="Folder for the PNG files.")],
    as_json: shared.AsJson = False,
) -> None:
    """Draw score histograms, t-SNE maps and quality against training time, with the paper's lines in."""
    from wildspec.bench.figures import draw_all

    made = draw_all(runs, out)
    if as_json:
        print_json([str(path) for path in made])
    else:
        typer.echo("\n".join(map(str, made)))


@app.command(epilog="Example:\n\nwildspec bench paper --table main --semantic svhn")
def paper(
    name: Annotated[str | None, typer.Option("--table", help="One of the paper's tables.")] = None,
    method: Annotated[str | None, typer.Option(help="One method.")] = None,
    semantic: Annotated[str | None, typer.Option(help="One semantic OOD set.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Print the numbers the paper published, in per cent, with the label of the table they stand in."""
    from wildspec.bench.published import published, tables

    rows = published(name, method, semantic)
    if as_json:
        print_json(rows)
    for title in dict.fromkeys(row["table"] for row in rows) if not as_json else ():
        info, mine = tables()[title], [row for row in rows if row["table"] == title]
        typer.echo(f"{info['label']} ({title}): {info['title']}, as printed")
        _print_published(mine)
    if not rows:
        typer.echo("the paper prints no such number; what it prints: wildspec bench paper", err=True)
    raise typer.Exit(0 if rows else 1)


def _print_published(rows: list[dict[str, Any]]) -> None:
    """Rows of the paper; a number with the spread that the paper prints beside it."""
    hidden = ("table", "label", "printed", "group", "spread", "covariate")
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in hidden]

    def cell(row: dict[str, Any], key: str) -> str:
        value, spread = row.get(key, ""), row.get("spread", {}).get(key)
        number = f"{value:.2f}" if isinstance(value, float) else str(value)
        return number if spread is None else f"{number} ± {spread}"

    print_table(keys, [[cell(row, key) for key in keys] for row in rows], words=2)


def _tell(outcome: Any, protocol: str, semantics: tuple[str, ...], out: Path) -> None:
    """The table of the sets asked for, short; what is still to do; where the long tables are."""
    if outcome.tables:
        _show(protocol, semantics, out)
    counts = {"done": outcome.done, "found done": outcome.found, "cut": outcome.cut}
    for title, names in {**counts, "in the hands of another process": outcome.busy}.items():
        if names:
            typer.echo(f"{title}: {len(names)}")
    for name, why in outcome.failed.items():
        typer.echo(f"failed: {name}: {why}")
    if outcome.cut or outcome.busy:
        typer.echo("run the same command again to resume")
    for path in outcome.tables:
        typer.echo(str(path))


SHOWN = {  # narrow enough for 80 columns
    "id_acc": "ID-Acc ↑", "ood_acc": "OOD-Acc\n↑", "fpr95_id": "FPR95 ↓", "auroc": "AUROC ↑", "fs_fpr95": "fs-FPR95\n↓",
    "covariate_kept": "covariate\nkept ↑", "detection_rate": "unknown\nrejected\n↑",
}  # fmt: skip


def _show(protocol: str, semantics: tuple[str, ...], out: Path) -> None:
    from wildspec.bench.protocols import protocol_names
    from wildspec.bench.records import load_records
    from wildspec.bench.tables import summarize

    for found in summarize(load_records([out]), unseen=False, severities=False):
        if found.protocol != protocol or found.semantic not in semantics:
            continue
        rows = []
        for row in found.rows:
            name = "\n".join(dict.fromkeys([row.name, row.detector, *_apart(row, found.rows)]))
            cells = (row.cells.get(metric) for metric in SHOWN)
            values = ["–" if c is None else f"{c.mean:.2f}" + (f"\n({c.paper[0]:.2f})" if c.paper else "") for c in cells]
            rows.append([name, *values])
        print_table(["method\ndetector", *SHOWN.values()], rows, title=found.title)
    printed = "; in brackets what the paper prints" if protocol in protocol_names() else ""
    show(f"Per cent, means over runs{printed}. With spread, recipes, severities, sources:")


def _apart(row: Any, rows: Any) -> list[str]:
    """What tells a row from others of the same method and detector: the parts of its recipe that not all of them have."""
    beside = [set(_parts(other.recipe)) for other in rows if (other.name, other.detector) == (row.name, row.detector)]
    common = set.intersection(*beside)
    return [part for part in _parts(row.recipe) if part not in common]


def _parts(recipe: str) -> list[str]:
    return re.split(r", (?![^\[]*\])", recipe)  # a comma within brackets belongs to a value: blur_sigma=[0.1, 2.0]
