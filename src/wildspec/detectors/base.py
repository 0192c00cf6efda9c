"""The contract of every detector: declare what you need, ``fit``, ``score`` with high = OOD.

A detector is a few lines: class attributes that say what it is and needs, a constructor that stores, ``_fit``
(or ``_update`` and ``_finish`` where the fit is a sum over samples), ``_score`` for a block of rows. This base does the
rest: missing inputs, precision, devices, blocks, saving. To add one, copy ``energy.py`` and its test.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from wildspec.detectors.graphs import LogitScore
from wildspec.detectors.inputs import check_inputs, device_of, row_blocks
from wildspec.errors import InputError
from wildspec.graph.precision import exact_arithmetic
from wildspec.plugins import Registry
from wildspec.tensors import single

D = TypeVar("D", bound="Detector")


class Detector:
    """Base of all detectors. Scores are high for out-of-distribution samples."""

    name: ClassVar[str]  # key in the registry
    summary: ClassVar[str]  # one line for lists
    paper: ClassVar[str]
    fit_needs: tuple[str, ...] = ()  # out of `GIVEN`
    score_needs: tuple[str, ...] = ()
    needs_output: ClassVar[str | None] = None  # an output that some methods add to a network: unknown, open_heads
    uses_wild: ClassVar[bool] = False  # True: fit also takes wild samples, as rows with label -1
    streams: ClassVar[bool] = False  # True: one pass, constant memory; partial_fit works
    state_names: tuple[str, ...] = ()  # learned tensors, names end in _; all of them = the fitted detector
    _state_is_sum: ClassVar[bool] = False  # True: a loaded detector can go on with partial_fit
    _pending: bool = False  # partial_fit was called since the last finalize

    @property
    def needs(self) -> tuple[str, ...]:
        """Everything needed to fit and score."""
        return tuple(dict.fromkeys(self.fit_needs + self.score_needs))

    def fit(
        self: D, *, features: Any = None, logits: Any = None, labels: Any = None, model: nn.Module | None = None
    ) -> D:
        """Learn from in-distribution training samples; returns self. What is not needed is ignored."""
        if self.fit_needs and not self.state_names:
            raise InputError(f"{self.name} learns, so it must name what it learns in state_names: only that is saved")
        given = check_inputs(self, "fit", features=features, logits=logits, labels=labels, model=model)
        self.reset()
        try:
            with _learning(), exact_arithmetic(device_of(given)):
                if self.streams:
                    for block in row_blocks(given):
                        self._update(**block)
                    self._finish()
                else:
                    self._fit(**{name: single(v) if isinstance(v, Tensor) else v for name, v in given.items()})
        except BaseException:
            self.reset()  # samples of a fit that failed must not count in the next one
            raise
        return self

    def partial_fit(
        self: D, *, features: Any = None, logits: Any = None, labels: Any = None, model: nn.Module | None = None
    ) -> D:
        """Add samples to a running fit (only where ``streams``); ``score`` and ``state`` call ``finalize`` themselves."""
        if not self.streams:
            raise InputError(f"{self.name} cannot learn batch by batch: its fit is no sum; call fit with all samples")
        if self.fitted and not self._has_sums():
            raise InputError(f"{self.name} was loaded without its sums and cannot grow; call fit with all samples")
        given = check_inputs(self, "partial_fit", features=features, logits=logits, labels=labels, model=model)
        with _learning(), exact_arithmetic(device_of(given)):
            for block in row_blocks(given):  # none where there are no samples
                self._update(**block)
                self._pending = True
        return self

    def _has_sums(self) -> bool:
        """Whether a fitted detector can take more samples in."""
        return self._state_is_sum or any(name.startswith("_sum") for name in vars(self))

    def finalize(self: D) -> D:
        """Turn what ``partial_fit`` gathered into the fitted state; more ``partial_fit`` may follow."""
        if self._pending:
            with _learning():
                self._finish()
            self._pending = False
        return self

    def score(
        self, *, features: Any = None, logits: Any = None, inputs: Any = None, model: nn.Module | None = None
    ) -> Tensor:
        """(n,) scores, high = OOD; computed where the learned state lives, returned where the samples are."""
        given = check_inputs(self, "score", features=features, logits=logits, inputs=inputs, model=model)
        self.check_fitted()
        samples = next(value for value in given.values() if isinstance(value, Tensor))
        with torch.no_grad(), exact_arithmetic(self.device or samples.device):
            parts = [self._checked(self._score(**block), block) for block in row_blocks(given, like=self._some_state())]
        return torch.cat(parts).to(samples.device) if parts else samples.new_empty(0, dtype=torch.float32)

    def _checked(self, scores: Any, block: Mapping[str, Any]) -> Tensor:
        """What a formula gave for a block: one score a row."""
        rows = next(len(value) for value in block.values() if isinstance(value, Tensor))
        if not isinstance(scores, Tensor) or scores.shape != (rows,):
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InputError(f"{self.name}._score must return a tensor ({rows},), one score a row, got {got}")
        return scores

    def state(self) -> dict[str, Tensor]:
        """The learned tensors: with ``config`` all that is needed to score elsewhere (safetensors + JSON)."""
        self.check_fitted()
        return {name: getattr(self, name).contiguous() for name in self.state_names}

    def load_state(self: D, state: dict[str, Tensor]) -> D:
        """Take the learned tensors that ``state`` gave."""
        if set(state) != set(self.state_names):
            raise InputError(
                f"state of {self.name} must hold {sorted(self.state_names)}, got {sorted(state)}; "
                "was it saved by another detector?"
            )
        self.reset()
        with _learning():
            for name, value in state.items():
                setattr(self, name, value.clone() if value.is_inference() else value)
        return self

    def graph(self) -> nn.Module | None:
        """The score as a module for export (`wildspec.detectors.graphs`); None: it is no fixed graph of features and logits.

        What learns nothing and asks for logits alone is one as it is."""
        if self.score_needs != ("logits",) or self.state_names:
            return None
        return LogitScore(lambda logits: self._score(logits=logits))

    def config(self) -> dict[str, Any]:
        """Constructor arguments, ready for JSON: ``build_detector(name, **config)`` makes an unfitted twin."""
        values = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def to(self: D, device: torch.device | str) -> D:
        """Move the learned state."""
        return self.load_state({name: value.to(device) for name, value in self.state().items()})

    @property
    def device(self) -> torch.device | None:
        """Where the learned state lives; None for a detector that learns nothing."""
        some = self._some_state()
        return None if some is None else some.device

    def _some_state(self) -> Tensor | None:
        return next((getattr(self, name) for name in self.state_names if hasattr(self, name)), None)

    @property
    def fitted(self) -> bool:
        return self._pending or all(hasattr(self, name) for name in self.state_names)

    def check_fitted(self) -> None:
        if not self.fitted:
            raise InputError(f"{self.name} is not fitted; call fit({', '.join(self.fit_needs)}) or load_state first")
        self.finalize()

    def reset(self) -> None:
        """Forget what was learned."""
        for name in [name for name in vars(self) if name in self.state_names or name.startswith("_sum")]:
            delattr(self, name)
        self._pending = False

    # -- what a detector writes ----------------------------------------------------------------------------------------
    def _fit(self, *args: Any, **given: Any) -> None:
        """Learn from what ``fit_needs`` names. A detector that learns nothing leaves this."""

    def _update(self, *args: Any, **given: Any) -> None:
        """Where ``streams``: add a block of samples to attributes that start with ``_sum``."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Where ``streams``: from the sums to the learned tensors."""
        raise NotImplementedError

    def own_decision(self, features: Tensor, logits: Tensor) -> Tensor | None:
        """(n,) True where the system this score belongs to says "unknown" by itself; None: it has no decision of its own."""
        return None

    def _score(self, *args: Any, **given: Any) -> Tensor:
        """(rows,) scores of a block of what ``score_needs`` names; every row on its own."""
        raise NotImplementedError

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.config().items())
        return f"{type(self).__name__}({arguments})"


