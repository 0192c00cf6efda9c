"""The paper's matrices, typed from its text once, as sympy expressions: the oracle of this folder."""

import pytest
import sympy as sp


@pytest.fixture(scope="session")
def paper():
    r, a, b, g = symbols = sp.symbols("rho alpha beta gamma", positive=True)
    first = r**2 + b**2 + a**2 + 2 * g**2
    pair, cross, far = 2 * r * b + g**2 + 2 * g * a, 2 * r * a + g**2 + 2 * g * b, 2 * a * b + g**2 + 2 * g * r
    lone = g * (g + a + b + 2 * r)
    separate_u = sp.Matrix(
        [
            [first, pair, cross, far, lone],
            [pair, first, far, cross, lone],
            [cross, far, first, pair, lone],
            [far, cross, pair, first, lone],
            [lone, lone, lone, lone, r**2 + 4 * g**2],
        ]
    )
    x, y, z = 2 * r * a + 3 * g * b, 2 * a * b + g * b + 2 * g * r, a * b + 2 * g * (b + r)
    second = r**2 + 2 * b**2 + a**2 + g**2
    q, t = 2 * r * b + b**2 + 2 * g * a, 2 * r * b + b**2 + g**2 + g * a
    shared_u = sp.Matrix(
        [
            [first, pair, x, y, z],
            [pair, first, y, x, z],
            [x, y, second, q, t],
            [y, x, q, second, t],
            [z, z, t, t, r**2 + 2 * b**2 + 2 * g**2],
        ]
    )
    labelled = sp.Matrix(
        [
            [r**2 + b**2, 2 * r * b, r * a + g * b, a * b + g * r, g * (r + b)],
            [2 * r * b, r**2 + b**2, a * b + g * r, r * a + g * b, g * (r + b)],
            [r * a + g * b, a * b + g * r, a**2 + g**2, 2 * g * a, g * (a + g)],
            [a * b + g * r, r * a + g * b, 2 * g * a, a**2 + g**2, g * (a + g)],
            [g * (r + b), g * (r + b), g * (a + g), g * (a + g), 2 * g**2],
        ]
    )
    transitions = {
        "separate": sp.Matrix([[r, b, a, g, g], [b, r, g, a, g], [a, g, r, b, g], [g, a, b, r, g], [g, g, g, g, r]]),
        "shared": sp.Matrix([[r, b, a, g, g], [b, r, g, a, g], [a, g, r, b, b], [g, a, b, r, b], [g, g, b, b, r]]),
    }
    transitions["unlabelled"] = transitions["separate"]
    return {
        "symbols": symbols,
        "transition": transitions,
        "unsupervised": {"separate": separate_u, "unlabelled": separate_u, "shared": shared_u},
        "supervised": labelled,
    }
