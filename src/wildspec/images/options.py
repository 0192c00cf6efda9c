"""How a network is trained, how files are read, and all that a fit of images is given."""

from dataclasses import KW_ONLY, dataclass
from os import PathLike
from typing import Any, Literal

from torch import nn

from wildspec.checks import MOST_SEED, choice, fraction, integer, open_fraction, positive
from wildspec.decision.rule import SHIFT_CHOICES
from wildspec.detectors import Detector
from wildspec.detectors.choose import choose_detector
from wildspec.errors import InputError, InputTypeError
from wildspec.methods import METHODS
from wildspec.methods.recipes import PRESETS


@dataclass(frozen=True)
class Training:
    """How `wildspec.WildClassifier` trains a network.

    Parameters
    ----------
    method : str
        See ``wildspec methods``. "auto": spectral+, without wild images spectral; on a GPU with fewer than 10,000 labelled
        images pu; on a CPU that is given no epochs, pu or erm.
    preset : {"fast", "paper"}
        The recipe of the method.
    epochs : float or None
        Total over all stages. With neither epochs nor minutes it is the preset's, on a CPU what ten minutes allow, or the
        least that teaches something where that takes longer.
    detector : str, Detector or "auto"
        What the trained network is judged by. "auto": wild_linear; without wild images knn; after pu the energy it was
        trained for.
    hparams : dict or None
        Hyper-parameters of the method.
    flip : bool
        False where a mirror image means something else (text, digits).

    Examples
    --------
    >>> from wildspec import Training, WildClassifier
    >>> model = WildClassifier(training=Training("spectral", detector="knn", flip=False), minutes=20)
    """

    method: str = "auto"
    preset: str = "fast"
    _: KW_ONLY
    epochs: float | None = None
    detector: str | Detector = "auto"
    hparams: dict[str, Any] | None = None
    flip: bool = True

    def __post_init__(self) -> None:
        choice("method", self.method, ("auto", *METHODS))
        choice("preset", self.preset, PRESETS)
        if self.epochs is not None:
            _set(self, epochs=positive("epochs", self.epochs))
        if self.detector != "auto":
            choose_detector(self.detector)
        if not isinstance(self.hparams, dict | None):
            raise InputTypeError(f"hparams must be a dict, name to value, or None, got {type(self.hparams).__name__}")
        choice("flip", self.flip, (True, False))


@dataclass(frozen=True, kw_only=True)
class Files:
    """How `wildspec.WildClassifier` reads files, and what it keeps of them.

    Parameters
    ----------
    cache : path, False or None
        Folder for decoded pixels of sets larger than memory; False: keep no features of a frozen network either.
    pictures : bool
        Keep thumbnails in the bundle, for the report and the web page.
    max_unreadable : float
        Share of files that may be unreadable.

    Examples
    --------
    >>> from wildspec import Files, WildClassifier
    >>> model = WildClassifier(files=Files(pictures=False))
    """

    cache: str | PathLike[str] | Literal[False] | None = None
    pictures: bool = True
    max_unreadable: float = 0.05

    def __post_init__(self) -> None:
        if not isinstance(self.cache, str | PathLike | None) and self.cache is not False:
            raise InputTypeError(f"cache must be a folder, False or None, got {self.cache!r}")
        choice("pictures", self.pictures, (True, False))
        _set(self, max_unreadable=fraction("max_unreadable", self.max_unreadable))


@dataclass(frozen=True)
class Options:
    """The constructor arguments of `wildspec.WildClassifier`, checked. ``groups``: of its ``fit``."""

    backbone: Any
    init: Any
    training: Training | str | None
    minutes: float | None
    shift: Any
    alpha: float
    per_class: bool
    held_out: float
    size: int | None
    files: Files
    device: str
    random_state: int
    verbose: bool
    groups: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.backbone, str | nn.Module):
            raise InputTypeError(f"backbone must be a name or a torch module, got {type(self.backbone).__name__}")
        if not isinstance(self.training, Training) and self.training not in ("auto", None):
            raise InputError(
                f'training must be "auto", None (the network stays as it is) or Training(...), got {self.training!r}'
            )
        if not isinstance(self.files, Files):
            raise InputError(f"files must be Files(...) or None, got {self.files!r}")
        if self.minutes is not None:
            _set(self, minutes=positive("minutes", self.minutes))
            if isinstance(self.training, Training) and self.training.epochs is not None:
                raise InputError("give epochs or minutes, not both: minutes chooses the epochs")
        for name in ("alpha", "held_out"):
            _set(self, **{name: open_fraction(name, getattr(self, name))})
        shift = choice("shift", self.shift, SHIFT_CHOICES)
        _set(self, shift=shift if shift == "auto" else bool(shift))
        if self.size is not None:
            _set(self, size=integer("size", self.size, 8, 1024))
        _set(self, random_state=integer("random_state", self.random_state, maximum=MOST_SEED))


def _set(settings: Training | Files | Options, **values: Any) -> None:
    """Plain numbers in the place of numpy's, which a bundle's JSON does not hold."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)
