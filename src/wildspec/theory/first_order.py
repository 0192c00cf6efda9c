"""The paper's closed forms (appendix D): A, D^-1/2 and the spectrum to first order in alpha' = alpha/rho, beta' = beta/rho.

The paper fixes eta_u = 5, eta_l = 1. Here the label weight r = 5 eta_l / eta_u stays free (r = 1 is the paper, r = 0 the
self-supervised case), which shows what labels do: domains win over classes once beta > alpha (2 + r)^2 / (4 (1 + r)),
that is alpha at r = 0 and 9/8 alpha at r = 1.
"""

import math
from dataclasses import dataclass

import numpy as np

from wildspec.checks import choice, integer, non_negative, positive
from wildspec.graph import ProbeError
from wildspec.graph.inputs import Array
from wildspec.theory.five_node import SCENARIOS, FiveNode, probe_of, separability_of


@dataclass(frozen=True)
class FirstOrder:
    """The closed forms at one (alpha', beta'); shapes and order of nodes as in the exact problem."""

    values: Array  # (5,) eigenvalues, descending
    vectors: Array  # (5, 5) eigenvectors in columns, same order
    total: float  # C, the normalization constant
    adjacency: Array  # (5, 5) A
    inverse_root: Array  # (5,) diagonal of D^-1/2
    normalized: Array  # (5, 5) D^-1/2 A D^-1/2
    k: int

    @property
    def embedding(self) -> Array:
        """Z = D^-1/2 V_k Sigma_k^1/2, (5, k)."""
        values = np.clip(self.values[: self.k], 0.0, None)
        return self.inverse_root[:, None] * self.vectors[:, : self.k] * np.sqrt(values)

    @property
    def probe(self) -> ProbeError:
        """E(f); its ``scores`` are the predicted probabilities of the two paintings."""
        return probe_of(self.embedding)

    @property
    def separability(self) -> float:
        """S(f)."""
        return separability_of(self.embedding)


def critical_ratio(eta_u: float = 5.0, eta_l: float = 1.0) -> float:
    """beta/alpha at which domains start to win in the ``separate`` scenario, to first order: 9/8 for the paper's eta."""
    r = 5.0 * non_negative("eta_l", eta_l) / positive("eta_u", eta_u)
    return (2.0 + r) ** 2 / (4.0 * (1.0 + r))


def class_advantage(alpha: float, beta: float, eta_u: float = 5.0, eta_l: float = 1.0) -> float:
    """Exact, not first order: > 0 where classes win in ``separate`` (gamma = 0), < 0 where domains win.

    With gamma = 0 the vectors that treat angel and tiger alike have the eigenvalues 1 and lambda_4 in closed form; put
    into the characteristic polynomial of those that change sign, lambda_4 leaves this polynomial (tested with sympy).
    """
    cubic = _boundary_cubic(alpha, 5.0 * non_negative("eta_l", eta_l) / positive("eta_u", eta_u))
    return -float(np.polyval(cubic, beta))


def critical_beta(alpha: float, eta_u: float = 5.0, eta_l: float = 1.0) -> float:
    """beta' at which domains start to win for this alpha', exactly (gamma = 0); infinite where classes win for every beta'.

    = q alpha' - 3 r^2 (2 + r)^2 / (16 (1 + r)^2) alpha'^2 + ..., q = ``critical_ratio``: for the paper's eta
    9/8 alpha' - 27/64 alpha'^2 + ..., so the true boundary bends below the paper's straight line.
    """
    cubic = _boundary_cubic(positive("alpha", alpha), 5.0 * non_negative("eta_l", eta_l) / positive("eta_u", eta_u))
    roots = np.roots(cubic)
    real = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > 0)]
    return float(real.min()) if len(real) else math.inf


def _boundary_cubic(a: float, r: float) -> Array:
    """Coefficients in beta', highest power first."""
    w = (2 + r) ** 2
    return np.array(
        [
            4 * (1 + r) - w * a,
            8 * (1 + r) + (r**2 - 4 * r - 4) * a - w * a**2,
            4 * (1 + r) + (r**2 - 4 * r - 4) * a - 2 * (r**2 + 2 * r + 2) * a**2 + w * a**3,
            w * (a**4 + a**3 - a**2 - a),
        ]
    )


def first_order(scenario: str, alpha: float, beta: float, *, label_weight: float = 1.0, k: int = 3) -> FirstOrder:
    """Closed forms at alpha' = ``alpha``, beta' = ``beta`` (both already divided by rho); gamma is dropped.

    In the scenario ``unlabelled`` the label weight is 0, whatever is given.
    """
    choice("scenario", scenario, SCENARIOS)
    positive("alpha", alpha)
    positive("beta", beta)
    integer("k", k, minimum=1, maximum=4)
    r = 0.0 if scenario == "unlabelled" else non_negative("label_weight", label_weight)
    shared = scenario == "shared"
    total, adjacency = _adjacency(r, alpha, beta, shared)
    inverse_root = np.sqrt(total) * _inverse_root(r, alpha, beta, shared)
    values, vectors = _shared(r, alpha, beta) if shared else _separate(r, alpha, beta)
    # equal values keep the order domain before class: a tie at the cut is an error, as everywhere
    order = np.argsort(-values, kind="stable")
    return FirstOrder(
        values[order], vectors[:, order], total, adjacency, inverse_root, _normalized(r, alpha, beta, shared), k
    )


def first_order_of(world: FiveNode) -> FirstOrder:
    """The closed forms beside an exact instance."""
    return first_order(
        world.scenario, world.alpha / world.rho, world.beta / world.rho, label_weight=world.label_weight, k=world.k
    )


