"""``wildspec train``: any method, on digits or on your own images, into a bundle."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_next
from wildspec.cli.typed import counts_only, left_out, typed

app = typer.Typer()

OF_THIS_CALL = ("out", "resume", "device", "precision", "minutes_limit", "tensorboard", "as_json")  # not of the training


@app.command(
    "train",
    epilog="Example:\n\nwildspec train --method scone --out MODEL\n\n"
    "wildspec train --method spectral --labelled DIR --wild DIR --set pretrain.lr=0.06 --out MODEL\n\n"
    "wildspec train --resume --out MODEL",
)
def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Bundle to write; checkpoints are in it until it is done.")],
    method: Annotated[str | None, typer.Option(help="One of: wildspec methods.")] = None,
    data: Annotated[
        str | None, typer.Option(help="digits: the built-in task. Left out when --labelled is given.")
    ] = None,
    labelled: Annotated[str | None, typer.Option(help=shared.LABELLED)] = None,
    wild: shared.Wild = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the training in --out, as it was started.")] = False,
    minutes_limit: shared.MinutesLimit = None,
    alpha: shared.Alpha = 0.05,
    device: shared.Device = "auto",
    as_json: shared.AsJson = False,
    preset: shared.Preset = "fast",
    epochs: shared.Epochs = None,
    change: shared.Change = None,
    backbone: shared.Backbone = "auto",
    init: shared.Init = None,
    size: shared.Size = None,
    flip: shared.Flip = True,
    seed: shared.Seed = 0,
    data_seed: Annotated[
        int | None, shared.how(min=0, max=shared.MOST_SEED, metavar="<int>", help="The split, where it is not the seed's.")
    ] = None,
    environments: Annotated[
        Path | None, shared.how(help="One environment number per labelled image: text or .npy.")
    ] = None,
    precision: Annotated[str, shared.how(help="auto, fp32, bf16 or fp64.")] = "auto",
    tensorboard: Annotated[
        bool, shared.how("--tensorboard", help="Also write TensorBoard events, in the end beside the bundle.")
    ] = False,
    detector: shared.Detector = "auto",
    held_out: shared.HeldOut = 0.2,
    max_unreadable: shared.MaxUnreadable = 0.05,
    pictures: shared.Pictures = True,
    cache: shared.Cache = None,
) -> None:
    """Train a method into a bundle; batches, rates and lengths suit the data. Exit status 1: cut by the limit."""
    from wildspec.checks import positive, require
    from wildspec.data.paths import check_there
    from wildspec.errors import InputError

    for item in (labelled, wild):
        check_there(item)
    from wildspec.images import train_run
    from wildspec.images.data_spec import DataSpec
    from wildspec.training import Settings
    from wildspec.training.distributed import first_process
    from wildspec.training.recipe import parse_changes

    limit = None if minutes_limit is None else 60 * positive("--minutes-limit", minutes_limit)
    if tensorboard:
        require("tensorboard", "tensorboard", "--tensorboard")  # before there is a folder: a second try would be refused
    settings = Settings(
        device=device, precision=precision, time_limit=limit, progress=not as_json, tensorboard=tensorboard
    )
    if resume:
        if extra := left_out(context, (name for name in typed(context) if name not in OF_THIS_CALL)):
            raise InputError(f"--resume goes on as the training was started; leave out {extra}")
        outcome = train_run.resume(out, settings)
    else:
        if method is None:
            raise InputError("--method is missing; choose one of: wildspec methods")
        if labelled is None and wild is None and data in (None, "digits"):
            counts_only(context, "with --labelled, digits bring theirs", "size", "held_out", "max_unreadable", "cache")
        spec = DataSpec(
            kind=data or ("digits" if labelled is None and wild is None else "files"), labelled=labelled, wild=wild,
            environments=_text(environments), size=size, held_out=held_out, alpha=alpha,
            seed=seed if data_seed is None else data_seed, init=_text(init), max_unreadable=max_unreadable,
            cache=_text(cache),
        )  # fmt: skip
        request = train_run.TrainRequest(
            method, spec, backbone, preset, epochs, parse_changes(change or []), detector, flip, pictures, seed
        )
        outcome = train_run.start(request, out, settings)
    if not first_process():
        raise typer.Exit(0 if outcome.finished else 1)
    if as_json:
        print_json({**outcome.record, "finished": outcome.finished})
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
        typer.echo(f"cut by the time limit; go on with: wildspec train --resume --out {quote(str(out))}")
        return
    result, found = record["result"], record["metrics"]["validation"]
    typer.echo(f"{record['method']}: {result['steps']:,} steps, {result['views']:,} views in {result['seconds']:.1f} s")
    typer.echo(
        f"validation ({found['count']} labelled images held out): accuracy {found['accuracy']:.1%}, kept {found['kept']:.1%}"
    )
    typer.echo(f"{out} written. Next:")
    print_next(out, "evaluate {}", "score {} IMAGES --out scores.csv", "report {} --out report.html", "serve {}")
