"""The methods by name. One line per method: that is all a new one needs; one of another package calls `register_method`."""

import inspect
from typing import Any, TypeVar

from wildspec.checks import choice
from wildspec.errors import InputError
from wildspec.methods.anna import ANNA
from wildspec.methods.base import Method, true_or_false
from wildspec.methods.energy_outlier import EnergyOutlier
from wildspec.methods.eqrm import EQRM
from wildspec.methods.erm import ERM
from wildspec.methods.hparams import HPARAMS, HParam, describe_hparams
from wildspec.methods.irm import IRM
from wildspec.methods.mixup import Mixup
from wildspec.methods.oe import OE
from wildspec.methods.osbp import OSBP
from wildspec.methods.ovanet import OVANetMethod
from wildspec.methods.pu import PU
from wildspec.methods.ros import ROS
from wildspec.methods.sal import SAL
from wildspec.methods.scone import SCONE
from wildspec.methods.sharpdro import SharpDRO
from wildspec.methods.spectral import NSCL, SCL, Spectral
from wildspec.methods.spectral_plus import SpectralPlus
from wildspec.methods.sta import STAMax, STASum
from wildspec.methods.vrex import VREx
from wildspec.methods.woods import WOODS
from wildspec.plugins import Registry

_OURS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        ERM, IRM, Mixup, VREx, EQRM, SharpDRO, OE, EnergyOutlier, WOODS, SCONE, SAL, PU,
        OSBP, STASum, STAMax, ROS, ANNA, OVANetMethod, SCL, NSCL, Spectral, SpectralPlus,
    )
}
for _name, _method in _OURS.items():
    _method.__doc__ = f"{inspect.getdoc(_method)}\n\n{describe_hparams(_name)}"
METHODS: Registry[type[Method]] = Registry(_OURS)
M = TypeVar("M", bound=type[Method])


def register_method(method: M) -> M:
    """Class decorator: make a method of another package available by its name (`wildspec.plugins`).

    Its hyper-parameters are what its constructor takes besides ``num_classes``, each with a default.
    """
    parameters = inspect.signature(method.__init__).parameters.items()
    own = {name: p for name, p in parameters if name not in ("self", "num_classes")}
    lacking = [name for name in ("summary", "paper") if not hasattr(method, name)]
    lacking += [f"a default of {name}" for name, p in own.items() if p.default is p.empty]
    if lacking:
        raise InputError(f"method {method.__name__} lacks {', '.join(lacking)}; lists and records show them")
    METHODS.add("method", getattr(method, "name", None), method)
    source = f"{method.__module__}.{method.__qualname__}"
    HPARAMS[method.name] = tuple(HParam(name, p.default, "see its source", None, source) for name, p in own.items())
    return method


def preset_hparams(name: str, preset: str) -> dict[str, Any]:
    """Hyper-parameters that a preset sets: those its authors ran with, where they are not the defaults."""
    return dict(METHODS[choice("method", name, METHODS)].published) if preset == "paper" else {}


def build_method(name: str, num_classes: int, **hparams: Any) -> Method:
    """A method by name; an unknown hyper-parameter is an error that lists the known ones."""
    choice("method", name, METHODS)
    parameters = inspect.signature(METHODS[name].__init__).parameters
    known = [p for p in parameters if p not in ("self", "num_classes")]
    for given, value in hparams.items():
        if given not in known:
            raise InputError(f"method {name} has no hyper-parameter {given!r}; it has: {', '.join(known) or 'none'}")
        if isinstance(parameters[given].default, bool):
            true_or_false(given, value)
    return METHODS[name](num_classes, **hparams)
