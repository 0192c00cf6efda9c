"""``WildClassifier``: labelled images and a pool of wild ones in, a classifier that knows when to refuse out."""

import sys
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor, from_numpy, nn

from wildspec.bundle.former_names import current_name
from wildspec.bundle.store import Stored, write_bundle
from wildspec.bundle.target import check_target
from wildspec.checks import integer
from wildspec.decision.review import Review
from wildspec.decision.verdicts import REJECTED, Explanation, Verdicts, explain_rows, join, with_rejected
from wildspec.errors import CheckpointError, InputError, WildspecError, kind_and_line
from wildspec.images.checks import check_apart
from wildspec.images.choosing import choose_way
from wildspec.images.data_spec import DataSpec
from wildspec.images.fit import fit_frozen, fit_images
from wildspec.images.fitted import Fitted
from wildspec.images.frozen_decision import FrozenDecision
from wildspec.images.options import Files, Options, Training
from wildspec.images.reading import check_several, open_images, read
from wildspec.images.review import make_review, take_review
from wildspec.images.state import pack, unpack
from wildspec.models.backbones import name_of
from wildspec.training import resolve_device

BLOCK = 512  # images decided about at a time
NO_WILD = (
    "no wild images were given: the model learns from the labelled ones alone, has not seen what it will meet, and will "
    "reject shifted images of known classes more often"
)


class NotFitted(InputError, NotFittedError):
    """An estimator was asked before it was fitted: an error of wildspec, and the one scikit-learn's users expect."""


