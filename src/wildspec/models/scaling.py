"""How networks see pixels: (x / 255 - mean) / std, mean and std per channel, of pixels in [0, 1]."""

from typing import Any, NamedTuple

from wildspec.errors import InputError

Triple = tuple[float, float, float]


class Scaling(NamedTuple):
    """The pixel scaling that weights were trained with."""

    mean: Triple
    std: Triple

    @classmethod
    def of(cls, mean: Any, std: Any) -> "Scaling":
        """From three numbers each, in any form: means from 0 to 1, deviations above 0 and up to 1."""
        try:
            means, deviations = (tuple(float(value) for value in values) for values in (mean, std))
        except (TypeError, ValueError):
            means = deviations = ()
        fits = len(means) == len(deviations) == 3 and all(0 <= value <= 1 for value in (*means, *deviations))
        if not fits or min(deviations) == 0:
            raise InputError(
                f"mean and std must be three numbers each, of pixels in [0, 1], and no std 0, got {mean} and {std}; "
                "divide those of pixels up to 255 by 255"
            )
        return cls(means, deviations)  # type: ignore[arg-type]


IMAGENET = Scaling((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LITE = Scaling((127 / 255, 127 / 255, 127 / 255), (128 / 255, 128 / 255, 128 / 255))  # (pixel - 127) / 128 of 0 to 255
RAW = Scaling((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255))  # the pixels themselves, 0 to 255
