"""From one pre-trained model: fine-tune, attribute the wild pool, promote, fine-tune again. What does each step bring?

    python benchmarks/promote_variants.py --data DIR --cache CACHE --weights PRETRAINED.safetensors --out OUT.json \\
        --agreement 0.9 --epochs 40

WEIGHTS: the model tensors of a checkpoint of ``wildspec bench cifar10 --methods spectral`` at the end of its first stage, or
of a finished run, for one more round. ``--grow``: attribution in rounds. ``--strangers 0.5 2``: also fine-tune with these
weights of `SpectralPlus`'s term. ``--epochs 0``: do not promote.
After every step the model is measured by each detector, and by the classes of the 50 nearest labelled images (``vote``):
accuracy for ID and covariate test images, and how far the median of each kind lies from them. Printed, appended to OUT.
"""

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from wildspec.bench.measure import measure
from wildspec.bench.prepare import Prepared, prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.store import Store
from wildspec.data import Preprocess
from wildspec.detectors import build_detector
from wildspec.detectors.attribution import attribute
from wildspec.evaluation import collect
from wildspec.files import read_json, write_json
from wildspec.methods import Method, Stage, build_method
from wildspec.models import Classifier, build_model
from wildspec.provenance import environment
from wildspec.training import Settings, TrainData, resolve_device, train

SHOWN = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc", "id_kept", "covariate_kept", "detection_rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--weights", type=Path, help="pre-trained model; left out: a random one, to try the script")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="where to save the promoted model, for a second round")
    parser.add_argument("--semantic", default="svhn")
    parser.add_argument("--model", default="wrn40_2")
    parser.add_argument("--agreement", type=float, default=0.9)
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--strangers", type=float, nargs="*", default=[])
    parser.add_argument("--epochs", type=float, default=40, help="of the promote stage")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all epochs, to try the script")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    plan = protocol("cifar10")
    prepared = prepare(plan, given.semantic, Store(given.data, given.cache), unseen=False)
    device = resolve_device("auto")
    model = build_model(given.model, len(prepared.labelled.classes))
    if given.weights is not None:
        tensors = load_file(given.weights)
        model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    model.to(device)
    settings = Settings(seed=given.seed, progress=False)
    data = TrainData(prepared.labelled, prepared.wild, preprocess=Preprocess(size=32))
    hparams = {**plan.hparams("spectral+", given.semantic)[0], "agreement": given.agreement, "grow": given.grow}
    classes = len(prepared.labelled.classes)
    plain, pseudo = (build_method("spectral+", classes, **{**hparams, "pseudo": weight}) for weight in (0.0, 1.0))
    estranged = {weight: build_method("spectral+", classes, **hparams, strangers=weight) for weight in given.strangers}
    _, settle, promote, finetune = plain.stages("fast")
    promote = promote.scaled(epochs=given.epochs)

    def run(network: Classifier, method: Method, stage: Stage) -> None:
        train(network, method, data, settings, stages=[stage.scaled(epochs=stage.epochs * given.scale)])

    show = reporter(prepared, given, device)
    show("pretrained", model)
    run(model, plain, settle)
    show("settled", model)
    if given.epochs:
        run(model, plain, promote)
        show("promoted", model)
    if given.keep is not None:
        save_file({f"model.{k}": v.contiguous() for k, v in model.state_dict().items()}, given.keep)
    pseudo.load_state_dict(plain.state_dict())  # the same attribution
    for name, method, stage in (
        ("fine-tuned", plain, finetune), ("fine-tuned with attributed images", pseudo, pseudo.stages("fast")[-1]),
        ("fine-tuned twice as long", plain, finetune.scaled(epochs=2 * finetune.epochs)),
        *((f"fine-tuned, strangers {weight:g}", one, one.stages("fast")[-1]) for weight, one in estranged.items()),
    ):  # fmt: skip
        network = copy.deepcopy(model)
        run(network, method, stage)
        show(name, network)


def reporter(prepared: Prepared, given: argparse.Namespace, device: torch.device) -> Callable[[str, Classifier], None]:
    """A function that measures a model, prints it and appends it to OUT."""
    preprocess = Preprocess(size=32)
    severity = prepared.severity
    prepared.covariate_test = {severity: prepared.covariate_test[severity]}

    def show(step: str, model: Classifier) -> None:
        model.eval()
        k = min(50, len(prepared.labelled))
        labels = prepared.labelled.labels.to(device)
        bank = collect(model, prepared.labelled, preprocess, device=device).features
        row: dict[str, Any] = {"step": step, "agreement": given.agreement, "grow": given.grow}
        row |= {"promote_epochs": given.epochs, "vote": {}}
        parts = {"id": prepared.id_test, "covariate": prepared.covariate_test[severity], "semantic": prepared.semantic_test}
        for name, images in parts.items():
            found = attribute(bank, labels, collect(model, images, preprocess, device=device).features, k=k, rounds=1)
            right = None if name == "semantic" else float((found.nearest.cpu() == images.labels).float().mean())
            row["vote"][name] = {"accuracy": right, "distance": float(found.distance.median())}
        detectors = {name: build_detector(name, k=k) for name in ("knn", "wild_knn", "wild_contrast")}
        measured, _ = measure(model, prepared, detectors, preprocess, device=device)
        for name, result in measured.items():
            values = result.headline.to_json()
            row[name] = {"id_acc_validation": result.validation_id_acc, **{key: values[key] for key in SHOWN}}
            if result.pool is not None:
                row[name]["pool"] = result.pool["true"]
            print(step, name, " ".join(f"{key} {100 * values[key]:.2f}" for key in SHOWN), flush=True)
        rows = read_json(given.out)["rows"] if given.out.exists() else []
        write_json(given.out, {"environment": environment(), "semantic": given.semantic, "rows": [*rows, row]})

    return show


if __name__ == "__main__":
    main()
