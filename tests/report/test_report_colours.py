"""The colours of the page's series: told apart by everyone, on both grounds."""

import itertools
import re
from importlib.resources import files

import numpy as np
import pytest

SERIES = ("validation", "test", "wild", "covariate", "semantic")
# Machado, Oliveira and Fernandes (2009), severity 1: what a dichromat sees, in linear RGB.
SIGHT = {
    "full": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])


def _sheets() -> dict[str, dict[str, str]]:
    """Variables of the light sheet and of both dark ones: the system's wish, and the button."""
    text = (files("wildspec.report") / "page" / "style.css").read_text(encoding="utf-8")
    blocks = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r"\{([^{}]*--bg:[^{}]*)\}", text)
    ]
    return dict(zip(("light", "dark by system", "dark by button"), blocks, strict=True))


def _linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    x = TO_XYZ @ np.clip(linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_both_dark_sheets_are_the_same() -> None:
    sheets = _sheets()
    assert sheets["dark by system"] == sheets["dark by button"]


@pytest.mark.parametrize("sheet", ["light", "dark by system"])
def test_series_differ_for_every_kind_of_sight_and_stand_out_from_the_ground(sheet: str) -> None:
    colours = _sheets()[sheet]
    for first, second in itertools.combinations(SERIES, 2):
        for kind, matrix in SIGHT.items():
            seen = [_lab(matrix @ _linear(colours[name])) for name in (first, second)]
            assert np.linalg.norm(seen[0] - seen[1]) > 20, f"{first} and {second} with {kind}"
    ground = TO_XYZ[1] @ _linear(colours["card"])
    for name in SERIES:
        light, dark = sorted((ground, TO_XYZ[1] @ _linear(colours[name])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, f"{name}: WCAG 1.4.11 asks for 3:1"
