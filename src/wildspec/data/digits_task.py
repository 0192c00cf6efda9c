"""The embedded task: scikit-learn's 8x8 digits, split once per seed, nothing to download.

Known classes are the digits 0-5; covariate shift is Gaussian noise of standard deviation 0.18 on grey pixels in [0, 1]
(severity 3 with the ImageNet-C constants), drawn anew for every image; unknown classes are the digits 6-9, clean. Every
one of the 1,797 images belongs to exactly one part: the covariate images are noisy versions of images nobody else has.

    part             images   what it is for
    labelled            231   training, with labels
    wild                509   training, without labels: 199 clean + 250 noisy known, 60 unknown, shuffled
    calibration         119   threshold: clean known images neither the network nor the detector has seen
    id_test             142   test: clean known
    covariate_test      142   test: noisy known
    semantic_test       654   test: unknown

119 calibration samples make the conformal rate at alpha = 0.05 exactly 6 / 120.
"""

from dataclasses import dataclass

import numpy as np
import torch

from wildspec.checks import integer
from wildspec.data.corruptions import corrupt
from wildspec.data.digits import load_digits_images
from wildspec.data.images import ImageArrays, concat
from wildspec.data.mixture import WildPool
from wildspec.data.preprocess import Preprocess
from wildspec.data.splits import Split, fraction_split

KNOWN = tuple(range(6))
CORRUPTION, SEVERITY, CONSTANTS = "gaussian_noise", 3, "imagenet"
KNOWN_PARTS = {
    "labelled": 231, "wild_id": 199, "wild_covariate": 250, "calibration": 119, "id_test": 142, "covariate_test": 142,
}  # fmt: skip
UNKNOWN_PARTS = {"wild_semantic": 60, "semantic_test": 654}
PREPROCESS = Preprocess(size=8, mean=(0.305,) * 3, std=(0.376,) * 3)  # of the digits; three equal channels


@dataclass(frozen=True)
class DigitsTask:
    """The parts as image sets.

    ``wild_component``: (509,) int8, 0 clean known, 1 noisy known, 2 unknown; for evaluation only.
    ``splits``: who is where, with hashes: ``known`` over the images of 0-5 in their order, ``unknown`` over those of 6-9.
    """

    labelled: ImageArrays
    wild: WildPool
    calibration: ImageArrays
    id_test: ImageArrays
    covariate_test: ImageArrays
    semantic_test: ImageArrays
    wild_component: np.ndarray
    splits: dict[str, Split]
    preprocess: Preprocess = PREPROCESS

    def hashes(self) -> dict[str, str]:
        """sha256 of the members of every part."""
        return {name: split.hash(name) for split in self.splits.values() for name in split.members}


def digits_task(seed: int = 0) -> DigitsTask:
    """The task of one seed: split, noise and order of the wild pool follow from it."""
    seed = integer("seed", seed)
    digits = load_digits_images()
    labels = digits.labels.numpy()
    known = digits.subset(np.flatnonzero(labels < len(KNOWN)))
    known.classes = tuple(str(digit) for digit in KNOWN)
    unknown = digits.subset(np.flatnonzero(labels >= len(KNOWN)))
    splits = {
        "known": _split(known, KNOWN_PARTS, seed),
        "unknown": _split(unknown, UNKNOWN_PARTS, seed),
    }
    part = {name: known.subset(members) for name, members in splits["known"].members.items()}
    part |= {name: unknown.subset(members).unlabelled() for name, members in splits["unknown"].members.items()}
    for number, name in enumerate(("wild_covariate", "covariate_test")):
        noisy = corrupt(part[name].images, CORRUPTION, SEVERITY, 2 * seed + number, constants=CONSTANTS)
        part[name].images = noisy[:, :1].expand_as(noisy).contiguous()  # the digits are grey and stay grey

    wild = concat(*(part[name].unlabelled() for name in ("wild_id", "wild_covariate", "wild_semantic")))
    component = np.repeat(
        np.arange(3, dtype=np.int8), [len(part[name]) for name in ("wild_id", "wild_covariate", "wild_semantic")]
    )
    order = np.random.default_rng([seed, len(wild)]).permutation(len(wild))  # position says nothing about the component
    return DigitsTask(
        labelled=part["labelled"],
        wild=WildPool(wild.subset(torch.from_numpy(order))),
        calibration=part["calibration"],
        id_test=part["id_test"],
        covariate_test=part["covariate_test"],
        semantic_test=part["semantic_test"],
        wild_component=component[order],
        splits=splits,
    )


def _split(images: ImageArrays, counts: dict[str, int], seed: int) -> Split:
    """Stratified by class; parts within one image per class of their share."""
    n = len(images)
    return fraction_split(
        n, {name: count / n for name, count in counts.items()}, seed, labels=images.labels.numpy(), ids=images.names
    )
