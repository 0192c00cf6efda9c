"""Your own backbone: any torch module that turns images into features. Goes with docs/howto-backbone.md.

    python examples/own_backbone.py --minutes 2
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import wildspec
from digits_folders import make_folders
from wildspec.bundle.onnx_export import export_onnx
from wildspec.serving.engine import BundleEngine


class Backbone(nn.Module):
    """Images (n, 3, S, S) -> features (n, d). Maps (n, d, h, w) would do as well: they are averaged."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "wildspec-backbone")
    args = parser.parse_args()
    folders = make_folders(args.out / "images")
    torch.manual_seed(0)  # the module's own weights are yours to initialize

    training = wildspec.Training(epochs=args.epochs, flip=False)  # a mirrored digit is no digit
    model = wildspec.WildClassifier(Backbone(), training=training, minutes=args.minutes, size=8, verbose=True)
    model.fit(folders["labelled"], folders["wild"])
    print(f"{model.model_.feature_dim} features, accuracy on held-out images {model.metrics_['validation']['accuracy']:.1%}")
    for name in ("known", "shifted", "unknown"):
        rejected = (model.predict(folders[name]) == "rejected").mean()
        print(f"{name}: {rejected:.0%} rejected")

    model.save(args.out / "model")
    again = wildspec.load(args.out / "model", backbone=Backbone())  # the bundle holds its weights, not its code
    assert (again.predict(folders["known"]) == model.predict(folders["known"])).all()
    print(f"model in {args.out}; load it with wildspec.load(path, backbone=Backbone())")

    graph = args.out / "model.onnx"  # the graph holds the network itself: serve it where your code is not
    export_onnx(again.fitted_, graph, BundleEngine(again, "digits").describe())
    print(f"or without the module: wildspec serve {graph}")


if __name__ == "__main__":
    main()
