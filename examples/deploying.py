"""Deploying: export to ONNX, serve it, ask it over HTTP. Goes with docs/howto-deploying.md.

    python examples/deploying.py --minutes 2
    python examples/deploying.py --model MODEL --image photo.jpg
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import wildspec
from digits_folders import make_folders

TOKEN = "change-me"


def ask(url: str, data: bytes | None = None, **headers: str) -> dict:
    """One request with the token; the answer as JSON."""
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {TOKEN}", **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a bundle you have; else one is fitted on digits")
    parser.add_argument("--image", type=Path, help="what to ask about")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "wildspec-deploying")
    args = parser.parse_args()
    bundle, image = args.model, args.image
    if bundle is None or image is None:
        folders = make_folders(args.out / "images")
        image = next(iter(sorted(folders["unknown"].iterdir())))
        bundle = args.out / "model"
        model = wildspec.WildClassifier(
            training=wildspec.Training(epochs=args.epochs, detector="knn", flip=False),
            minutes=args.minutes, size=8, verbose=True,
        )  # fmt: skip
        model.fit(folders["labelled"], folders["wild"]).save(bundle)

    program = [sys.executable, "-m", "wildspec"]
    graph = args.out / "model.onnx"
    subprocess.run([*program, "export", str(bundle), "--onnx", str(graph)], check=True)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "WILDSPEC_TOKEN": TOKEN}
    served = subprocess.Popen([*program, "serve", str(graph), "--port", str(port)], env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):  # until it is ready
            try:
                ask(f"{url}/readyz")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        print("classes:", ", ".join(ask(f"{url}/v1/model")["classes"]))
        (result,) = ask(f"{url}/v1/predict", image.read_bytes(), **{"Content-Type": "image/png"})["results"]
        print(f"{image.name}: {result['decision']} (score {result['ood_score']:.3f}, p = {result['p_value']:.3f})")
    finally:
        served.send_signal(signal.SIGTERM)  # it finishes what it accepted
        served.wait(60)


if __name__ == "__main__":
    main()
