"""``wildspec embed``: a folder of images to a table of embeddings."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json

app = typer.Typer()


@app.command(
    "embed",
    epilog="Example:\n\nwildspec embed photos/wild --out wild.parquet\n\n"
    "wildspec embed photos/labelled --labelled --out labelled.parquet\n\n"
    "wildspec embed-fit labelled.parquet wild.parquet --out MODEL",
)
def embed(
    images: Annotated[str, typer.Argument(help="A folder of images, parquet, .npz, or hf:NAME.")],
    out: Annotated[Path, typer.Option(help="Table to write, ending in .parquet.")],
    backbone: Annotated[
        str, typer.Option(help="One of: wildspec backbones, timm:NAME:pretrained, torchvision:NAME:pretrained, onnx:FILE.")
    ] = "efficientnet_lite0",
    labelled: Annotated[bool, typer.Option("--labelled", help="Sub-folders are classes: a column label.")] = False,
    size: Annotated[int | None, typer.Option(help="Side of the network's input in pixels; default: its own.")] = None,
    device: shared.Device = "auto",
    cache: Annotated[bool, typer.Option(help="Keep features for next time?")] = True,
    pictures: shared.Pictures = True,
    max_unreadable: shared.MaxUnreadable = 0.05,
    as_json: shared.AsJson = False,
) -> None:
    """Write the features of a frozen network, one row per image with its file name; for embed-fit."""
    from wildspec.bundle.manifest import check_outside
    from wildspec.data.paths import check_there
    from wildspec.errors import InputError
    from wildspec.files import check_out

    if out.suffix.lower() != ".parquet":
        raise InputError(f"--out must name a file that ends in .parquet, got {out}")
    check_there(images)
    check_outside(out)
    check_out(out, images)
    from wildspec.data.folder import not_read
    from wildspec.data.inputs import in_words, passed_over
    from wildspec.images.embed import embed_images
    from wildspec.images.encoding import ImageEncoder, usual_folder
    from wildspec.images.frozen_network import frozen_encoder
    from wildspec.images.reading import open_images

    source = open_images(images, labelled=labelled)
    encoder, _, _ = frozen_encoder(backbone, size=size, device=device)
    facts = {"backbone": backbone, "size": str(encoder.size)}
    found = embed_images(
        source, ImageEncoder(encoder, keep=usual_folder(cache)), out, max_unreadable=max_unreadable, facts=facts,
        pictures=pictures, show=not as_json,
    )  # fmt: skip
    left = [{"name": item.name, "reason": item.reason} for item in found.unreadable]
    if as_json:
        record = {"out": str(out), "rows": len(found), "features": encoder.feature_dim, "unreadable": left, **facts}
        print_json(record)
        return
    if left:
        typer.echo(f"{len(left):,} of {len(source):,} files could not be read and left out, first {left[0]['name']}: "
                   f"{left[0]['reason']}")  # fmt: skip
    for told in (in_words(not_read(images), "file", images), passed_over([images])):
        if told:
            typer.echo(told)
    if not labelled and Path(images).is_dir() and any(child.is_dir() for child in Path(images).iterdir()):
        typer.echo("no labels were written: --labelled takes sub-folders for classes")
    wide = f"{len(found):,} rows of {encoder.feature_dim:,} numbers"
    typer.echo(f"{quote(str(out))}: {wide} ({backbone} at {encoder.size} px)")
