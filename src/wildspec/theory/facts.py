"""What is true of the paper's claims over the whole plane of its figures, counted."""

import math
from typing import Any

import numpy as np

from wildspec.theory.first_order import class_advantage, first_order, separability_corrected, separability_formula
from wildspec.theory.grid import paper_axis, plane
from wildspec.theory.theorems import FIVE_NODE_THEOREMS, error_slopes


def plane_facts(cells: int = 50) -> dict[str, Any]:
    """Exact problem against claims on a cells x cells grid, alpha', beta' in [0.002, 0.1], gamma = 0, paper's eta and k.
    On a coarse grid no cell may disagree: there is no range then."""
    axis = paper_axis(cells)
    separate, shared, unlabelled = (plane(name, axis, axis) for name in ("separate", "shared", "unlabelled"))
    a, b = np.meshgrid(axis, axis, indexing="ij")
    off_line = np.abs(9 / 8 * a - b) > 1e-12
    off_diagonal = a != b
    disagree = (separate.probe_errors == 0) != (9 / 8 * a - b > 1e-12)  # cells on the line count as domain
    ratios = (b / a)[disagree].tolist()
    exact_rule = np.vectorize(class_advantage)(a, b) > 0
    printed = np.vectorize(lambda x, y: separability_formula("separate", x, y))(a, b)
    corrected = np.vectorize(separability_corrected)(a, b)
    printed_gap = np.vectorize(
        lambda x, y: first_order("separate", x, y).separability - first_order("shared", x, y).separability
    )(a, b)
    gap = separate.separability - shared.separability
    return {
        "cells": cells * cells,
        "4.1: cells where the exact problem disagrees with 9/8 alpha > beta": int(disagree.sum()),
        "4.1: of these, beta/alpha lies between": [min(ratios), max(ratios)] if ratios else [],
        "4.1: cells where it disagrees with the exact boundary": int(
            ((separate.probe_errors == 0) != exact_rule)[off_line].sum()
        ),
        "4.2: largest |S printed - S exact|": float(np.abs(printed - separate.separability)[~disagree].max()),
        "4.2: largest |S corrected - S exact|": float(np.abs(corrected - separate.separability)[~disagree].max()),
        "B.1: cells with an error": int((shared.probe_errors > 0).sum()),
        "B.2: cells with S(f) < S(f_1), exact": int((gap < 0).sum()),
        "B.2: cells with S(f) < S(f_1), closed forms": int((printed_gap < 0).sum()),
        "B.2: cells where the signs differ": int(((gap < 0) != (printed_gap < 0)).sum()),
        "C.1: cells off the diagonal that disagree with alpha > beta": int(
            ((unlabelled.probe_errors == 0) != (a > b))[off_diagonal].sum()
        ),
        "C.2: cells with S(f) <= S(f^(u))": int((separate.separability <= unlabelled.separability).sum()),
    }


def slope_facts() -> dict[str, dict[str, dict[str, float | str]]]:
    """Measured power of every error, towards the corner along (2, 1) (classes win) and (1, 2) (domains win)."""
    found: dict[str, dict[str, dict[str, float | str]]] = {}
    for name in FIVE_NODE_THEOREMS:
        found[name] = {}
        for label, direction in (("classes win", (2.0, 1.0)), ("domains win", (1.0, 2.0))):
            slopes = error_slopes(name, *direction)
            found[name][label] = {
                part: "exact" if math.isnan(slope) else round(slope, 3) for part, slope in slopes.items()
            }
    return found
