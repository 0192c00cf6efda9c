"""One pass of the network serves every detector: features and logits, or scores batch by batch."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.checks import choice, integer
from wildspec.detectors.base import Detector
from wildspec.detectors.gradients import evaluation_mode
from wildspec.errors import InputError, WildspecError

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
Images = Any  # uint8 tensor (n, 3, H, W), an image set with len() and gather(indices), or a loader of batches
Preprocessing = Callable[[Tensor], Tensor] | None  # uint8 (b, 3, H, W) -> network input; None: a loader's batches are that


@dataclass(frozen=True, eq=False)
class Outputs:
    """A set of images after its one pass: ``features`` (n, d) and ``logits`` (n, C), float32, on the device they were
    computed on; ``labels`` (n,) int64 where the set or its loader had them, in the same order, else None.

    ``model``, ``images``, ``preprocess``: where they came from, for detectors that ask for the network or for the images
    again. ``scored``: scores taken during the pass, or why they could not be.
    """

    features: Tensor
    logits: Tensor
    labels: Tensor | None = None
    model: nn.Module | None = None
    images: Images = None
    preprocess: Preprocessing = None
    scored: tuple[tuple[Detector, Tensor | WildspecError], ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.labels, Tensor):
            object.__setattr__(self, "labels", _class_numbers(self.labels))

    @property
    def predictions(self) -> Tensor:
        """(n,) most likely class."""
        return self.logits.argmax(dim=1)

    def __len__(self) -> int:
        return len(self.features)

    def score(self, detector: Detector) -> Tensor:
        """(n,) scores of a fitted detector, high = OOD. One that takes a gradient to the input sees the images again, unless
        `collect` had it score them on the way."""
        for one, found in self.scored:
            if one is detector:
                if isinstance(found, WildspecError):
                    raise found
                return found
        if "inputs" not in detector.score_needs:
            return detector.score(features=self.features, logits=self.logits, model=self.model)
        if self.model is None or not _numbered(self.images):
            raise InputError(
                f"{detector.name} takes a gradient to the images, which are no longer there; give collect(detectors=...) "
                "the fitted detector"
            )
        return score_all(self.model, self.images, {"it": detector}, preprocess=self.preprocess)["it"]


def collect(
    model: nn.Module,
    images: Images,
    preprocess: Preprocessing = None,
    *,
    detectors: Iterable[Detector] = (),
    batch_size: int = 512,
    device: torch.device | str | None = None,
    precision: str = "fp32",
) -> Outputs:
    """Features and logits of all images, in order: evaluation mode, no gradients; the model's mode is put back.

    ``images``: a tensor, an image set, a pair (images, labels), or a loader (anything that yields batches ``x`` or
    ``(x, labels)``); the batches of a loader are what the network takes when ``preprocess`` is None.
    ``detectors``: fitted ones; those that take a gradient to the input score the images in the same pass, so that
    `Outputs.score` has the same samples in the same order, also of a loader that shuffles.
    ``device``: where to run (the model is moved there); default: where the model is. ``precision``: fp32, bf16 or fp16
    (autocast in the network; results are float32 and the head is always applied in the precision of its weights).
    """
    images, known = images_and_labels(images)
    on_the_way = [_Scores(one, with_pixel_scale(one, preprocess)) for one in detectors if "inputs" in one.score_needs]
    features, logits, labels = _Rows(images), _Rows(images), list[Tensor]()
    for inputs, found, answers, given in _batches(model, images, preprocess, batch_size, device, precision):
        features.add(found)
        logits.add(answers)
        labels += [] if given is None else [given]
        for scores in on_the_way:
            scores.add(inputs, found, answers, model)
    if not features.count:
        raise InputError("there are no images to collect features from; give at least one")
    if labels:
        with torch.inference_mode(False):
            known = torch.cat(labels)
        if len(known) != features.count:
            raise InputError(
                f"{features.count} images of the loader came with {len(known)} labels; give one for each, or none"
            )
    scored = tuple((scores.asked, scores.whole()) for scores in on_the_way)
    return Outputs(features.whole(), logits.whole(), known, model, images, preprocess, scored)


def images_and_labels(source: Images) -> tuple[Images, Tensor | None]:
    """A set with ``labels`` or a pair (images, labels) -> images and (n,) labels, int64; None where there are none."""
    images, labels = source if isinstance(source, tuple) else (source, getattr(source, "labels", None))
    if labels is None or is_loader(images):
        return images, None
    labels = _class_numbers(torch.as_tensor(labels))
    if labels.shape != (len(images),):
        raise InputError(f"a set has {len(images)} images but labels of shape {tuple(labels.shape)}; give one for each")
    return images, labels


def _class_numbers(labels: Tensor) -> Tensor:
    """Whole numbers of any type as int64: -1, which marks a wild sample, is 255 in uint8. Others stay, to be refused."""
    return labels if labels.is_floating_point() or labels.is_complex() else labels.long()


class _Scores:
    """The scores of one detector, batch after batch; a detector that cannot be used leaves the others alone."""

    def __init__(self, asked: Detector, prepared: Detector) -> None:
        self.asked, self.prepared = asked, prepared
        self.parts: list[Tensor] = []
        self.error: WildspecError | None = None

    def add(self, inputs: Tensor, features: Tensor, logits: Tensor, model: nn.Module) -> None:
        if self.error is None:
            try:
                self.parts.append(_score_batch(self.prepared, inputs, features, logits, model))
            except WildspecError as error:
                self.error = error

    def whole(self) -> Tensor | WildspecError:
        return torch.cat(self.parts) if self.error is None else self.error


class _Rows:
    """Batches put one below the other: where their number is known, into one allocation, without a final copy."""

    def __init__(self, images: Images) -> None:
        self.expected = len(images) if _numbered(images) else None
        self.count = 0
        self.parts: list[Tensor] = []

    def add(self, rows: Tensor) -> None:
        if self.expected is None:
            self.parts.append(rows)
        else:
            if not self.parts:  # widths are known only now
                with torch.inference_mode(False):
                    self.parts.append(rows.new_empty(self.expected, rows.shape[1]))
            self.parts[0][self.count : self.count + len(rows)] = rows
        self.count += len(rows)

    def whole(self) -> Tensor:
        if self.expected is not None:
            return self.parts[0]
        with torch.inference_mode(False):  # also of one part: batches are made in inference mode and can enter no gradient
            return torch.cat(self.parts)


def score_all(
    model: nn.Module,
    images: Images,
    detectors: Mapping[str, Detector],
    *,
    preprocess: Preprocessing = None,
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
    for inputs, features, logits, _ in _batches(model, images, preprocess, batch_size, device, precision):
        for name, detector in prepared.items():
            parts[name].append(_score_batch(detector, inputs, features, logits, model))
    return {name: torch.cat(blocks) if blocks else torch.empty(0) for name, blocks in parts.items()}


def with_pixel_scale(detector: Detector, preprocess: Preprocessing) -> Detector:
    """A copy whose input step is measured in pixels when it has a ``std`` that was left open; else itself."""
    if getattr(detector, "std", ()) is not None or not hasattr(preprocess, "std"):
        return detector
    scaled = copy.copy(detector)
    scaled.std = tuple(preprocess.std)  # type: ignore[attr-defined, union-attr]
    return scaled


def _score_batch(detector: Detector, inputs: Tensor, features: Tensor, logits: Tensor, model: nn.Module) -> Tensor:
    """Scores of one batch."""
    with torch.inference_mode(False):
        # tensors made in inference mode cannot enter autograd: the gradient pass gets a plain copy
        own = inputs.clone() if "inputs" in detector.score_needs else None
        return detector.score(features=features, logits=logits, inputs=own, model=model)


def _batches(
    model: nn.Module,
    images: Images,
    preprocess: Preprocessing,
    batch_size: int,
    device: torch.device | str | None,
    precision: str,
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
    """Network inputs, features, logits and the labels of a loader, batch after batch."""
    size = integer("batch_size", batch_size, minimum=1)
    cast = PRECISIONS[choice("precision", precision, PRECISIONS)]
    if not hasattr(model, "features") or not hasattr(model, "head"):
        raise InputError(
            f"{type(model).__name__} has no .features(x) and .head; wrap a finished classifier with "
            "wildspec.models.wrap_classifier, a backbone without a head with wrap_backbone"
        )
    if device is not None:
        model.to(device)
    first = next((parameter for parameter in model.parameters() if parameter.is_floating_point()), torch.empty(0))
    where, own = first.device, first.dtype  # a network trained in double precision is run in it
    with evaluation_mode(model):
        for pixels, labels in _pieces(images, size):
            if preprocess is None and not pixels.is_floating_point():
                raise InputError(f"{pixels.dtype} images are no input of a network; give preprocess=, or batches made ready")
            with torch.inference_mode():
                ready = pixels.to(where, non_blocking=True)
                inputs = (ready if preprocess is None else preprocess(ready)).to(own)
                with nullcontext() if cast is None else torch.autocast(where.type, dtype=cast):
                    features = model.features(inputs)  # type: ignore[operator]
                features = features.to(own)
                logits = model.head(features)  # type: ignore[operator]
            yield inputs, features.float(), logits.float(), labels


def _numbered(images: Images) -> bool:
    return isinstance(images, Tensor) or hasattr(images, "gather")


def is_loader(images: Images) -> bool:
    """Whether ``images`` gives batches and nothing else: a `torch.utils.data.DataLoader`, a list of batches."""
    other = _numbered(images) or hasattr(images, "dtype") or isinstance(images, (str, Mapping, tuple))  # arrays, pairs
    return isinstance(images, Iterable) and not other


def _pieces(images: Images, size: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Pixels or ready inputs, and labels where a loader gives them."""
    if _numbered(images):
        for start in range(0, len(images), size):
            stop = min(start + size, len(images))
            yield (images[start:stop] if isinstance(images, Tensor) else images.gather(torch.arange(start, stop))), None
    elif is_loader(images):
        yield from map(_batch, images)
    else:
        raise InputError(
            "images must be a uint8 tensor (n, 3, H, W), an image set of wildspec.data or a loader of batches, got "
            f"{type(images).__name__}"
        )


def _batch(item: Any) -> tuple[Tensor, Tensor | None]:
    """``x``, ``(x, labels)`` or ``(x, labels, ...)``."""
    parts = item if isinstance(item, (tuple, list)) else (item,)
    images, labels = parts[0] if parts else None, parts[1] if len(parts) > 1 else None
    if not isinstance(images, Tensor) or images.ndim != 4:
        got = f"a tensor {tuple(images.shape)}" if isinstance(images, Tensor) else type(item).__name__
        raise InputError(
            f"a loader must give batches x or (x, labels), x a tensor (b, 3, H, W), got {got}; "
            "of dictionaries: [(batch['image'], batch['label']) for batch in loader]"
        )
    return images, None if labels is None else _class_numbers(torch.as_tensor(labels))
