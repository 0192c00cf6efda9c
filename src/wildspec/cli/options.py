"""Options that several commands share, each declared once: the same word means the same thing everywhere.

A command writes ``seed: Seed = 0``; what it asks for besides is its own. The panels order the help: what everybody needs
stands first.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.checks import MOST_SEED


def how(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="How it learns", **settings)


def more(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Decision and files", **settings)


def rare(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Seldom needed", **settings)


def words(text: str | None) -> list[str]:
    """What stands between commas; nothing of None."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


# -- data ----------------------------------------------------------------------------------------------------------------
LABELLED = (
    "Labelled images: a folder with one sub-folder per class, parquet, .npz, or hf:NAME of the Hugging Face hub, with "
    ":SPLIT, :CONFIG or :CONFIG:SPLIT behind it."
)
Wild = Annotated[
    str | None, typer.Option(help="Unlabelled images from the field, of any mixture: a folder, parquet, hf:NAME, ...")
]
Test = Annotated[
    str | None, typer.Option(help="Test samples of the known classes: one sub-folder per class, or a table with labels.")
]
Covariate = Annotated[
    str | None, typer.Option("--shifted", "--covariate", help="The same, known classes under other conditions.")
]
Semantic = Annotated[
    str | None, typer.Option("--unknown", "--semantic", help="Test samples of unknown classes; no labels are read.")
]
Answers = Annotated[Path | None, typer.Option(help="Table of answers from an earlier wildspec review: learned from, too.")]
Size = Annotated[int | None, how(min=8, metavar="<int>", help="Side of the network's input in pixels.")]
HeldOut = Annotated[
    float, more(help="Share of the labelled images held out: half to measure the model, half for its threshold.")
]
MaxUnreadable = Annotated[float, more(help="Share of files that may be unreadable.")]
Cache = Annotated[Path | None, more(help="Folder for decoded pixels of sets larger than memory.")]
DataSets = Annotated[Path, typer.Option(help="Folder with one folder per data set (wildspec bench sets).")]
Model = Annotated[Path, typer.Argument(help="Bundle (a folder) of wildspec fit, embed-fit, train or review.")]
ImageModel = Annotated[Path, typer.Argument(help="Bundle (a folder) of wildspec fit, train or review; of images.")]

# -- how it learns -------------------------------------------------------------------------------------------------------
Preset = Annotated[str, how(help="Recipe of the training: fast or paper.")]
Epochs = Annotated[float | None, how(help="Epochs of the training, over all stages together.")]
Change = Annotated[
    list[str] | None,
    how("--set", metavar="<str>", help="A hyper-parameter (eta_l=1) or a stage's field (pretrain.lr=0.1); repeatable."),
]
Backbone = Annotated[
    str, how(help="Network: auto, a name of wildspec backbones, timm:NAME, torchvision:NAME or onnx:FILE; with :pretrained "
             "behind NAME it brings weights.")
]  # fmt: skip
Init = Annotated[Path | None, how(help="Start the training from the weights of a backbone in this .safetensors file.")]
Flip = Annotated[bool, how("--flip/--no-flip", help="May images be mirrored? Not where they show text or digits.")]
Seed = Annotated[int, how(min=0, max=MOST_SEED, metavar="<int>", help="Split, initialization, order, augmentation.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
MinutesLimit = Annotated[
    float | None, typer.Option(help="Stop after so many minutes with a checkpoint; the same training goes on later.")
]

# -- decision and output -------------------------------------------------------------------------------------------------
Alpha = Annotated[float, typer.Option(help="Share of known samples that may be rejected by mistake.")]
Shift = Annotated[
    bool | None, more("--shift/--no-shift", help="Do the wild samples show your classes under new conditions? Default: a "
                      "test says so. --no-shift: they do not, what stands apart is unknown; more of it is rejected then.")
]  # fmt: skip
PerClass = Annotated[
    bool, more("--per-class", help="Promise --alpha for each class with enough held-out samples, not only for all together; "
               "fewer unknown ones are rejected.")
]  # fmt: skip
Detector = Annotated[
    str, more(help="How a network that is trained scores, one of: wildspec detectors. auto: wild_linear; knn without "
              "--wild; energy with the method pu.")
]  # fmt: skip
Pictures = Annotated[bool, more(help="Keep thumbnails, for report and web page?")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
