"""What is given on a command line, as image sources: files and folders of them are put together."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from wildspec.data.embeddings import EmbeddingTable, holds_embeddings
from wildspec.data.folder import FilesSource, FolderSource
from wildspec.data.headers import EXTENSIONS
from wildspec.data.parquet import holds_parquet, holds_shards
from wildspec.data.source import ImageSource
from wildspec.errors import DataError, InputError
from wildspec.images.reading import open_images

TABLES = (".parquet", ".npz", ".npy")


def open_embeddings(given: Sequence[str], width: int) -> list[EmbeddingTable]:
    """Tables of embeddings in the order given, all as wide as the model expects."""
    if not given:
        raise InputError("nothing to score; give parquet, CSV, .npz or .npy with embeddings")
    for item in given:
        if Path(item).suffix.lower() in EXTENSIONS or (Path(item).is_dir() and not holds_shards(Path(item))):
            raise InputError(
                f"{item} holds images, the model was fitted on embeddings; make them with the same network: wildspec embed "
                f"{quote(item)} --out embeddings.parquet"
            )
    tables = [EmbeddingTable(item) for item in given]
    for table in tables:
        if table.width != width:
            raise InputError(
                f"{table.path} holds embeddings of {table.width} numbers, the model was fitted on {width}; use the same "
                "embedding model for both"
            )
    return tables


def open_inputs(given: Sequence[str]) -> list[ImageSource]:
    """Sources in the order given; images in folders are named by their whole path."""
    return [source for _, source in open_items(given)]


def open_items(given: Sequence[str]) -> list[tuple[str | None, ImageSource]]:
    """The same, each with what it was opened from; None: image files, those of neighbouring arguments together.

    An image file that does not exist or cannot be read becomes a row with an error: in a list of a million, one bad name
    must not stop the rest. A folder or table that cannot be opened, or a name that is neither, is an error.
    """
    if not given:
        raise InputError("nothing to score; give image files, folders or parquet")
    sources: list[tuple[str | None, ImageSource]] = []
    files: list[Path] = []
    for item in given:
        path = Path(item)
        if path.is_dir() and not holds_parquet(path):
            files += FolderSource(path, labelled=False).paths
        elif (path.is_file() and path.suffix.lower() not in TABLES) or path.suffix.lower() in EXTENSIONS:
            files.append(path)
        else:
            sources += [(None, FilesSource(files))] if files else []
            files = []
            sources.append((item, _open_table(item)))
    return sources + ([(None, FilesSource(files))] if files else [])


def _open_table(item: str) -> ImageSource:
    try:
        return open_images(item, labelled=False)
    except DataError as error:
        if holds_embeddings(item):
            raise InputError(f"{item} holds embeddings, the model was fitted on images; give the images") from error
        raise
