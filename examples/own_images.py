"""Your own images: from two folders to decisions, explanations and a report. Goes with docs/howto-images.md.

    python examples/own_images.py                                        # on digits that come with scikit-learn
    python examples/own_images.py --labelled DIR --wild DIR              # on yours
"""

import argparse
import tempfile
from pathlib import Path

import wildspec
from digits_folders import make_folders
from wildspec.report import write_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labelled", type=Path, help="one sub-folder per class")
    parser.add_argument("--wild", type=Path, help="images from the field, unsorted")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "wildspec-example")
    parser.add_argument("--minutes", type=float, help="time for everything")
    parser.add_argument("--epochs", type=float, help="train a network end to end, so long")
    args = parser.parse_args()
    labelled, wild = args.labelled, args.wild
    if (labelled is None) != (wild is None):
        parser.error("give --labelled and --wild, or neither")
    digits = labelled is None
    if digits:
        folders = make_folders(args.out / "images")
        labelled, wild = folders["labelled"], folders["wild"]

    trained = args.epochs is not None  # end to end; without it a pre-trained network is taken as it is
    model = wildspec.WildClassifier(
        training=wildspec.Training(epochs=args.epochs, flip=not digits) if trained else "auto",  # a mirrored digit is none
        minutes=args.minutes, size=8 if digits and trained else None, verbose=True,
    )  # fmt: skip
    model.fit(labelled, wild)
    print(f"classes {model.classes_.tolist()}, threshold {model.threshold_:.3f}")

    predicted = model.predict(wild)  # names of classes, or "rejected"
    print(f"{(predicted == 'rejected').sum()} of {len(predicted)} wild images look like none of the classes")
    first = next(path for path in sorted(Path(wild).iterdir()) if path.is_file())
    print(f"{first.name}: {model.explain(first)[0]}")

    model.save(args.out / "model")  # safetensors and JSON, with checksums
    again = wildspec.load(args.out / "model")
    assert (again.predict(wild) == predicted).all()
    write_report(again, args.out / "report.html", "example")
    print(f"model and report are in {args.out}")


if __name__ == "__main__":
    main()
