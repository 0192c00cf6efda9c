"""``wildspec evaluate``: a trained run, any detectors, one table."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer()

COLUMNS = {  # two short words each: ten columns fit 80 characters
    "id_acc": "ID acc", "ood_acc": "OOD acc", "fpr95_id": "FPR 95", "auroc": "AU ROC", "fs_fpr95": "fs FPR",
    "fs_auroc": "fs ROC", "id_kept": "ID kept", "covariate_kept": "cov. kept", "detection_rate": "unk. rej.",
    "joint": "joint",
}  # fmt: skip


@app.command(
    "evaluate",
    epilog="Example:  wildspec evaluate RUN --detector knn,energy,vim   |   wildspec evaluate RUN --detector all   |   "
    "wildspec evaluate RUN --detector knn:k=20 --test DIR --covariate DIR --semantic DIR",
)
def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder of wildspec train.")],
    detector: Annotated[
        str | None, typer.Option(help="Detectors, separated by commas, NAME or NAME:KEY=VALUE; all; default: the method's.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Test images of the known classes.")] = None,
    covariate: Annotated[Path | None, typer.Option(help="Known classes under other conditions, labelled.")] = None,
    semantic: Annotated[Path | None, typer.Option(help="Images of unknown classes.")] = None,
    alpha: Annotated[float, typer.Option(help="False alarms allowed by the calibrated threshold.")] = 0.05,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a run with each detector; written to RUN/evaluation.json. Exit status 1: a detector could not be used."""
    from wildspec.detectors import names_for
    from wildspec.files import write_json
    from wildspec.provenance import environment
    from wildspec.runs.folder import EVALUATION, load_run
    from wildspec.runs.judging import judge
    from wildspec.runs.task import known_images, open_task, read
    from wildspec.training import resolve_device

    loaded = load_run(run)
    names = [] if detector is None else names_for(loaded.model) if detector == "all" else _words(detector)
    where = resolve_device(device)
    task = open_task(loaded.data, where)
    if test is not None:
        task.id_test = known_images(str(test), task.size, loaded.classes)
    if covariate is not None:
        task.covariate_test = known_images(str(covariate), task.size, loaded.classes)
    if semantic is not None:
        from wildspec.data import open_source

        task.semantic_test = read(open_source(semantic, labelled=False), task.size)
    found = judge(loaded, task, names, alpha=alpha, device=where)
    document = {
        "run": run.name, "method": loaded.method, "seed": loaded.record["seed"], "alpha": alpha,
        "environments": loaded.record["environments"], "weights": loaded.record["result"]["sha256"],
        "detectors": [{"detector": name, **one.to_json()} for name, one in found.items()], "environment": environment(),
    }  # fmt: skip
    write_json(run / EVALUATION, document)
    if as_json:
        import json

        typer.echo(json.dumps(document, indent=2))
    else:
        _tell(loaded.method, found, calibrated=task.id_test is not None)
    raise typer.Exit(1 if any(one.refused for one in found.values()) else 0)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _tell(method: str, found: dict[str, Any], *, calibrated: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = {name: one.evaluation for name, one in found.items() if one.evaluation is not None}
    columns = [name for name in COLUMNS if any(getattr(one, name) is not None for one in shown.values())]
    table = Table(title=f"{method}, per cent", title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("detector", no_wrap=True, min_width=11)
    for name in columns:
        table.add_column(COLUMNS[name], justify="right")
    for title, evaluation in shown.items():
        values = [getattr(evaluation, name) for name in columns]
        table.add_row(title, *("–" if value is None else f"{100 * value:.1f}" for value in values))
    console = Console(highlight=False, markup=False)  # a reason may hold [brackets]
    if shown:
        console.print(table)
        console.print(
            "fs: ID and covariate together against unknown. Kept, rejected: at the threshold calibrated on held-out images."
            if calibrated else
            "No ID test set was given: held-out labelled images stand in for it, and thresholds are their own 95 % quantile."
        )
    for name, one in found.items():
        if one.refused:
            console.print(f"{name} cannot be used here: {one.refused}")
