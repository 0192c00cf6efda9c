"""Images: where they come from, what is drawn from them, how they are split and corrupted.

The names below are imported on first use: what needs no torch, as decoding an image, does not load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from wildspec.data.sampling import EpochSampler, MixtureSampler
    from wildspec.data.source import ImageSource, SubsetSource
    from wildspec.data.splits import Split, fraction_split, half_split, holdout, wild_split
    from wildspec.data.streaming import StreamingImages

_PUBLIC = {
    "ArraySource": "arrays",
    "data_sets": "catalog",
    "locate": "catalog",
    "CORRUPTIONS": "corruptions",
    "corrupt": "corruptions",
    "DatasetSource": "dataset",
    "load_digits_images": "digits",
    "DomainFolderSource": "folder",
    "FilesSource": "folder",
    "FolderSource": "folder",
    "ImageArrays": "images",
    "ImageSet": "images",
    "JoinedImages": "images",
    "Unreadable": "images",
    "concat": "images",
    "load_images": "load",
    "WildMixture": "mixture",
    "WildPool": "mixture",
    "open_source": "opening",
    "ParquetSource": "parquet",
    "prefetch": "prefetching",
    "Preprocess": "preprocess",
    "EpochSampler": "sampling",
    "MixtureSampler": "sampling",
    "ImageSource": "source",
    "SubsetSource": "source",
    "Split": "splits",
    "fraction_split": "splits",
    "half_split": "splits",
    "holdout": "splits",
    "wild_split": "splits",
    "StreamingImages": "streaming",
}

__all__ = [
    "CORRUPTIONS",
    "ArraySource",
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


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"wildspec.data.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'wildspec.data' has no attribute {name!r}")
