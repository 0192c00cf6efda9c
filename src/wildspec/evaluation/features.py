"""One pass of the network serves every detector: features and logits, or scores batch by batch."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.checks import choice, integer
from wildspec.detectors.base import Detector
from wildspec.detectors.gradients import evaluation_mode
from wildspec.errors import InputError

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
Images = Any  # uint8 tensor (n, 3, H, W), or an image set with len() and gather(indices)
Preprocessing = Callable[[Tensor], Tensor]  # uint8 (b, 3, H, W) -> network input


@dataclass(frozen=True)
class Outputs:
    """``features`` (n, d) and ``logits`` (n, C), float32, on the device they were computed on."""

    features: Tensor
    logits: Tensor

    @property
    def predictions(self) -> Tensor:
        """(n,) most likely class."""
        return self.logits.argmax(dim=1)

    def __len__(self) -> int:
        return len(self.features)


def collect(
    model: nn.Module,
    images: Images,
    preprocess: Preprocessing,
    *,
    batch_size: int = 512,
    device: torch.device | str | None = None,
    precision: str = "fp32",
) -> Outputs:
    """Features and logits of all images, in order: evaluation mode, no gradients; the model's mode is put back.

    ``device``: where to run (the model is moved there); default: where the model is. ``precision``: fp32, bf16 or fp16
    (autocast in the network; results are float32 and the head is always applied in the precision of its weights).
    """
    features = logits = None
    start = 0
    for _, found, scores in _batches(model, images, preprocess, batch_size, device, precision):
        if features is None or logits is None:  # widths are known only now; one allocation, no final copy
            features = found.new_empty(_count(images), found.shape[1])
            logits = scores.new_empty(_count(images), scores.shape[1])
        features[start : start + len(found)] = found
        logits[start : start + len(found)] = scores
        start += len(found)
    if features is None or logits is None:
        raise InputError("there are no images to collect features from; give at least one")
    return Outputs(features, logits)


def score_all(
    model: nn.Module,
    images: Images,
    detectors: Mapping[str, Detector],
    *,
    preprocess: Preprocessing,
    batch_size: int = 512,
    device: torch.device | str | None = None,
    precision: str = "fp32",
) -> dict[str, Tensor]:
    """(n,) scores of every detector from one pass over the images; only scores are kept, so any n fits in memory.

    Detectors that need gradients to the input (ODIN) take their own forward and backward in the same pass over the images;
    one whose ``std`` is None uses that of ``preprocess``.
    """
    prepared = {name: with_pixel_scale(detector, preprocess) for name, detector in detectors.items()}
    parts: dict[str, list[Tensor]] = {name: [] for name in prepared}
    for inputs, features, logits in _batches(model, images, preprocess, batch_size, device, precision):
        with torch.inference_mode(False):
            for name, detector in prepared.items():
                # tensors made in inference mode cannot enter autograd: the gradient pass gets a plain copy
                own = inputs.clone() if "inputs" in detector.score_needs else None
                parts[name].append(detector.score(features=features, logits=logits, inputs=own, model=model))
    return {name: torch.cat(blocks) if blocks else torch.empty(0) for name, blocks in parts.items()}


def fit_all(
    detectors: Mapping[str, Detector], outputs: Outputs, *, labels: Tensor | None = None, model: nn.Module | None = None
) -> None:
    """Fit every detector on the same training features."""
    here = None if labels is None else labels.to(outputs.features.device)
    for detector in detectors.values():
        detector.fit(features=outputs.features, logits=outputs.logits, labels=here, model=model)


def with_pixel_scale(detector: Detector, preprocess: Preprocessing) -> Detector:
    """A copy whose input step is measured in pixels when it has a ``std`` that was left open; else itself."""
    if getattr(detector, "std", ()) is not None or not hasattr(preprocess, "std"):
        return detector
    scaled = copy.copy(detector)
    scaled.std = tuple(preprocess.std)  # type: ignore[attr-defined]
    return scaled


def _batches(
    model: nn.Module,
    images: Images,
    preprocess: Preprocessing,
    batch_size: int,
    device: torch.device | str | None,
    precision: str,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Network inputs, features and logits, batch after batch."""
    size = integer("batch_size", batch_size, minimum=1)
    cast = PRECISIONS[choice("precision", precision, PRECISIONS)]
    if not hasattr(model, "features") or not hasattr(model, "head"):
        raise InputError(
            f"{type(model).__name__} has no .features(x) and .head; wrap it with wildspec.models.wrap_backbone"
        )
    if device is not None:
        model.to(device)
    first = next((parameter for parameter in model.parameters() if parameter.is_floating_point()), torch.empty(0))
    where, own = first.device, first.dtype  # a network trained in double precision is run in it
    with evaluation_mode(model):
        for start in range(0, _count(images), size):
            pixels = _take(images, start, min(start + size, _count(images)))
            with torch.inference_mode():
                inputs = preprocess(pixels.to(where, non_blocking=True)).to(own)
                with nullcontext() if cast is None else torch.autocast(where.type, dtype=cast):
                    features = model.features(inputs)  # type: ignore[operator]
                features = features.to(own)
                logits = model.head(features)  # type: ignore[operator]
            yield inputs, features.float(), logits.float()


def _count(images: Sized) -> int:
    return len(images)


def _take(images: Images, start: int, stop: int) -> Tensor:
    if isinstance(images, Tensor):
        return images[start:stop]
    if hasattr(images, "gather"):
        return images.gather(torch.arange(start, stop))
    raise InputError(
        f"images must be a uint8 tensor (n, 3, H, W) or an image set of wildspec.data, got {type(images).__name__}"
    )
