"""The photographs and drawings of PACS, read as the embeddings are: rows of images, classes in the order of the protocol."""

from pathlib import Path

import numpy as np

from wildspec.bench.pacs_embeddings import DOMAINS, Embeddings
from wildspec.bench.pacs_open_set import NAMES
from wildspec.bench.store import Store
from wildspec.errors import DataError

SET, SPLIT, SIZE = "pacs160", "all", 160


def load_pacs_images(folder: Path, cache: Path) -> Embeddings:
    """``features``: (n, 3, 160, 160) uint8. ``folder`` holds `pacs160`: an image, a label and a domain for each sample."""
    store = Store(folder, cache)
    images = store.load(SET, SPLIT, SIZE)
    domain = store.column(SET, SPLIT, SIZE, "domain")
    missing = sorted({*NAMES} - {*images.classes}) + sorted({*DOMAINS} - {*domain.tolist()})
    if missing:
        raise DataError(f"{folder / SET} has no images of {', '.join(missing)}; the protocol needs all of PACS")
    numbers = np.array([NAMES.index(name) for name in images.classes])[images.labels.numpy()]
    sums = store.describe(SET, SPLIT, SIZE)["sha256"]
    return Embeddings(images.images.numpy(), numbers, domain, " ".join(sums[name] for name in sorted(sums)))
