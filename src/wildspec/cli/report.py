"""``wildspec report``: a bundle to one self-contained HTML page."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json

app = typer.Typer()


@app.command(
    "report",
    epilog="Example:\n\nwildspec report MODEL --out report.html\n\nwildspec report MODEL --data DIR --out report.html"
    "\n\nwildspec report MODEL --test DIR --shifted DIR --unknown DIR --out report.html",
)
def report(
    model: shared.Model,
    out: Annotated[Path, typer.Option(help="Page to write.")],
    data: Annotated[
        str | None, typer.Option("--data", "--wild", help="Report about these images instead of the fit's wild pool.")
    ] = None,
    test: shared.Test = None,
    covariate: shared.Covariate = None,
    semantic: shared.Semantic = None,
    with_map: Annotated[bool, typer.Option("--map/--no-map", help="Draw the map of samples? Takes some seconds.")] = True,
    device: shared.Device = "auto",
    as_json: shared.AsJson = False,
) -> None:
    """Write one page: summary, metrics, score distributions, calibration, map with thumbnails, images to review."""
    from wildspec.bundle.manifest import check_bundle, check_outside
    from wildspec.data.paths import check_there
    from wildspec.errors import InputError
    from wildspec.files import check_out

    check_bundle(model)
    for item in (data, test, covariate, semantic):
        check_there(item)
    if out.suffix.lower() not in (".html", ".htm"):  # a browser, or a reader of PDF, goes by the name
        raise InputError(f"the report is one HTML page, --out must end in .html; got {out}")
    check_outside(out)
    check_out(out, data, test, covariate, semantic)
    from wildspec.loading import load
    from wildspec.report import write_report
    from wildspec.report.facts import model_name

    estimator = load(model, device=device)
    given = {"wild": data, "test": test, "covariate": covariate, "semantic": semantic}
    opened = {key: _open(estimator, key, str(path)) for key, path in given.items() if path is not None}
    write_report(estimator, out, model_name(model), with_map=with_map, **opened)
    if as_json:
        print_json({"out": str(out), "bytes": out.stat().st_size})
        return
    typer.echo(f"{out} written ({out.stat().st_size / 1e6:.1f} MB); open it in any browser, no network is needed")


def _open(estimator: Any, key: str, path: str) -> Any:
    """A set to judge the model on: images for an image model, embeddings for the other kind."""
    if not hasattr(estimator, "fitted_"):
        from wildspec.serving.inputs import open_embeddings

        return open_embeddings([path], estimator.n_features_in_)[0]
    from wildspec.data import load_images
    from wildspec.images.reading import open_images, read_known

    size = estimator.fitted_.preprocess.size
    if key == "wild":
        return open_images(path, labelled=False)
    if key == "semantic":
        return load_images(open_images(path, labelled=False), size)
    return read_known(path, size, estimator.fitted_.classes)
