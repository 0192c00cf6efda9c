"""OVANet on rows: a plain linear head names the class, one-against-rest heads with unit weights say whether it is one.

Saito and Saenko, ICCV 2021. Plain head: logits C x. Open heads: z_k = (u_k - v_k) x with |u_k| = |v_k| = 1 (kept so before
every step), p_k(no) = sigmoid(-z_k). Loss: cross-entropy of the plain head + the one-against-rest loss of labelled samples +
0.1 x the mean entropy of the pairs of wild ones (`wildspec.losses.one_against_rest`). Class: argmax of the plain head, k;
unknown where p_k(no) > 1/2; score S = -z_k, > 0 = unknown. Nothing below the heads is trained: rows stay as they are but
for one factor, which makes the mean square of an entry 1. Unit weights and rows of length 1 could not make p certain.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import integer, non_negative, positive
from wildspec.embeddings.open_set.base import Numbers, OpenSetAnswer, OpenSetClassifier, Vector
from wildspec.embeddings.rows import as_seed
from wildspec.graph.search import Rows
from wildspec.losses.one_against_rest import one_against_rest_loss, pair_entropy
from wildspec.training.schedule import inverse_decay

MOMENTUM = 0.9


class OVANet(OpenSetClassifier):
    """One-against-rest heads on rows, with the entropy of the wild pool.

    Parameters
    ----------
    entropy_weight : float, default=0.1
        Of the wild samples' entropy; 0 does without the pool.
    steps : int, default=1000
        Of stochastic gradient descent with Nesterov momentum 0.9.
    batch_size : int, default=36
        Labelled, and wild, samples of a step.
    learning_rate : float, default=0.01
        At the start; it falls by inverse decay to 0.17 of it.
    weight_decay : float, default=5e-4
        Of the plain head; the open heads have unit length.
    random_state : int, RandomState or None, default=None
        Start of the heads and order of the samples.

    Attributes
    ----------
    classes_ : (K,) the known classes.
    transduction_ : (m,) what ``predict`` says of the wild samples of ``fit``: those of X, then X_wild.
    n_wild_ : int, how many there were.

    Examples
    --------
    >>> import numpy as np
    >>> from wildspec.embeddings import OVANet
    >>> rng = np.random.default_rng(0)
    >>> means = 3 * np.eye(3)
    >>> X, y = np.repeat(means[:2], 20, axis=0) + 0.3 * rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    >>> wild = np.repeat(means, 20, axis=0) + 0.3 * rng.normal(size=(60, 3))
    >>> model = OVANet(random_state=0).fit(X, y, wild)
    >>> float(np.mean(model.predict(X) == y)) > 0.9
    True
    """

    def __init__(
        self,
        entropy_weight: float = 0.1,
        *,
        steps: int = 1000,
        batch_size: int = 36,
        learning_rate: float = 0.01,
        weight_decay: float = 5e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.entropy_weight = entropy_weight
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def predict_proba(self, X: Any) -> Vector:
        """(n, K) softmax of the plain head over the known classes, as if each sample belonged to one of them."""
        return np.asarray(torch.softmax(self._logits(self._rows(X))[0], 1))

    # -- inside --------------------------------------------------------------------------------------------------------
    def _check(self) -> None:
        non_negative("entropy_weight", self.entropy_weight)
        integer("steps", self.steps, minimum=1)
        integer("batch_size", self.batch_size, minimum=1)
        positive("learning_rate", self.learning_rate)
        non_negative("weight_decay", self.weight_decay)

    def _learn(self, source: Rows, labels: Numbers, target: Rows) -> None:
        generator = torch.Generator().manual_seed(as_seed(self.random_state))
        size = float(np.sqrt(np.mean(np.concatenate([source, target]).astype(np.float64) ** 2)))
        self._scale = 1.0 / size if size > 0 else 1.0
        known, wild = self._scaled(source), self._scaled(target)
        truth = torch.from_numpy(labels)
        plain, yes, no = (_start(len(self.classes_), known.shape[1], generator) for _ in range(3))
        groups = [{"params": [plain]}, {"params": [yes, no]}]
        optimizer = torch.optim.SGD(
            groups, float(self.learning_rate), MOMENTUM, weight_decay=float(self.weight_decay), nesterov=True
        )
        batches = _batches(len(known), int(self.batch_size), generator)
        others = _batches(len(wild), int(self.batch_size), generator) if len(wild) else None
        for step in range(int(self.steps)):
            for group in optimizer.param_groups:
                group["lr"] = float(self.learning_rate) * inverse_decay(step / int(self.steps))
            _normalize(yes, no)
            rows = next(batches)
            x, y = known[rows], truth[rows]
            loss = F.cross_entropy(x @ plain.T, y) + one_against_rest_loss(x @ (yes - no).T, y)
            if others is not None:
                loss = loss + float(self.entropy_weight) * pair_entropy(wild[next(others)] @ (yes - no).T)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        _normalize(yes, no)
        self._plain, self._open = plain.detach(), (yes - no).detach()

    def _scaled(self, rows: Rows) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows * np.float32(self._scale)))

    def _logits(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """(n, K) logits of the plain head and log-odds of "yes"."""
        x = self._scaled(rows).double()
        return x @ self._plain.double().T, x @ self._open.double().T

    def _answer(self, rows: Rows) -> OpenSetAnswer:
        plain, odds = (values.numpy() for values in self._logits(rows))
        known = plain.argmax(axis=1)
        score = -odds[np.arange(len(known)), known]
        return OpenSetAnswer(known, score > 0, score)


def _start(count: int, width: int, generator: torch.Generator) -> nn.Parameter:
    """(K, d) with the usual start of a linear layer, uniform in +- 1 / sqrt(d)."""
    return nn.Parameter((2 * torch.rand(count, width, generator=generator) - 1) / width**0.5)


@torch.no_grad()
def _normalize(*weights: Tensor) -> None:
    for weight in weights:
        weight.copy_(F.normalize(weight, dim=1))


def _batches(count: int, size: int, generator: torch.Generator) -> Any:
    """Rows of a batch, again and again, each pass in a new order; a last batch that is not full is left out."""
    while True:
        order = torch.randperm(count, generator=generator)
        yield from order.split(size)[: max(1, count // size)]
