"""Images: where they come from, what is drawn from them, how they are split and corrupted."""

from wildspec.data.corruptions import CORRUPTIONS, corrupt
from wildspec.data.digits import load_digits_images
from wildspec.data.images import ImageArrays, ImageSet, JoinedImages, Unreadable, concat
from wildspec.data.load import load_images
from wildspec.data.mixture import WildMixture, WildPool
from wildspec.data.parquet import ParquetSource
from wildspec.data.preprocess import Preprocess
from wildspec.data.sampling import ClassBalancedSampler, EpochSampler, MixtureSampler
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.data.splits import Split, fraction_split, half_split, holdout, wild_split

__all__ = [
    "CORRUPTIONS",
    "ClassBalancedSampler",
    "EpochSampler",
    "ImageArrays",
    "ImageSet",
    "ImageSource",
    "JoinedImages",
    "MixtureSampler",
    "ParquetSource",
    "Preprocess",
    "Split",
    "SubsetSource",
    "Unreadable",
    "WildMixture",
    "WildPool",
    "concat",
    "corrupt",
    "fraction_split",
    "half_split",
    "holdout",
    "load_digits_images",
    "load_images",
    "wild_split",
]
