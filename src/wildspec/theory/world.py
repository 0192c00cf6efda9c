"""Worlds of any number of classes and domains: what would the spectrum do, before any data is collected?

A world is a table of cells (class, domain), each with a share of the data; some cells are labelled. One node and one
source stand for each cell, T(x|x') is rho, alpha, beta or gamma as in the five-node example (eq. 9), and the shares are
the prior of the sources: A^(u) = T diag(p) T^T. A class without a labelled cell is semantic OOD; an unlabelled cell of a
known class is a covariate shift.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wildspec.checks import integer, non_negative, positive
from wildspec.errors import InputError
from wildspec.graph import AugmentationGraph
from wildspec.graph.inputs import Array, as_array
from wildspec.theory.analysis import Cell, Comparison, WorldAnalysis, analyse

Pair = tuple[str, str]


def domain_class_graph(
    classes: int | Sequence[str],
    domains: int | Sequence[str],
    labelled: str | Iterable[Any],
    *,
    unknown: Iterable[str] = (),
    weights: Any = None,
    rho: float = 1.0,
    alpha: Any = 0.05,
    beta: Any = 0.03,
    gamma: float = 0.0,
    eta_u: float | None = None,
    eta_l: float = 1.0,
    k: int | None = None,
) -> WorldAnalysis:
    """Build a world of classes x domains and solve it.

    classes, domains: names, or a number (then "class 0", "domain 0", ...).
    labelled: a domain (all its cells are labelled, except those of ``unknown`` classes), or a list of domains and
        (class, domain) pairs. A class without any labelled cell is unknown.
    weights: how much data, labelled and wild together, each cell has: a (classes, domains) table or a dict
        {(class, domain): amount}; 0 or left out of the dict = the cell does not exist. Default: 1 everywhere.
    rho, gamma: numbers. alpha: a number, or a symmetric (domains, domains) table of how strongly augmentation links one
        class across two domains. beta: a number, or a symmetric (classes, classes) table of how alike two classes look
        within one domain. Only ratios to rho matter.
    eta_u: default = number of cells, so that equal shares give eta_u A^(u) = T T^T as in the paper. k: default = number
        of classes present (3 in the five-node example).
    """
    names = _names("classes", "class", classes), _names("domains", "domain", domains)
    amounts = _amounts(weights, *names)
    positive("rho", rho)
    if non_negative("gamma", gamma) >= rho:
        raise InputError(f"gamma must stay below rho = {rho:g}, got {gamma:g}")
    across = _strength("alpha", alpha, len(names[1]), rho)
    within = _strength("beta", beta, len(names[0]), rho)
    unknown = tuple(unknown)
    marked = _labelled(labelled, set(unknown), amounts, *names)
    cells = []
    for i, j in zip(*np.nonzero(amounts), strict=True):
        share = float(amounts[i, j] / amounts.sum())
        cells.append((int(i), int(j), share, (names[0][i], names[1][j]) in marked))
    empty = sorted(marked - {(names[0][i], names[1][j]) for i, j, _, _ in cells})
    if empty:
        raise InputError(f"labelled cell {empty[0]} has no data; give it a weight above 0 or drop it from labelled")
    index = np.array([(i, j) for i, j, _, _ in cells])
    known = sorted({i for i, _, _, mark in cells if mark})
    number = {class_index: position for position, class_index in enumerate(known)}
    labels = np.array([number[i] if mark else -1 for i, _, _, mark in cells])
    graph = AugmentationGraph(
        _transition(index, rho, across, within, gamma),
        labels,
        eta_u=len(cells) if eta_u is None else eta_u,
        eta_l=eta_l,
        prior=[share for _, _, share, _ in cells],
    )
    described = [
        Cell(names[0][i], names[1][j], share, "labelled" if mark else "covariate" if i in number else "semantic")
        for i, j, share, mark in cells
    ]
    size = len(set(index[:, 0].tolist())) if k is None else integer("k", k, minimum=1)
    if size >= len(cells):
        raise InputError(f"k must be smaller than the number of cells {len(cells)}, got {size}; set k or add cells")
    recipe = {
        "classes": names[0], "domains": names[1], "labelled": sorted(marked), "unknown": tuple(unknown),
        "weights": amounts, "rho": rho, "alpha": across, "beta": within, "gamma": gamma,
        "eta_u": eta_u, "eta_l": eta_l, "k": k,
    }  # fmt: skip
    return analyse(graph, described, [number.get(i, -1) for i, _, _, _ in cells], size, recipe)


def what_if(
    world: WorldAnalysis,
    *,
    more: Mapping[Any, float] | None = None,
    add: Mapping[Any, float] | None = None,
    label: Iterable[Any] = (),
    **changes: Any,
) -> Comparison:
    """The same world with something changed: would more wild data from that domain help?

    more: {domain or (class, domain): factor} multiplies the amount of data there. add: {(class, domain): amount} adds to
    it, in the units of ``weights`` (a cell that did not exist may appear). label: further labelled cells or domains.
    Any other argument of ``domain_class_graph`` (alpha, eta_l, k, ...) replaces the old value.
    """
    recipe = dict(world.recipe)
    classes, domains = recipe["classes"], recipe["domains"]
    amounts = np.array(recipe["weights"])
    for place, factor in (more or {}).items():
        positive(f"more[{place}]", factor)
        if isinstance(place, str):
            if place not in domains:
                raise InputError(f"more must name domains or (class, domain) pairs; {place!r} is no domain")
            amounts[:, domains.index(place)] *= factor
        else:
            name, domain = _pair("more", place, classes, domains)
            amounts[classes.index(name), domains.index(domain)] *= factor
    for place, amount in (add or {}).items():
        name, domain = _pair("add", place, classes, domains)
        amounts[classes.index(name), domains.index(domain)] += positive(f"add[{name}, {domain}]", amount)
    unexpected = sorted(changes.keys() - recipe.keys())
    if unexpected:
        raise InputError(f"what_if has no argument {unexpected[0]!r}; it takes more, add, label and {', '.join(recipe)}")
    recipe.update(weights=amounts, labelled=[*recipe["labelled"], *label])
    return Comparison(world, domain_class_graph(**{**recipe, **changes}))


def _transition(index: Array, rho: float, across: Array, within: Array, gamma: float) -> Array:
    """T between cells (class, domain): eq. 9 with alpha by pair of domains and beta by pair of classes."""
    kind, place = index[:, 0], index[:, 1]
    same_class, same_domain = kind[:, None] == kind[None, :], place[:, None] == place[None, :]
    alpha, beta = across[place[:, None], place[None, :]], within[kind[:, None], kind[None, :]]
    return np.where(same_class, np.where(same_domain, rho, alpha), np.where(same_domain, beta, gamma))


def _names(argument: str, word: str, value: int | Sequence[str]) -> list[str]:
    if isinstance(value, str):
        raise InputError(f"{argument} must be a list of names or a number, got the single name {value!r}")
    if isinstance(value, Sequence):
        names = [str(name) for name in value]
        if not names or len(set(names)) != len(names):
            raise InputError(f"{argument} must be distinct names, at least one, got {names}")
        return names
    return [f"{word} {i}" for i in range(integer(argument, value, minimum=1))]


def _amounts(weights: Any, classes: list[str], domains: list[str]) -> Array:
    if weights is None:
        return np.ones((len(classes), len(domains)))
    if isinstance(weights, Mapping):
        table = np.zeros((len(classes), len(domains)))
        for pair, amount in weights.items():
            name, place = _pair("weights", pair, classes, domains)
            table[classes.index(name), domains.index(place)] = non_negative(f"weights[{name}, {place}]", amount)
    else:
        table = as_array("weights", weights, float)
        if table.shape != (len(classes), len(domains)):
            raise InputError(f"weights must be a ({len(classes)}, {len(domains)}) table, got shape {table.shape}")
        if not np.isfinite(table).all() or table.min() < 0:
            raise InputError("weights must be finite and 0 or greater; they are amounts of data")
    if table.sum() == 0:
        raise InputError("weights must not be all zero")
    return table


def _labelled(
    labelled: str | Iterable[Any], unknown: set[str], amounts: Array, classes: list[str], domains: list[str]
) -> set[Pair]:
    """Cells named one by one; a bare domain name stands for all cells in it that have data and a known class."""
    others = unknown - set(classes)
    if others:
        raise InputError(f"unknown must name classes of this world; {sorted(others)[0]!r} is none")
    marked: set[Pair] = set()
    for item in [labelled] if isinstance(labelled, str) else list(labelled):
        if isinstance(item, str):
            if item not in domains:
                raise InputError(f"labelled must name domains or (class, domain) pairs; {item!r} is no domain")
            column = amounts[:, domains.index(item)]
            marked |= {(name, item) for name, amount in zip(classes, column, strict=True) if amount > 0}
        else:
            pair = _pair("labelled", item, classes, domains)
            if pair[0] in unknown:
                raise InputError(f"labelled cell {pair} is of a class in unknown; take it out of one of the two")
            marked.add(pair)
    marked = {pair for pair in marked if pair[0] not in unknown}
    if not marked:
        raise InputError("labelled must name at least one cell; without labels there is no classifier to predict")
    return marked


def _pair(argument: str, value: Any, classes: list[str], domains: list[str]) -> Pair:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        names = [
            known[part] if isinstance(part, (int, np.integer)) and 0 <= part < len(known) else str(part)
            for part, known in zip(value, (classes, domains), strict=True)
        ]
        if names[0] in classes and names[1] in domains:
            return names[0], names[1]
    raise InputError(f"{argument} must use (class, domain) pairs of this world; {value!r} is none")


def _strength(name: str, value: Any, size: int, rho: float) -> Array:
    table = as_array(name, value, float)
    if table.ndim == 0:
        table = np.full((size, size), float(table))
    if table.shape != (size, size):
        raise InputError(f"{name} must be a number >= 0 or a ({size}, {size}) table of such, got shape {table.shape}")
    if not np.isfinite(table).all() or table.min() < 0:
        raise InputError(f"{name} must be finite and 0 or greater, got {table.min():g} as the smallest")
    if not np.allclose(table, table.T):
        raise InputError(f"{name} must be symmetric: how strongly two of them are linked has no direction")
    off = table[~np.eye(size, dtype=bool)]
    if off.size and off.max() >= rho:
        raise InputError(f"{name} must stay below rho = {rho:g}, got {off.max():g}")
    return table
