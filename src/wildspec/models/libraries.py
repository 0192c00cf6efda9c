"""Feature extractors from timm and torchvision, where these are installed; ``NAME:pretrained`` asks them for weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from wildspec.checks import require
from wildspec.errors import DataError, InputError, MissingDependencyError, one_line
from wildspec.models.scaling import IMAGENET, Scaling

LIBRARIES = ("timm", "torchvision")


@dataclass(frozen=True)
class LibraryModel:
    """``library:name[:pretrained]``, looked up but not built. ``size``: pixels it was made for, None where unknown."""

    library: str
    name: str
    pretrained: bool
    scaling: Scaling
    size: int | None

    def build(self, with_weights: bool) -> nn.Module:
        """The network without its classifier; ``with_weights`` counts only where :pretrained was asked for."""
        package = _open(self.library, f"backbone {self.library}:{self.name}")
        weights = with_weights and self.pretrained
        unknown: type[Exception] = RuntimeError if self.library == "timm" else ValueError
        try:
            if self.library == "timm":
                return package.create_model(self.name, pretrained=weights, num_classes=0)
            network = package.models.get_model(self.name, weights="DEFAULT" if weights else None)
        except unknown as error:
            raise InputError(f"{self.library} has no model {self.name!r}: {one_line(error)}") from error
        except Exception as error:  # each library has its own ways to say that it cannot download
            if not weights:
                raise
            raise DataError(
                f"{self.library} cannot get the weights of {self.name}: {one_line(error)}; check the connection, or "
                "start from a file with --init"
            ) from error
        return _without_classifier(network, self.name)


def library_model(library: str, name: str) -> LibraryModel:
    """Look up ``NAME`` or ``NAME:pretrained``; a library that is not there is an error with the command that installs it."""
    plain, _, option = name.partition(":")
    if option not in ("", "pretrained"):
        raise InputError(f"backbone {library}:{name} must end after the name or in :pretrained")
    package = _open(library, f"backbone {library}:{name}")
    facts: Callable[[Any, str], tuple[Any, Any, Any]] = _timm_facts if library == "timm" else _torchvision_facts
    try:
        mean, std, size = facts(package, plain)
        scaling = Scaling((mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))
        return LibraryModel(library, plain, bool(option), scaling, int(size))
    except Exception:  # an older version, or a network without a record: most were trained so
        return LibraryModel(library, plain, bool(option), IMAGENET, None)


def _timm_facts(timm: Any, name: str) -> tuple[Any, Any, Any]:
    known = timm.get_pretrained_cfg(name)
    return known.mean, known.std, known.input_size[-1]


def _torchvision_facts(torchvision: Any, name: str) -> tuple[Any, Any, Any]:
    known = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    return known.mean, known.std, known.crop_size[0]


def _without_classifier(network: nn.Module, name: str) -> nn.Module:
    for attribute in ("fc", "classifier", "heads", "head"):
        if isinstance(getattr(network, attribute, None), nn.Module):
            setattr(network, attribute, nn.Identity())
            return network
    raise InputError(f"torchvision:{name} has no classifier that could be taken off; pass the module itself as backbone")


def _open(library: str, why: str) -> Any:
    """timm or torchvision; one that is there but was built for another torch fails in its own way."""
    try:
        return require(library, None, why)
    except (RuntimeError, OSError, AttributeError) as error:
        raise MissingDependencyError(
            f"{why} needs the package '{library}', which is installed but does not work with torch {torch.__version__}: "
            f"{one_line(error)}; install the one made for it"
        ) from error
