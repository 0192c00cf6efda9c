"""``wildspec export``: a bundle as one ONNX graph."""

from pathlib import Path
from typing import Annotated

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_next

app = typer.Typer()


@app.command(
    "export",
    epilog="Example:\n\nwildspec export MODEL --onnx model.onnx\n\nwildspec serve model.onnx",
)
def export(
    model: shared.ImageModel,
    onnx: Annotated[Path, typer.Option(help="File to write, ending in .onnx.")],
    check: Annotated[
        int, typer.Option(min=0, help="Random images on which onnxruntime must agree with torch; 0: none.")
    ] = 64,
    as_json: shared.AsJson = False,
) -> None:
    """Write preprocessing, network, detector and threshold as one ONNX graph, and check it. Exit status 1: it disagrees."""
    from wildspec.bundle.manifest import check_bundle, check_outside
    from wildspec.errors import InputError
    from wildspec.files import check_file

    check_bundle(model)
    if onnx.suffix.lower() != ".onnx":  # the service knows such a file by its name
        raise InputError(f"--onnx must name a file that ends in .onnx, got {onnx}")
    check_outside(onnx, "--onnx")
    check_file(onnx)
    from wildspec.bundle.onnx_export import export_onnx
    from wildspec.loading import load
    from wildspec.serving.engine import BundleEngine
    from wildspec.serving.onnx_engine import TOLERANCE, largest_difference

    estimator = load(model, device="cpu")
    if not hasattr(estimator, "fitted_"):
        raise InputError(f"{model} holds a model of embeddings; export is for image models")
    if not as_json:
        typer.echo("writing the graph and checking it; that can take half a minute", err=True)
    export_onnx(estimator.fitted_, onnx, BundleEngine(estimator, model.resolve().name).describe())
    difference = largest_difference(estimator, onnx, check) if check else None
    good = difference is None or difference <= TOLERANCE
    if as_json:
        record = {"out": str(onnx), "bytes": onnx.stat().st_size, "images": check, "largest_difference": difference}
        print_json(record)
    else:
        said = "not checked" if difference is None else f"on {check} random images within {difference:.1e} of torch"
        verdict = "Next:" if good else f"That is more than {TOLERANCE:g}: do not use it."
        typer.echo(f"{onnx} written ({onnx.stat().st_size / 1e6:.1f} MB); {said}. {verdict}")
        if good:
            print_next(onnx, "serve {}")
    raise typer.Exit(0 if good else 1)
