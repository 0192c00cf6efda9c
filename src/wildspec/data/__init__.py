"""Images: where they come from, what is drawn from them, how they are split and corrupted."""

from wildspec.data.arrays import ArraySource
from wildspec.data.catalog import data_sets, locate
from wildspec.data.corruptions import CORRUPTIONS, corrupt
from wildspec.data.dataset import DatasetSource
from wildspec.data.digits import load_digits_images
from wildspec.data.folder import DomainFolderSource, FilesSource, FolderSource
from wildspec.data.images import ImageArrays, ImageSet, JoinedImages, Unreadable, concat
from wildspec.data.load import load_images
from wildspec.data.mixture import WildMixture, WildPool
from wildspec.data.opening import open_source
from wildspec.data.parquet import ParquetSource
from wildspec.data.prefetching import prefetch
from wildspec.data.preprocess import Preprocess
from wildspec.data.sampling import ClassBalancedSampler, EpochSampler, MixtureSampler
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.data.splits import Split, fraction_split, half_split, holdout, wild_split
from wildspec.data.streaming import StreamingImages

__all__ = [
    "CORRUPTIONS",
    "ArraySource",
    "ClassBalancedSampler",
    "DatasetSource",
    "DomainFolderSource",
    "EpochSampler",
    "FilesSource",
    "FolderSource",
    "ImageArrays",
    "ImageSet",
    "ImageSource",
    "JoinedImages",
    "MixtureSampler",
    "ParquetSource",
    "Preprocess",
    "Split",
    "StreamingImages",
    "SubsetSource",
    "Unreadable",
    "WildMixture",
    "WildPool",
    "concat",
    "corrupt",
    "data_sets",
    "fraction_split",
    "half_split",
    "holdout",
    "load_digits_images",
    "load_images",
    "locate",
    "open_source",
    "prefetch",
    "wild_split",
]