def separability_formula(scenario: str, alpha: float, beta: float) -> float:
    """S(f) as printed: Theorem 4.2 (``separate``) and its self-supervised twin (``unlabelled``), eta_u = 5, eta_l = 1."""
    choice("scenario", scenario, ("separate", "unlabelled"))
    a, b = alpha, beta
    if scenario == "unlabelled":
        weaker = b if a > b else a
        return (5 + 8 * b + 8 * a) * ((1 - 2 * weaker) / 2 * (1 - b - a) ** 2 + 1)
    if 9 / 8 * a > b:
        return (7 + 12 * b + 12 * a) * ((1 - 2 * b) / 3 * (1 - b - 3 / 4 * a) ** 2 + 1)
    return (7 + 12 * b + 12 * a) * ((2 - 3 * a) / 8 * (1 - b - 3 / 4 * a) ** 2 + 1)


def separability_corrected(alpha: float, beta: float) -> float:
    """S(f) of ``separate`` (eta_u = 5, eta_l = 1), right to first order in both cases.

    28/3 + 34/3 alpha' + 166/27 beta' where classes win, 35/4 + 39/4 alpha' + 23/2 beta' where domains win. The printed
    first case has 25/2 and 20/3: it takes the eigenvectors to order zero, and their first order enters S there.
    """
    if 9 / 8 * alpha > beta:
        return 28 / 3 + 34 / 3 * alpha + 166 / 27 * beta
    return 35 / 4 + 39 / 4 * alpha + 23 / 2 * beta


def _adjacency(r: float, a: float, b: float, shared: bool) -> tuple[float, Array]:
    """(C, A): appendix D, entries of order two dropped."""
    s, x, p, d = 1 + r, (2 + r) * a, 2 * b, (2 * b if shared else 0.0)
    matrix = np.array(
        [
            [s, 2 * s * b, x, 0, 0],
            [2 * s * b, s, 0, x, 0],
            [x, 0, 1, p, d],
            [0, x, p, 1, d],
            [0, 0, d, d, 1],
        ],
        dtype=float,
    )
    total = float(matrix.sum())  # 7 + 12 beta' + 12 alpha' for r = 1, separate
    return total, matrix / total


def _inverse_root(r: float, a: float, b: float, shared: bool) -> Array:
    """D^-1/2 / sqrt(C), expanded to first order as in the paper."""
    sketch = (1 - b - (2 + r) / (4 * (1 + r)) * 2 * a) / np.sqrt(1 + r)
    painting = 1 - (2 * b if shared else b) - (2 + r) / 2 * a
    panda = 1 - 2 * b if shared else 1.0
    return np.array([sketch, sketch, painting, painting, panda])


def _normalized(r: float, a: float, b: float, shared: bool) -> Array:
    """D^-1/2 A D^-1/2, first order."""
    g, p = (2 + r) * a, 2 * b
    sketch = 1 - 2 * b - g / (1 + r)
    painting = 1 - (4 if shared else 2) * b - g
    cross = g / np.sqrt(1 + r)
    d, panda = (2 * b, 1 - 4 * b) if shared else (0.0, 1.0)
    return np.array(
        [
            [sketch, p, cross, 0, 0],
            [p, sketch, 0, cross, 0],
            [cross, 0, painting, p, d],
            [0, cross, p, painting, d],
            [0, 0, d, d, panda],
        ]
    )


def _separate(r: float, a: float, b: float) -> tuple[Array, Array]:
    """Spectrum of figure (a) in the order 1, 1, domain, class, both: 1 - (2+r)^2/(1+r) alpha' is 1 - 9/2 alpha' at r = 1."""
    s, lift = np.sqrt(1 + r), (2 + r) ** 2 / (1 + r) * a
    values = np.array([1, 1, 1 - lift, 1 - 4 * b, 1 - 4 * b - lift])
    vectors = np.array(
        [[s, s, 1, 1, 0], [0, 0, 0, 0, 1], [-1, -1, s, s, 0], [-s, s, -1, 1, 0], [1, -1, -s, s, 0]], dtype=float
    ).T
    return values, vectors / np.linalg.norm(vectors, axis=0)


def _shared(r: float, a: float, b: float) -> tuple[Array, Array]:
    """Spectrum of figure (b): 1, two vectors (a, a, b, b, 1) and two vectors (c, -c, -1, 1, 0)."""
    s, g = np.sqrt(1 + r), (2 + r) * a
    # I - A~ restricted to vectors that treat angel and tiger alike: eigenvalues 0 and mu with this sum and product
    total, product = (2 + r) * g / (1 + r) + 6 * b, g * b * (10 + 4 * r) / (1 + r)
    root = np.sqrt(total**2 / 4 - product)
    even = 1 - total / 2 + np.array([root, -root])
    # restricted to vectors that change sign under angel <-> tiger
    low, high = 4 * b + g / (1 + r), 6 * b + g
    root = np.sqrt((high - low) ** 2 / 4 + g**2 / (1 + r))
    odd = 1 - (low + high) / 2 + np.array([root, -root])
    columns = [[s, s, 1, 1, 1]]
    for value in even:
        second = (4 * b - 1 + value) / (4 * b)
        first = -(2 * second + 1) / (2 * s)
        columns.append([first, first, second, second, 1])
    for value in odd:
        first = s * (1 - g - 6 * b - value) / g
        columns.append([first, -first, -1, 1, 0])
    vectors = np.array(columns).T
    return np.array([1.0, *even, *odd]), vectors / np.linalg.norm(vectors, axis=0)
