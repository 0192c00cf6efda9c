"""A table of embeddings from images: names, classes where there are some, and the features of a frozen network."""

from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wildspec.bundle.gallery import encode
from wildspec.data.source import ImageSource
from wildspec.errors import DataError
from wildspec.files import replacing
from wildspec.images.encoding import ImageEncoder
from wildspec.images.pictures import LABELLED_SIDE
from wildspec.images.reading import Images, read
from wildspec.training.counting import counting


def embed_images(
    source: ImageSource, encoder: ImageEncoder, path: str | PathLike[str], *, max_unreadable: float = 0.05,
    facts: dict[str, str] | None = None, pictures: bool = True, show: bool = False,
) -> Images:
    """Write ``name``, ``features``, ``picture`` (a thumbnail) and, where the source has classes, ``label`` (its name); the
    images as they were read.

    ``facts``: of the network, kept in the file's schema. Rows are in the source's order, without what cannot be read.
    """  # fmt: skip
    images = read(source, encoder.encoder.size, max_unreadable)
    labelled = bool(images.classes)
    fields: list[Any] = [("name", pa.string()), ("features", pa.list_(pa.float32()))]
    fields += [("label", pa.string())] * labelled + [("picture", pa.binary())] * pictures
    schema = pa.schema(fields, metadata=facts or {})
    names, labels = list(images.names), images.labels.cpu().tolist()
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema) as writer,
        counting("embedding", len(images), show) as advance,
    ):
        for block in encoder.encode(images, advance):
            rows = block.rows.tolist()
            columns: dict[str, Any] = {"name": [names[i] for i in rows], "features": list(block.features.numpy())}
            if labelled:
                columns["label"] = [images.classes[labels[i]] if labels[i] >= 0 else None for i in rows]
            if pictures:
                columns["picture"] = [_picture(source, int(images.kept[i])) for i in rows]
            writer.write_table(pa.table(columns, schema=schema))
    return images


def _picture(source: ImageSource, number: int) -> bytes | None:
    try:
        return encode(source.reduced(number, LABELLED_SIDE), LABELLED_SIDE)
    except DataError:  # it has gone since it was read
        return None
