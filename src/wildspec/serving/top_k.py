"""Of any number of scored rows those to look at first, in memory for as many."""

import heapq
from collections.abc import Iterable

from wildspec.serving.rows import Row


class TopK:
    """Keeps the ``count`` rows of highest ``ood_score``; of equal ones the earlier. Rows with an error do not count."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._heap: list[tuple[float, int, Row]] = []  # the smallest on top
        self._seen = 0

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._seen += 1
            if row["error"] is not None:
                continue
            item = (float(row["ood_score"]), -self._seen, row)  # no two have one place: rows are never compared
            if len(self._heap) < self.count:
                heapq.heappush(self._heap, item)
            else:
                heapq.heappushpop(self._heap, item)

    def rows(self) -> list[Row]:
        """The highest score first."""
        return [row for _, _, row in sorted(self._heap, key=lambda item: item[:2], reverse=True)]
