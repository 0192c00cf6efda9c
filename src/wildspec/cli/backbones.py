"""``wildspec backbones``: the networks by name, whether they are here, their size, licence, input and speed."""

from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_table
from wildspec.cli.typed import counts_only

app = typer.Typer()


@app.command(
    "backbones",
    epilog="Example:\n\nwildspec backbones\n\nwildspec backbones efficientnet_lite0 --speed --size 160",
)
def backbones(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One backbone: a name of the list, timm:NAME, onnx:FILE.")] = None,
    speed: Annotated[bool, typer.Option("--speed", help="Measure images a second here, at each one's size.")] = False,
    size: Annotated[int | None, typer.Option(help="Measure at this side in pixels instead.")] = None,
    device: shared.Device = "auto",
    as_json: shared.AsJson = False,
) -> None:
    """List the backbones: installed or not, size, licence, input, features, and with --speed images a second."""
    if not speed:
        counts_only(context, "with --speed", "size", "device")
    from wildspec.images.encoding import ImageEncoder
    from wildspec.models.listing import backbone_record, backbone_records, encoder_of
    from wildspec.training import resolve_device

    records = backbone_records() if name is None else [backbone_record(name)]
    if speed:
        where = resolve_device(device)
        for record in records:
            known = record["installed"] and record["features"] is not None
            record["measured_at"] = size or record["size"]
            record["images_per_second"] = (
                ImageEncoder(encoder_of(record["name"], size, where)).images_per_second() if known else None
            )
    if as_json:
        print_json(records if name is None else records[0])
    else:
        _print(records, speed=speed)


def _print(records: list[dict[str, Any]], *, speed: bool) -> None:
    def cell(value: Any, form: str = "") -> str:
        return "-" if value is None else format(value, form)

    rows = [
        [
            record["name"], record["weights"], cell(record["licence"]), "yes" if record["installed"] else "no",
            cell(record["megabytes"], ".1f"), cell(record["size"]), cell(record["features"]),
            *([cell(record["images_per_second"], ".0f")] if speed else []),
        ]
        for record in records
    ]  # fmt: skip
    titles = ["backbone", "weights", "licence", "installed", "MB", "px", "features", *(["images/s"] if speed else [])]
    print_table(titles, rows, words=4)
    for record in records:
        if not record["installed"]:
            typer.echo(f"{record['name']}: {record['install']}")
    typer.echo("Use one: wildspec fit --backbone NAME")
