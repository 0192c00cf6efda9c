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
    name: module
    for module, names in {
        "arrays": "ArraySource", "catalog": "data_sets locate", "corruptions": "CORRUPTIONS corrupt",
        "dataset": "DatasetSource", "digits": "load_digits_images", "folder": "DomainFolderSource FilesSource FolderSource",
        "images": "ImageArrays ImageSet JoinedImages Unreadable concat", "load": "load_images",
        "mixture": "WildMixture WildPool", "opening": "open_source", "parquet": "ParquetSource", "prefetching": "prefetch",
        "preprocess": "Preprocess", "sampling": "EpochSampler MixtureSampler", "source": "ImageSource SubsetSource",
        "splits": "Split fraction_split half_split holdout wild_split", "streaming": "StreamingImages",
    }.items()
    for name in names.split()
}  # fmt: skip

__all__ = [
    "CORRUPTIONS", "ArraySource", "DatasetSource", "DomainFolderSource", "EpochSampler", "FilesSource", "FolderSource",
    "ImageArrays", "ImageSet", "ImageSource", "JoinedImages", "MixtureSampler", "ParquetSource", "Preprocess", "Split",
    "StreamingImages", "SubsetSource", "Unreadable", "WildMixture", "WildPool", "concat", "corrupt", "data_sets",
    "fraction_split", "half_split", "holdout", "load_digits_images", "load_images", "locate", "open_source", "prefetch",
    "wild_split",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"wildspec.data.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'wildspec.data' has no attribute {name!r}")