class WildClassifier(BaseEstimator):
    """Classify images of known classes, under conditions without labels too, and reject what is none of them.

    A pre-trained network is taken as it is, features of every image are computed once and kept in the user's cache, and the
    one rule decides (`wildspec.decision.rule`): a minute or two on two cores. Or a network is trained, where asked for.

    Parameters
    ----------
    backbone : str or Module
        "auto", a name of ``wildspec backbones``, "timm:NAME:pretrained", "torchvision:NAME:pretrained", "onnx:FILE", or any
        module (n, 3, S, S) -> (n, d).
    init : path or None
        Safetensors file the backbone starts from.
    training : "auto", Training or None
        How the network is trained (`wildspec.Training`); None: it is taken as it is. "auto": None where the network brings
        weights (``backbone="auto"`` is then efficientnet_lite0) and no ``init`` is given, else ``Training()``; a module is
        trained.
    minutes : float or None
        Time limit for everything. A training is shortened to fit; a frozen network that takes longer is refused early.
    shift : {"auto", True, False}
        Does the pool show your classes under new conditions? "auto": a test says so; False: you know that it does not, and
        what stands apart in it is unknown; True: it does. Of a frozen network alone.
    alpha : float
        Share of in-distribution images that may be rejected by mistake.
    per_class : bool
        True: alpha is promised for each class that has enough held-out images, not only for all together.
    held_out : float
        Share of the labelled images kept for validation and calibration.
    size : int or None
        Side of the network's input in pixels; None: the network's own, or 160 where the images have fewer pixels.
    files : Files or None
        How files are read and what is kept of them (`wildspec.Files`).
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    random_state : int
        Split, initialization, order, augmentation.
    verbose : bool
        Say on stderr what is being done.

    Attributes
    ----------
    classes_ : ndarray
        Names of the known classes.
    threshold_ : float
        Images like the labelled ones are rejected above it.
    model_ : Module
        The network.
    metrics_ : dict
        What was measured on held-out images, and how much of the pool was rejected.
    record_ : dict
        All that the bundle says: training, data, metrics, versions.

    Examples
    --------
    >>> from wildspec import WildClassifier
    >>> model = WildClassifier().fit("labelled/", "wild/")  # doctest: +SKIP
    >>> model.predict("incoming/")  # names of classes, or "rejected"  # doctest: +SKIP
    """

    def __init__(
        self,
        backbone: str | nn.Module = "auto",
        *,
        init: str | PathLike[str] | None = None,
        training: Training | str | None = "auto",
        minutes: float | None = None,
        shift: Any = "auto",
        alpha: float = 0.05,
        per_class: bool = False,
        held_out: float = 0.2,
        size: int | None = None,
        files: Files | None = None,
        device: str = "auto",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.backbone = backbone
        self.init = init
        self.training = training
        self.minutes = minutes
        self.shift = shift
        self.alpha = alpha
        self.per_class = per_class
        self.held_out = held_out
        self.size = size
        self.files = files
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, labelled: Any, wild: Any = None, groups: Any = None) -> "WildClassifier":
        """Learn from labelled images and (unlabelled) wild ones.

        Each may be a folder (one sub-folder per class / flat), parquet, (images, labels) as arrays or as lists of files,
        arrays or Pillow images, a torch data set, an `ImageSource`, or "hf:NAME:CONFIG:SPLIT" with the extra [hub]. Labels
        of wild images are never looked at.

        ``groups``: labelled images that belong together (frames of one film, crops of one slide) and must not stand on both
        sides of a split: a regular expression or a function of names, images with one outcome are one group, or a sequence
        with an entry for each. Copies are kept together without it.
        """
        given = {**self.get_params(deep=False), "files": Files() if self.files is None else self.files}
        options = Options(**given, groups=groups)
        check_apart(labelled, wild)
        labelled_source = open_images(labelled, labelled=True)
        check_several(labelled_source.classes)
        wild_source = None if wild is None else open_images(wild, labelled=False)
        if wild is None:
            warnings.warn(NO_WILD, stacklevel=2)
        way = fit_frozen if choose_way(self.training, self.backbone, self.init) == "frozen" else fit_images
        fitted = way(labelled_source, wild_source, options, self._say)
        self._take(fitted, _source(labelled, wild, options))
        return self

    # -- asking --------------------------------------------------------------------------------------------------------
    def predict(self, images: Any) -> np.ndarray:
        """(n,) names of ``classes_``, or "rejected"."""
        found = self._verdicts(images)
        return with_rejected(self.classes_[found.likely], found.predicted == REJECTED)

    def predict_proba(self, images: Any) -> np.ndarray:
        """(n, C) probabilities over the known classes, as if each image showed one of them."""
        return self._verdicts(images).probabilities

    def ood_score(self, images: Any) -> np.ndarray:
        """(n,) high = out-of-distribution."""
        return self._verdicts(images).score

    def p_value(self, images: Any) -> np.ndarray:
        """(n,) conformal p-values: of in-distribution images at most a share a has p <= a."""
        return self._verdicts(images).p_value

    def explain(self, images: Any, neighbours: int = 5) -> list[Explanation]:
        """For each image: the decision, score against threshold, p-value, and the nearest labelled training images."""
        verdicts = self._verdicts(images, integer("neighbours", neighbours, 1))
        fitted = self._fitted()
        return explain_rows(verdicts, fitted.classes, lambda row: fitted.bank.sample(row, fitted.classes))

    def decide(self, pixels: Tensor, neighbours: int = 0) -> Verdicts:
        """Everything about a block of images that are ready, uint8 (n, 3, S, S): the way of bulk scoring and serving."""
        fitted = self._fitted()
        if len(pixels) == 0:
            return _no_verdicts(len(fitted.classes), neighbours, fitted.model.feature_dim)
        return fitted.verdicts(pixels, neighbours)

    # -- a person in the loop ------------------------------------------------------------------------------------------
    def questions(self, n: int = 20, rule: str = "groups") -> list[str]:
        """At most n wild images to ask a person about, by name, the most wanted first (`wildspec.decision.questions`).

        Needs a frozen backbone. Images that have an answer are not asked about again.
        """
        return self.review().ask(n, rule)

    def answer(self, given: Mapping[str, str | None], *, promise: float | None = None) -> "WildClassifier":
        """Learn from answers, image -> class, in seconds, and return self (`wildspec.decision.answers`).

        A class is a known one, "unknown", or a new name, which from ten images on becomes a class of its own at the end of
        ``classes_``. Answers add up over calls; one for the same image replaces the former one. ``threshold_`` is
        calibrated again on labelled images alone.

        promise: share of shifted samples of known classes that may be rejected. Answers to ``questions(n, rule="random")``
        then calibrate the threshold of shifted samples instead of being learned from, if they are enough; how many it takes
        is in ``review().facts()["promise"]`` (`wildspec.decision.drawn`).
        """
        review = self.review()
        return self.take(review) if review.learn(given, promise) else self

    def review(self) -> Review:
        """The wild pool and the answers so far, to ask and answer step by step (`wildspec.decision.review`)."""
        return make_review(self._fitted())

    def take(self, review: Review) -> "WildClassifier":
        """Decide as the review's last refit has learned."""
        self._take(take_review(self._fitted(), review))
        return self

    # -- keeping -------------------------------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write the bundle: safetensors and JSON with a manifest of checksums. A bundle already there is replaced."""
        check_target(path)
        write_bundle(path, "images", *pack(self._fitted()))

    @classmethod
    def from_bundle(
        cls, stored: Stored, *, device: str = "auto", backbone: nn.Module | None = None
    ) -> "WildClassifier":
        """The estimator in a verified bundle. It is tried out on a blank image: what does not hang together shows now, not
        at the first decision."""
        fitted = unpack(stored, resolve_device(device), backbone)
        found = cls(
            backbone=name_of(fitted.network) if backbone is None else backbone,
            training=None if "frozen" in stored.model else _trained_as(fitted.record["training"]),
            shift=_shift_of(fitted.decision), alpha=fitted.decision.alpha,
            per_class=fitted.decision.calibration.labels is not None, size=fitted.preprocess.size, device=device,
            random_state=fitted.record["training"]["seed"],
        )  # fmt: skip
        found._take(fitted)
        try:
            tried = found.decide(from_numpy(np.zeros((1, 3, fitted.preprocess.size, fitted.preprocess.size), np.uint8)), 1)
            if not np.isfinite(tried.score).all():
                raise ValueError(f"a blank image is scored {tried.score[0]}")
        except WildspecError:
            raise
        except Exception as error:
            line = kind_and_line(error)
            raise CheckpointError(f"bundle {stored.path} is refused: its parts do not fit together ({line})") from error
        return found

    # -- inside --------------------------------------------------------------------------------------------------------
    def _say(self, line: str) -> None:
        if self.verbose:
            print(line, file=sys.stderr, flush=True)

    def _take(self, fitted: Fitted, source: DataSpec | None = None) -> None:
        if source is not None:
            fitted.record["data"]["source"] = source.for_bundle()
        self.fitted_ = fitted
        self.classes_ = np.array(fitted.classes)
        self.model_ = fitted.model
        self.threshold_ = fitted.decision.threshold
        self.record_ = fitted.record
        self.metrics_ = fitted.record["metrics"]

    def _fitted(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise NotFitted("this WildClassifier is not fitted; call fit(labelled, wild) or wildspec.load(path) first")
        return self.fitted_

    def _verdicts(self, images: Any, neighbours: int = 0) -> Verdicts:
        size = self._fitted().preprocess.size
        if isinstance(images, (np.ndarray, Tensor)) and images.ndim == 3:
            if images.shape[2] in (1, 3, 4):
                images = images[None]  # a single image
            elif images.shape[0] == 3:
                raise InputError(
                    f"images of shape {tuple(images.shape)} may be one in colour or three grey ones: pass images[None] or "
                    "images[:, None]"
                )
        found = read(open_images(images, labelled=False), size, max_unreadable=0.0)
        blocks = (range(first, min(first + BLOCK, len(found))) for first in range(0, len(found), BLOCK))
        return join([self.decide(found.gather(block), neighbours) for block in blocks])


def _source(labelled: Any, wild: Any, options: Options) -> DataSpec | None:
    """Where `wildspec evaluate` finds the images again; None: they were not given by name, or their groups were given,
    which a bundle does not keep."""
    if not isinstance(labelled, str | PathLike) or options.groups is not None:
        return None
    pool = str(wild) if isinstance(wild, str | PathLike) else None
    init = None if options.init is None else str(options.init)
    return DataSpec(
        "files", str(labelled), pool, size=options.size, held_out=options.held_out, alpha=options.alpha,
        seed=options.random_state, init=init, max_unreadable=options.files.max_unreadable,
    )  # fmt: skip


def _trained_as(record: dict[str, Any]) -> Training | str:
    """What another fit would take. "auto" where the method is one of another package that is not loaded: the model decides
    without it."""
    hparams = {current_name(name): value for name, value in (record["hparams"] or {}).items()}
    try:
        return Training(record["method"], record["preset"], hparams=hparams or None)
    except InputError:
        return "auto"


def _shift_of(decision: Any) -> Any:
    """What the fit was told about a shift; a detector was told nothing."""
    return decision.without_answers.settings.shift if isinstance(decision, FrozenDecision) else "auto"


def _no_verdicts(classes: int, neighbours: int, width: int) -> Verdicts:
    none, whole = np.empty(0), np.empty(0, np.int64)
    return Verdicts(
        whole, whole, np.empty((0, classes)), none, none, none, np.empty((0, neighbours), np.int64),
        np.empty((0, neighbours)), np.empty((0, width)),
    )  # fmt: skip
