"""``wildspec serve``: a bundle as an HTTP service with a web page."""

import os
import re
import socket
from pathlib import Path
from typing import Annotated

import typer

from wildspec.cli import options as shared

app = typer.Typer()


@app.command(
    "serve",
    epilog="Example:\n\nwildspec serve MODEL\n\nwildspec serve MODEL --port 9000 --token SECRET\n\n"
    "curl -F images=@photo.jpg http://127.0.0.1:8000/v1/predict",
)
def serve(
    model: Annotated[
        Path, typer.Argument(help="Bundle of wildspec fit, train or review, of images; or an .onnx file of wildspec export.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="WILDSPEC_TOKEN", show_envvar=True, help="Ask for this bearer token.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further name under which it is asked, as behind a proxy; repeat for more.")
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1, help="Images judged together.")] = 64,
    max_wait_ms: Annotated[float, typer.Option(min=0, max=1000, help="How long an image waits for others.")] = 4.0,
    max_queue: Annotated[int, typer.Option(min=1, help="Images waiting or being scored; more get 429.")] = 512,
    max_images: Annotated[int, typer.Option(min=1, help="Images a request may hold.")] = 32,
    max_body_mb: Annotated[float, typer.Option(help="Size of a request.")] = 32.0,
    max_pixels: Annotated[int, typer.Option(min=1, help="Pixels of an image.")] = 25_000_000,
    max_request_pixels: Annotated[int, typer.Option(min=1, help="Pixels of all images of a request.")] = 100_000_000,
    decode_seconds: Annotated[float, typer.Option(help="Time to decode the images of a request.")] = 10.0,
    seconds: Annotated[float, typer.Option(help="Time a request may take.")] = 30.0,
    device: shared.Device = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", help="Only warnings.")] = False,
) -> None:
    """Answer POST /v1/predict, and show a page at / where images can be dropped. Stops with Ctrl-C, finishing its work."""
    from wildspec.bundle.manifest import check_bundle
    from wildspec.checks import require
    from wildspec.errors import InputError

    for name in allow_host or ():
        if not re.fullmatch(r"\*|[\w.-]+", name, re.ASCII):
            raise InputError(f"--allow-host takes a bare name as photos.example.org, without https:// and port; got {name}")
    if model.suffix.lower() != ".onnx":
        check_bundle(model)
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        require(package, "serve", "wildspec serve")
    from wildspec.serving.app import Limits
    from wildspec.serving.hosts import is_local
    from wildspec.serving.open_engine import open_engine
    from wildspec.serving.run import address_of, listen
    from wildspec.serving.run import serve as run
    from wildspec.serving.service import check_token

    limits = Limits(
        max_batch=max_batch, max_wait_ms=max_wait_ms, max_queue=max_queue, max_images=max_images, max_body_mb=max_body_mb,
        max_pixels=max_pixels, max_request_pixels=max_request_pixels, decode_seconds=decode_seconds, seconds=seconds,
    )  # fmt: skip
    check_token(os.environ.get("WILDSPEC_TOKEN") if token is None else token)  # set but empty: a slip, not a wish
    listener = listen(host, port)
    engine = open_engine(model, device)
    if token is None and not is_local(host):
        typer.echo(f"warning: anyone who reaches {host} can ask this model; give a --token", err=True)
    if not quiet:
        typer.echo(f"{engine.name}: {len(engine.classes)} classes; open {address_of(host, port)}  (Ctrl-C stops)", err=True)
    names = (*(allow_host or ()), *(() if is_local(host) else (socket.gethostname(),)))
    run(engine, host=host, limits=limits, token=token, quiet=quiet, listener=listener, hosts=names)