@contextmanager
def _learning() -> Iterator[None]:
    """No gradients. Nor inference mode, where one was around: what is made in it could never enter a gradient (ODIN's step)
    or be added to (`partial_fit`) outside."""
    with torch.inference_mode(False), torch.no_grad():
        yield


REGISTRY: Registry[type[Detector]] = Registry()
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {  # further names: a detector and arguments; records and bundles hold them
    "wild_linear": ("wild_knn", {"rule": "linear"}),
    "unknown_head": ("unknown_logit", {"against": "nothing"}),
}
GIVEN = {"fit": ("features", "logits", "labels", "model"), "score": ("features", "logits", "inputs", "model")}
C = TypeVar("C", bound=type[Detector])


def register(detector: C) -> C:
    """Class decorator: make a detector available by its name; one of another package is found as `wildspec.plugins` says."""
    name = getattr(detector, "name", None)
    if name in ALIASES:
        raise InputError(f"the name {name!r} stands for {ALIASES[name][0]} with arguments; take another name")
    lacking = [what for what in ("summary", "paper") if not hasattr(detector, what)]
    if lacking:
        raise InputError(f"detector {detector.__name__} lacks {', '.join(lacking)}; lists and records show them")
    for verb, needs in GIVEN.items():
        asked = getattr(detector, f"{verb}_needs")
        if not isinstance(asked, tuple) or not set(asked) <= set(needs):
            raise InputError(
                f"detector {detector.__name__} has {verb}_needs {asked!r}; it must be a tuple out of {', '.join(needs)}, "
                'of one: ("logits",)'
            )
    REGISTRY.add("detector", name, detector)
    return detector


def detector_names() -> list[str]:
    """Every name that `build_detector` takes."""
    return sorted({*REGISTRY, *ALIASES})


def names_for(model: nn.Module) -> list[str]:
    """The detectors that can score this network: those of outputs it does not have are left out."""
    needed = {name: REGISTRY[ALIASES.get(name, (name, {}))[0]].needs_output for name in detector_names()}
    return [name for name, output in needed.items() if output is None or getattr(model, output, None) is not None]


def build_detector(name: str, **arguments: Any) -> Detector:
    """A detector by name, e.g. ``build_detector("knn", k=50)``; lists in ``arguments`` may stand for tuples."""
    chosen, usual = ALIASES.get(name, (name, {}))
    if chosen not in REGISTRY:
        raise InputError(f"unknown detector {name!r}; choose one of {', '.join(detector_names())}")
    kind, arguments = REGISTRY[chosen], {**usual, **arguments}
    allowed = list(inspect.signature(kind).parameters)
    unknown = sorted(set(arguments) - set(allowed))
    if unknown:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes no arguments"
        raise InputError(f"detector {name} has no argument {', '.join(unknown)}; it {takes}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in arguments.items()})


def restore_detector(
    record: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device | str | None = None
) -> Detector:
    """A fitted detector from {"name", "config"} and its ``state()``; ``device``: where the tensors go, None: they stay."""
    detector = build_detector(record["name"], **record["config"])
    if tensors:
        detector.load_state({name: value if device is None else value.to(device) for name, value in tensors.items()})
    return detector
