"""Pre-train once, fine-tune in several ways: what pays after the spectral stage? One change at a time, all on one model.

    python benchmarks/finetune_variants.py --data DIR --cache CACHE --semantic svhn --epochs 150 --out DIR

The pre-trained weights are kept in OUT, so a second call only fine-tunes. Each variant is one JSON record in OUT.
"""

import argparse
import copy
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from wildspec.bench.measure import measure
from wildspec.bench.prepare import Prepared, prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.store import Store
from wildspec.data import Preprocess
from wildspec.data.augment import Augmentation
from wildspec.detectors import build_detector
from wildspec.files import write_json
from wildspec.methods import Batch, Network, Stage
from wildspec.methods.spectral import Spectral
from wildspec.models import build_model
from wildspec.provenance import environment
from wildspec.training import Settings, TrainData, resolve_device, train


class WithPseudoLabels(Spectral):
    """Joint fine-tuning that also learns the confident predictions on wild views: view 1 teaches view 2."""

    def __init__(self, num_classes: int, confidence: float, joint: float = 1.0, **kw: float) -> None:
        super().__init__(num_classes, joint=joint, **kw)
        self.confidence = confidence

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name == "pretrain":
            return super().loss(model, batch, stage)
        features = model.features(batch.images)
        spectral, terms = self.spectral_terms(batch, features)
        supervised = self.supervised(model, batch, features)
        _, (u1, u2) = batch.split(features)
        with torch.no_grad():
            top, guess = model.head(u1).float().softmax(1).max(1)
            sure = (top > self.confidence).float()
        wild = (sure * F.cross_entropy(model.head(u2).float(), guess, reduction="none")).mean()
        logged = {"ce": supervised.detach(), "wild": wild.detach(), "sure": sure.mean(), **terms}
        return supervised + wild + self.joint * spectral, logged


def variants(eta: dict[str, float], names: list[str]) -> dict[str, tuple[Spectral, Stage]]:
    """Name -> (method, fine-tuning stage)."""
    views = Augmentation(scale=(0.5, 1.0), jitter_p=0.2, grey=0.2)
    plain = Stage("finetune", epochs=20, lr=0.005, batch_labelled=512, schedule="constant", augmentation=Augmentation.none())
    shift = Stage("finetune", epochs=28, lr=0.01, batch_labelled=256, augmentation=Augmentation.flip_and_shift(4))
    both = Stage("finetune", epochs=30, lr=0.05, batch_labelled=256, batch_wild=256, labelled_views=2, wild_views=2,
                 augmentation=views)
    shifted = both.scaled(augmentation=Augmentation.flip_and_shift(4))
    ce, joint = Spectral(10, **eta), Spectral(10, joint=1.0, **eta)
    every: dict[str, tuple[Spectral, Stage]] = {
        "paper": (ce, plain),
        "augmented": (ce, shift),
        "augmented-lr0.05-40": (ce, shift.scaled(lr=0.05, epochs=40)),
        "joint": (joint, both),
        "joint-pseudo0.95": (WithPseudoLabels(10, 0.95, **eta), both),
        "joint-pseudo0.95-shift": (WithPseudoLabels(10, 0.95, **eta), shifted),
        "joint-pseudo0.95-60": (WithPseudoLabels(10, 0.95, **eta), both.scaled(epochs=60)),
        "joint-pseudo0.8": (WithPseudoLabels(10, 0.8, **eta), both),
        "joint0.3-pseudo0.95": (WithPseudoLabels(10, 0.95, joint=0.3, **eta), both),
    }
    return {name: every[name] for name in names or every}


def detectors(prepared: Prepared) -> dict[str, Any]:
    k = min(50, len(prepared.labelled))
    return {"knn": build_detector("knn", k=k), "energy": build_detector("energy")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--semantic", default="svhn")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=150)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.12)
    parser.add_argument("--model", default="wrn40_2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all epochs, for trying the script")
    parser.add_argument("--variants", default="")
    parser.add_argument("--pretrained", type=Path, help="where the pre-trained weights are kept; default OUT")
    parser.add_argument("--minutes-limit", type=float, default=9.0)
    arguments = parser.parse_args()
    started = time.monotonic()
    device = resolve_device("auto")
    prepared = prepare(protocol("cifar10"), arguments.semantic, Store(arguments.data, arguments.cache))
    print(f"data ready after {time.monotonic() - started:.0f} s", flush=True)
    eta = {"eta_l": 0.5, "eta_u": 2.0}
    data = TrainData(prepared.labelled, prepared.wild, prepared.id_validation, preprocess=Preprocess(size=32))
    assert data.preprocess is not None
    folder = arguments.pretrained or arguments.out
    kept = folder / f"pretrained-{arguments.semantic}-{arguments.seed}.safetensors"
    torch.manual_seed(arguments.seed)
    model = build_model(arguments.model, 10)
    method = Spectral(10, **eta)
    first = method.stages("fast")[0].scaled(
        epochs=arguments.epochs * arguments.scale, warmup=5 * arguments.scale, lr=arguments.lr,
        batch_labelled=arguments.batch, batch_wild=arguments.batch,
    )
    spent = {"seconds": 0.0, "views": 0}
    if kept.exists():
        model.load_state_dict(load_file(kept))
        model.to(device)
    else:
        result = train(model, method, data, Settings(seed=arguments.seed, log_every=500), stages=[first])
        spent = {"seconds": result.seconds, "views": result.views}
        save_file({k: v.cpu().contiguous() for k, v in model.state_dict().items()}, kept)
        print(f"pre-trained: {result.views:,} views in {result.seconds:.0f} s", flush=True)
    for name, (tuner, stage) in variants(eta, [v for v in arguments.variants.split(",") if v]).items():
        if time.monotonic() - started > 60 * arguments.minutes_limit:
            print("out of time", flush=True)
            break
        own = copy.deepcopy(model)
        stage = stage.scaled(epochs=max(0.1, stage.epochs * arguments.scale))
        result = train(own, tuner, data, Settings(seed=arguments.seed, log_every=500), stages=[stage])
        found, _ = measure(own, prepared, detectors(prepared), data.preprocess, device=device)
        for detector, measured in found.items():
            line = measured.headline.to_json()
            record = {
                "variant": name, "detector": detector, "semantic": arguments.semantic, "seed": arguments.seed,
                "validation_id_acc": measured.validation_id_acc, **line,
                "severities": {str(k): v.to_json() for k, v in measured.severities.items()},
                "unseen": {k: v.to_json() for k, v in measured.unseen.items()},
                "pretrain": {**asdict(first), **spent}, "finetune": asdict(stage),
                "finetune_seconds": result.seconds, "finetune_views": result.views, "environment": environment(),
            }
            write_json(arguments.out / f"{name}-{detector}.json", record)
            shown = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc", "covariate_kept", "detection_rate")
            text = "  ".join(f"{key} {100 * line[key]:.2f}" for key in shown if line.get(key) is not None)
            print(f"{name:24s} {detector:7s} val {100 * measured.validation_id_acc:.2f}  {text}  "
                  f"({result.seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
