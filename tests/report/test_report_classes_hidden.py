"""Classes that one accuracy over all hides are named."""

import numpy as np
import pytest

from wildspec.report.words import hidden_classes

CLASSES = ["bolt", "nut", "pin", "washer"]


@pytest.mark.parametrize(("labels", "likely", "said"), [
    ([0, 0, 1, 1, 2, 3], [0, 0, 1, 0, 2, 3], []),
    ([0, 0, 1, 2, 3], [0, 0, 0, 0, 0], []),  # one image of a class may be bad luck
    ([0, 0, 1, 1, 1, 2, 3], [0, 0, 0, 0, 2, 2, 3],
     ["None of the images held out of these classes was recognised: nut (3)."]),
    ([0, 0, 1, 1], [0, 0, 0, 0],
     ["None of the images held out of these classes was recognised: nut (2).",
      "The accuracy does not speak of these classes, of which no image was held out: pin, washer."]),
    ([], [], []),
])  # fmt: skip
def test_unequal_classes(labels: list[int], likely: list[int], said: list[str]) -> None:
    assert hidden_classes(np.array(labels, int), np.array(likely, int), CLASSES) == said


def test_of_many_the_first_are_named() -> None:
    names = [f"c{i}" for i in range(40)]
    (line,) = hidden_classes(np.repeat(np.arange(40), 2), np.zeros(80, int), names, "embeddings")
    assert line.startswith("None of the embeddings held out of these classes")
    assert line.endswith(" recognised: c1 (2), c2 (2), c3 (2), c4 (2), c5 (2) and 34 more.")
    assert hidden_classes(None, np.zeros(3, int), names) == []
