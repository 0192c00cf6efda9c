"""A uniform sample of a table that is larger than memory, in one pass (reservoir sampling, Vitter's algorithm R, 1985).

The first ``most`` rows fill the reservoir; row number i after them (counted from 0) draws a slot in 0..i and takes it if it
exists. The draws of a block are made at once; where two rows of a block take one slot, the later one stays.
"""

import numpy as np

from wildspec.checks import integer
from wildspec.data.embeddings import EmbeddingTable


def sample_rows(table: EmbeddingTable, most: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """At most ``most`` rows of the table (k, d) float32, each equally likely, and where they stood, ascending.

    Rows with NaN or infinite values are left out: a missing vector is read as NaN.
    """
    integer("most", most, minimum=1)
    rng = np.random.default_rng(seed)
    kept = np.empty((min(most, len(table)), table.width), np.float32)
    places = np.empty(len(kept), np.int64)
    seen = start = 0  # good rows before this block, all rows before this block
    for _, block in table.blocks():
        good = np.flatnonzero(np.isfinite(block).all(axis=1))
        order = seen + np.arange(len(good))
        slots = np.where(order < len(kept), order, rng.integers(order + 1))
        taken = slots < len(kept)
        kept[slots[taken]], places[slots[taken]] = block[good[taken]], start + good[taken]  # numpy: the last write stays
        seen += len(good)
        start += len(block)
    filled = min(seen, len(kept))
    ascending = np.argsort(places[:filled])
    return kept[:filled][ascending], places[:filled][ascending]
