"""Images: where they come from, what is drawn from them, how they are split and corrupted."""

from wildspec.data.corruptions import CORRUPTIONS, corrupt
from wildspec.data.digits import load_digits_images
from wildspec.data.images import ImageArrays, ImageSet, JoinedImages, Unreadable, concat
from wildspec.data.mixture import WildMixture, WildPool
from wildspec.data.preprocess import Preprocess
from wildspec.data.sampling import ClassBalancedSampler, EpochSampler, MixtureSampler
from wildspec.data.splits import Split, fraction_split, half_split, holdout, wild_split

__all__ = [
    "CORRUPTIONS",
    "ClassBalancedSampler",
    "EpochSampler",
    "ImageArrays",
    "ImageSet",
    "JoinedImages",
    "MixtureSampler",
    "Preprocess",
    "Split",
    "Unreadable",
    "WildMixture",
    "WildPool",
    "concat",
    "corrupt",
    "fraction_split",
    "half_split",
    "holdout",
    "load_digits_images",
    "wild_split",
]
