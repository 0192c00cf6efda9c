"""The rows of `wildspec bench pacs-open-set` that start from images: networks trained end to end, and a frozen one.

All start from the same ready-made EfficientNet-Lite0, and a task's rows are images (n, 3, S, S) uint8 instead of embeddings.
Methods of open-set domain adaptation train by their own recipe (preset `fast`) and decide by themselves. The others are
made for networks without weights; here they get OVANet's rates, 0.01 and a tenth of that for the backbone, batches of 64
and no more than 30 passes over the labelled images a stage. A row without a decision of its own gets the conformal
threshold of a fifth of the labelled images, which nothing was learned from.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import RowMethod
from wildspec.bench.open_set_systems import ALPHA, SYSTEMS, Predictions

BACKBONE = "efficientnet_lite0"
FROM_NOTHING = ("erm", "sal", "spectral", "spectral+")  # methods whose recipe is for a network without weights
EPOCHS, BATCH, RATE, BACKBONE_RATE = 30.0, 64, 0.01, 0.1  # their limits here
CONFORMAL = ("erm", "spectral", "spectral+")  # without a decision of their own


@dataclass
class TaskTrainer:
    """Trains networks on the images of tasks. ``scale``: factor on all epochs. The last one is kept: rows may share it."""

    device: str = "auto"
    scale: float = 1.0
    last: "tuple[Any, str, TaskNetwork] | None" = None

    def network(self, task: Any, name: str) -> "TaskNetwork":
        """Method ``name`` on the labelled images and the pool of a task."""
        if self.last is None or self.last[0] is not task or self.last[1] != name:
            self.last = (task, name, self._train(task, name))
        return self.last[2]

    def _train(self, task: Any, name: str) -> "TaskNetwork":
        import torch

        from wildspec.data import ImageArrays, Preprocess, WildPool
        from wildspec.data.splits import holdout
        from wildspec.methods import build_method
        from wildspec.models.backbones import make_network, scaling_of
        from wildspec.training import Settings, TrainData, resolve_device, train

        places = np.searchsorted(task.known, task.labels)
        rows = held = np.arange(len(places))
        if name in CONFORMAL:
            split = holdout(places, 0.2, task.seed)
            rows, held = split["train"], split["holdout"]

        def images(of: np.ndarray, labels: np.ndarray | None = None) -> ImageArrays:
            numbers = None if labels is None else torch.from_numpy(labels)
            return ImageArrays(torch.from_numpy(of), numbers, tuple(map(str, task.known)))  # type: ignore[arg-type]

        size, device = task.labelled.shape[-1], resolve_device(self.device)
        model, record = make_network(BACKBONE, len(task.known), size, device, task.seed)
        scaling = scaling_of(record)
        assert scaling is not None
        preprocess = Preprocess(size, scaling.mean, scaling.std)
        labelled, wild = images(task.labelled[rows], places[rows]), images(task.wild)
        method = build_method(name, len(task.known))
        stages = [self._stage(stage, name, len(rows)) for stage in method.stages("fast")]
        data = TrainData(labelled, WildPool(wild) if method.needs_wild else None, preprocess=preprocess)
        settings = Settings(seed=task.seed, device=self.device, compile=False, progress=False)
        result = train(model, method, data, settings, stages=stages)
        return TaskNetwork(result.model, preprocess, device, labelled, wild, images(task.labelled[held], places[held]))

    def _stage(self, stage: Any, name: str, labelled: int) -> Any:
        if name in FROM_NOTHING:
            epochs = min(stage.epochs, EPOCHS)
            stage = stage.scaled(
                epochs=epochs, warmup=stage.warmup * epochs / stage.epochs, lr=min(stage.lr, RATE),
                backbone_lr=BACKBONE_RATE, batch_labelled=min(stage.batch_labelled, BATCH, labelled),
                batch_wild=min(stage.batch_wild, BATCH),
            )  # fmt: skip
        return stage.scaled(epochs=stage.epochs * self.scale, warmup=stage.warmup * self.scale)


@dataclass(frozen=True)
class TaskNetwork:
    """A network and the images it knows; ``held_out``: those it did not learn from, where it needs a threshold."""

    model: Any
    preprocess: Any
    device: Any
    labelled: Any
    wild: Any
    held_out: Any

    def see(self, images: Any) -> Any:
        from wildspec.evaluation import collect

        return collect(self.model, images, self.preprocess, device=self.device)


def network_row(trainer: TaskTrainer, method: str, detector: str) -> Callable[[Any], Predictions]:
    """Train ``method``, score by ``detector``; reject by the system's own decision where it has one."""

    def run(task: Any) -> Predictions:
        import torch

        from wildspec.detectors import build_detector
        from wildspec.evaluation.deciding import fit, set_threshold

        trained, scorer = trainer.network(task, method), build_detector(detector)
        known, held = trained.see(trained.labelled), trained.see(trained.held_out)
        wild = trained.see(trained.wild) if scorer.uses_wild else None
        fit(scorer, known, wild, model=trained.model)
        threshold = set_threshold(scorer, known, wild, held, ALPHA).threshold
        told: list[np.ndarray] = []
        for images in (task.test, task.id_test):
            seen = trained.see(torch.from_numpy(images))
            scores = seen.score(scorer)
            own = scorer.own_decision(seen.features, seen.logits)
            rejected = (scores > threshold if own is None else own).cpu().numpy()
            classes = np.asarray(task.known)[seen.predictions.cpu().numpy()]
            told += [np.where(rejected, -1, classes), scores.float().cpu().numpy()]
        return Predictions(*told)

    return run


def frozen_row(trainer: TaskTrainer) -> Callable[[Any], Predictions]:
    """What `wildspec fit` does with photographs: features of the network as it comes, `SpectralClassifier` on them."""

    def run(task: Any) -> Predictions:
        import torch

        from wildspec.models import Encoder
        from wildspec.training import resolve_device

        encoder = Encoder(BACKBONE, task.labelled.shape[-1], device=resolve_device(trainer.device))
        sets = ("labelled", "wild", "test", "id_test")
        rows = {name: encoder.encode(torch.from_numpy(getattr(task, name))).numpy() for name in sets}
        told: Predictions = SYSTEMS["spectral"].run(replace(task, **rows))
        return told

    return run


def network_systems(trainer: TaskTrainer) -> dict[str, RowMethod]:
    """Rows by name; see the module's first lines."""

    def row(title: str, method: str, detector: str, wild: bool = True, ours: bool = False) -> RowMethod:
        return RowMethod(title, network_row(trainer, method, detector), wild, ours)

    return {
        "wild-classifier": RowMethod("WildClassifier", frozen_row(trainer), wild=True, ours=True),
        "spectral+": row("spectral+", "spectral+", "wild_knn", ours=True),
        "spectral-knn": row("spectral, KNN", "spectral", "knn"),
        "osbp": row("OSBP", "osbp", "unknown_logit"),
        "sta_sum": row("STA, sum", "sta_sum", "unknown_logit"),
        "sta_max": row("STA, max", "sta_max", "unknown_logit"),
        "ros": row("ROS", "ros", "unknown_logit"),
        "anna": row("ANNA", "anna", "unknown_logit"),
        "ovanet-network": row("OVANet", "ovanet", "one_against_rest"),
        "sal": row("SAL", "sal", "unknown_head"),
        "erm-msp": row("cross-entropy, max. probability", "erm", "msp", wild=False),
        "erm-energy": row("cross-entropy, energy", "erm", "energy", wild=False),
    }
