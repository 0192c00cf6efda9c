"""``wildspec report``: a bundle to one self-contained HTML page."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(
    "report",
    epilog="Example:  wildspec report MODEL --out report.html   |   wildspec report MODEL --data DIR --out report.html"
    "   |   wildspec report MODEL --test DIR --covariate DIR --semantic DIR --out report.html",
)
def report(
    model: Annotated[Path, typer.Argument(help="Bundle of wildspec fit.")],
    out: Annotated[Path, typer.Option(help="Page to write.")],
    data: Annotated[
        str | None, typer.Option("--data", "--wild", help="Report about these images instead of the fit's wild pool.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Labelled test images of the known classes.")] = None,
    covariate: Annotated[Path | None, typer.Option(help="Known classes under other conditions, labelled.")] = None,
    semantic: Annotated[Path | None, typer.Option(help="Images of unknown classes.")] = None,
    with_map: Annotated[bool, typer.Option("--map/--no-map", help="Draw the map of samples? Takes some seconds.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Write one page: summary, metrics, score distributions, calibration, map with thumbnails, images to review."""
    from wildspec.bundle import load
    from wildspec.data import load_images, open_source
    from wildspec.estimators.wild_classifier import open_images
    from wildspec.report import write_report
    from wildspec.report.facts import model_name
    from wildspec.runs.task import known_images

    estimator = load(model, device=device)
    size, classes = estimator.fitted_.preprocess.size, estimator.fitted_.classes
    write_report(
        estimator, out, model_name(model), with_map=with_map,
        wild=None if data is None else open_images(data, labelled=False),
        test=None if test is None else known_images(str(test), size, classes),
        covariate=None if covariate is None else known_images(str(covariate), size, classes),
        semantic=None if semantic is None else load_images(open_source(semantic, labelled=False), size),
    )  # fmt: skip
    typer.echo(f"{out} written ({out.stat().st_size / 1e6:.1f} MB); open it in any browser, no network is needed")
