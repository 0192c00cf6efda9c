"""What a benchmark run will do, settled before anything is read or trained: models, detectors, recipes, folders, data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wildspec.bench.prepare import needed_splits
from wildspec.bench.protocols import Protocol, protocol_names
from wildspec.bench.store import Store
from wildspec.checks import choice
from wildspec.errors import DataError, InputError
from wildspec.training.recipe import Recipe


@dataclass(frozen=True)
class BenchRequest:
    """What to run. ``methods``: training method -> detectors (``choose_rows``); ``limit``: seconds for the whole call."""

    protocol: Protocol
    semantics: tuple[str, ...]
    methods: dict[str, list[str]]
    seeds: tuple[int, ...]
    data: Path
    out: Path
    recipe: Recipe = field(default_factory=Recipe)
    cache: Path | None = None
    device: str = "auto"
    limit: float | None = None
    severity: int | None = None
    unseen: bool = True
    progress: bool = False
    mirror: bool = False  # measure with every image beside its mirror image; records of their own, the same model
    curve: float = 0.0  # epochs between looks at the test sets, for the time-to-quality curve; 0: none


@dataclass(frozen=True)
class Job:
    """One model to train (or find trained) and the records to make with it."""

    semantic: str
    method: str
    detectors: tuple[str, ...]
    recipe: Recipe
    seed: int
    folder: Path
    variant: str = ""  # "-severity3" where the covariate shift is not the protocol's
    mirror: bool = False
    first: Path | None = None  # where the method that this one begins as is trained, once for all that do

    def record(self, detector: str) -> Path:
        suffix = "-mirror" if self.mirror else ""
        return self.folder / "records" / f"{_file_name(self.semantic)}{self.variant}-{detector}{suffix}.json"

    @property
    def samples(self) -> Path:
        suffix = "-mirror" if self.mirror else ""
        return self.folder / f"{_file_name(self.semantic)}{self.variant}{suffix}.samples.safetensors"

    @property
    def missing(self) -> list[str]:
        return [detector for detector in self.detectors if not self.record(detector).exists()]

    @property
    def name(self) -> str:
        return f"{self.method} ({self.label}) on {self.semantic}, seed {self.seed}"

    @property
    def label(self) -> str:
        """The recipe as tables show it."""
        return f"{self.recipe.label}, mirrored" if self.mirror else self.recipe.label


def plan(request: BenchRequest) -> list[Job]:
    """Every job, in order: semantic set, method, setting, seed. Unknown names are errors before anything is trained."""
    from wildspec.detectors import detector_names
    from wildspec.methods import METHODS, build_method, preset_hparams

    _check(request)
    jobs = []
    usual = request.severity in (None, request.protocol.covariate.get("severity"))
    variant = "" if usual else f"-severity{request.severity}"
    for semantic in request.semantics:
        request.protocol.semantic_set(semantic)
        for method, detectors in request.methods.items():
            if method not in METHODS:
                raise InputError(f"unknown method {method!r}; choose from {', '.join(METHODS)}")
            kind = METHODS[method]
            wanted = tuple(dict.fromkeys(detector or kind.default_detector for detector in detectors or [""]))
            for detector in wanted:
                if detector not in detector_names():
                    raise InputError(f"unknown detector {detector!r}; choose from {', '.join(detector_names())}")
            place = f"{_file_name(semantic)}{variant}" if kind.needs_wild else _labelled_only(request.protocol, semantic)
            for hparams in request.protocol.hparams(method, semantic):
                recipe = _with_hparams(request.recipe, hparams, named=bool(request.protocol.grid))
                values = {**preset_hparams(method, recipe.preset), **hparams, **recipe.hparams()}
                recipe.stages(build_method(method, 2, **values))  # wrong changes are told now
                begin = recipe.first_stage(kind)
                for seed in request.seeds:
                    top = request.out / request.protocol.name
                    folder = top / place / f"{method}-{recipe.slug()}" / f"seed-{seed}"
                    alone = top / _labelled_only(request.protocol, semantic)
                    first = None if begin is None else alone / f"{kind.begins_as}-{begin.slug()}" / f"seed-{seed}"
                    jobs.append(Job(semantic, method, wanted, recipe, seed, folder, variant, request.mirror, first))
    return jobs


def _check(request: BenchRequest) -> None:
    """What can be told to be wrong before data are read."""
    from wildspec.models import MODELS
    from wildspec.models.build import check_dropout
    from wildspec.training import resolve_device

    protocol, recipe = request.protocol, request.recipe
    for option, names in (("--methods", request.methods), ("--semantic", request.semantics)):
        if not names:
            raise InputError(f"{option} names nothing; give one name or several, separated by commas")
    name = choice("model", recipe.model or protocol.model, MODELS)
    check_dropout(name, recipe.changes.get("dropout", 0.0))
    resolve_device(request.device)
    if recipe.init is not None and not Path(recipe.init).is_file():
        raise InputError(f"--init {recipe.init} is not there; give a safetensors file with the weights of a backbone")
    if request.severity is not None:
        if protocol.kind == "domains":
            raise InputError(f"{protocol.name} has no severities, its shift is another domain; leave out --severity")
        choice("severity", request.severity, protocol.covariate["severities"])


def check_data(jobs: list[Job], request: BenchRequest, store: Store) -> None:
    """Every set that a job will read must be there before the first is trained; what is there is decoded, and kept."""
    needed = dict.fromkeys(
        pair for job in jobs if job.missing for pair in needed_splits(request.protocol, job.semantic)
    )
    lacking = [pair for pair in needed if not store.available(*pair)]
    for pair in lacking:
        store.decode(*pair, request.protocol.in_distribution["size"])
    if lacking:
        others = ", ".join(f"{name} ({split})" for name, split in lacking[1:])
        listed = f"; see: wildspec bench sets {request.protocol.name}" if request.protocol.name in protocol_names() else ""
        more = f" Also missing: {others}{listed}" if others else ""
        raise DataError(store.what_is_missing(*lacking[0]) + more)


def _labelled_only(protocol: Protocol, semantic: str) -> str:
    """Folder of models without wild data: one for all semantic sets, one per source domain where ID is a domain."""
    source = protocol.semantic_set(semantic).source
    return f"labelled-only-{source}" if source else "labelled-only"


def _file_name(semantic: str) -> str:
    return semantic.replace("->", "-to-")


def _with_hparams(recipe: Recipe, hparams: dict[str, Any], named: bool) -> Recipe:
    """A sweep's points are part of the recipe (and of its label); the protocol's own eta is not."""
    return recipe.with_changes(**{k: v for k, v in hparams.items() if k not in recipe.changes}) if named else recipe
