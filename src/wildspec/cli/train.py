"""``wildspec train``: any method, on digits or on your own images, into a run folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer()


@app.command(
    "train",
    epilog="Example:  wildspec train --method scone --out RUN   |   "
    "wildspec train --method spectral --labelled DIR --wild DIR --set pretrain.lr=0.06 --out RUN   |   "
    "wildspec train --resume --out RUN",
)
def train(
    out: Annotated[Path, typer.Option(help="Run folder to write.")],
    method: Annotated[str | None, typer.Option(help="One of: wildspec methods.")] = None,
    data: Annotated[
        str | None, typer.Option(help="digits: the built-in task. Left out when --labelled is given.")
    ] = None,
    labelled: Annotated[
        Path | None, typer.Option(help="Your labelled images: a folder of class folders, parquet or .npz.")
    ] = None,
    wild: Annotated[Path | None, typer.Option(help="Your unlabelled images, of any mixture.")] = None,
    environments: Annotated[
        Path | None, typer.Option(help="One environment number per labelled image: text or .npy.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Side of the network's input in pixels.")] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Share of labelled images kept back to calibrate and test; default 0.1.")
    ] = None,
    flip: Annotated[
        bool | None, typer.Option("--flip/--no-flip", help="May images be mirrored? Default: yes.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="auto, a name of: wildspec backbones, or timm:NAME.")] = None,
    preset: Annotated[str | None, typer.Option(help="Recipe: fast (default) or paper.")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Epochs over all stages together, divided as in the recipe.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyper-parameter (eta_l=1) or a stage's field (pretrain.lr=0.1); repeat for more."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Initialization, order, augmentation; default 0.")] = None,
    data_seed: Annotated[int | None, typer.Option(min=0, help="The split; default 0.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, as it was started.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16 or fp64.")] = "auto",
    minutes_limit: Annotated[
        float | None, typer.Option(help="Stop after so many minutes with a checkpoint; --resume goes on.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run's record as JSON.")] = False,
) -> None:
    """Train a method into a run folder; batches, rates and lengths suit the data. Exit status 1: cut by the limit."""
    from wildspec.checks import positive, require
    from wildspec.errors import InputError
    from wildspec.runs import training
    from wildspec.runs.task import DataSpec
    from wildspec.training import Settings
    from wildspec.training.distributed import first_process
    from wildspec.training.recipe import parse_changes

    limit = None if minutes_limit is None else 60 * positive("--minutes-limit", minutes_limit)
    if tensorboard:
        require("tensorboard", "tensorboard", "--tensorboard")  # before there is a run folder: a second try would be refused
    settings = Settings(
        device=device, precision=precision, time_limit=limit, progress=not as_json, tensorboard=tensorboard
    )
    if resume:
        given = {
            "--method": method, "--data": data, "--labelled": labelled, "--wild": wild, "--environments": environments,
            "--size": size, "--held-out": held_out, "--flip": flip, "--model": model, "--preset": preset,
            "--epochs": epochs, "--set": change or None, "--seed": seed, "--data-seed": data_seed,
        }  # fmt: skip
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise InputError(f"--resume goes on as the run was started; leave out {', '.join(extra)}")
        outcome = training.resume(out, settings)
    else:
        if method is None:
            raise InputError("--method is missing; choose one of: wildspec methods")
        kind = data or ("digits" if labelled is None and wild is None else "files")
        spec = DataSpec(
            kind, data_seed or 0, _text(labelled), _text(wild), _text(environments), size,
            0.1 if held_out is None else held_out, flip is not False,
        )  # fmt: skip
        request = training.Request(
            method, out, spec, model or "auto", preset or "fast", epochs, parse_changes(change or []), seed or 0
        )
        outcome = training.start(request, settings)
    if not first_process():
        raise typer.Exit(0 if outcome.finished else 1)
    if as_json:
        import json

        typer.echo(json.dumps({**outcome.record, "finished": outcome.finished}, indent=2))
    else:
        _tell(out, outcome)
    raise typer.Exit(0 if outcome.finished else 1)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _tell(out: Path, outcome: Any) -> None:
    record = outcome.record
    for stage in record["stages"]:
        wild = f" + {stage['batch_wild']} wild" if stage["batch_wild"] else ""
        batch = f"{stage['batch_labelled']}{wild}"
        typer.echo(f"stage {stage['name']}: {stage['epochs']:.4g} epochs, batch {batch}, rate {stage['lr']:g}")
    if record["environments"]:
        typer.echo(f"environments: {record['environments']}")
    if not outcome.finished:
        typer.echo(f"cut by the time limit; go on with: wildspec train --resume --out {out}")
        return
    result = record["result"]
    typer.echo(
        f"{record['method']}: {result['steps']:,} steps, {result['views']:,} views in {result['seconds']:.1f} s; "
        f"next: wildspec evaluate {out}"
    )
