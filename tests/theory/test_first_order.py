"""The closed forms of appendix D against the text, typed in again, and against exact solutions in 60 digits."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from mpmath import mp
from typer.testing import CliRunner

from wildspec.cli.main import app
from wildspec.errors import WildspecError
from wildspec.theory import class_advantage, critical_beta, critical_ratio, first_order, paper_axis, plane
from wildspec.theory.first_order import separability_corrected, separability_formula

POINTS = [(0.02, 0.015), (0.01, 0.03), (0.05, 0.001), (0.001, 0.05)]


@pytest.mark.parametrize("scenario", ["separate", "shared", "unlabelled"])
@pytest.mark.parametrize(("a", "b"), POINTS)
def test_eigenpairs_of_the_printed_matrix(scenario, a, b):
    """The printed vectors and values are exact for the printed first-order matrix, at any label weight."""
    for r in (1.0, 0.3, 4.0):
        form = first_order(scenario, a, b, label_weight=r)
        np.testing.assert_allclose(form.normalized @ form.vectors, form.vectors * form.values, atol=1e-14)
        np.testing.assert_allclose(form.vectors.T @ form.vectors, np.eye(5), atol=1e-9)
        assert (np.diff(form.values) <= 0).all()


@pytest.mark.parametrize(("a", "b"), POINTS)
def test_the_text_of_appendix_d(a, b):
    """Printed numbers, typed in again: A, C, D^-1/2, eigenvalues, Z_in, predictions, S(f)."""
    form = first_order("separate", a, b)
    assert form.total == pytest.approx(7 + 12 * b + 12 * a)
    assert form.adjacency[0].tolist() == pytest.approx(np.array([2, 4 * b, 3 * a, 0, 0]) / form.total)
    sketch, painting = 1 - b - 0.75 * a, 1 - b - 1.5 * a
    np.testing.assert_allclose(
        form.inverse_root / np.sqrt(form.total), [sketch / np.sqrt(2)] * 2 + [painting] * 2 + [1], rtol=1e-14
    )
    assert sorted(form.values) == pytest.approx(sorted([1, 1, 1 - 4 * b, 1 - 4.5 * a, 1 - 4 * b - 4.5 * a]))
    Z = form.embedding
    gram = Z[:2] @ Z[:2].T
    if 9 / 8 * a > b:
        expected = sketch**2 * form.total / 6 * np.array([[2 - 4 * b, 4 * b], [4 * b, 2 - 4 * b]])
        np.testing.assert_allclose(form.probe.scores, painting / sketch * np.eye(2), atol=1e-12)
        assert form.probe.count == 0
    else:
        expected = np.full((2, 2), sketch**2 * form.total / 12 * (3 - 4.5 * a))
        assert form.probe.count == 2
    np.testing.assert_allclose(gram, expected, rtol=1e-12)
    np.testing.assert_allclose(np.sort(np.abs(Z[4])), [0, 0, np.sqrt(form.total)], atol=1e-12)
    assert form.separability == pytest.approx(separability_formula("separate", a, b), rel=1e-12)


@pytest.mark.parametrize(("a", "b"), POINTS)
def test_the_text_of_scenario_b(a, b):
    form = first_order("shared", a, b)
    assert form.total == pytest.approx(7 + 20 * b + 12 * a)
    even = np.sqrt(3) * np.sqrt(27 * a**2 - 40 * a * b + 48 * b**2)
    odd = np.sqrt(81 * a**2 + 24 * a * b + 16 * b**2)
    expected = [
        1,
        1 - 3 * b + (even - 9 * a) / 4,
        1 - 5 * b + (odd - 9 * a) / 4,
        1 - 3 * b - (even + 9 * a) / 4,
        1 - 5 * b - (odd + 9 * a) / 4,
    ]
    np.testing.assert_allclose(form.values, expected, atol=1e-14)  # in the printed order: it is the right order
    second, third = form.values[1:3]
    raw = np.array(
        [
            [np.sqrt(2), np.sqrt(2), 1, 1, 1],
            [np.sqrt(2) * (1 - 6 * b - second) / (8 * b)] * 2 + [(4 * b - 1 + second) / (4 * b)] * 2 + [1],
            [s * np.sqrt(2) * (1 - 3 * a - 6 * b - third) / (3 * a) for s in (1, -1)] + [-1, 1, 0],
        ]
    ).T
    raw /= np.linalg.norm(raw, axis=0)
    np.testing.assert_allclose(form.vectors[:, :3], raw, atol=1e-12)
    scores = form.probe.scores
    assert scores[0, 0] == pytest.approx(scores[1, 1])
    assert scores[0, 1] == pytest.approx(scores[1, 0])
    assert scores[0, 0] > scores[0, 1]  # b_1 > 0


@pytest.mark.parametrize(("a", "b"), POINTS)
def test_the_text_of_the_self_supervised_case(a, b):
    form = first_order("unlabelled", a, b)
    assert form.total == pytest.approx(5 + 8 * b + 8 * a)
    assert sorted(form.values) == pytest.approx(sorted([1, 1, 1 - 4 * b, 1 - 4 * a, 1 - 4 * a - 4 * b]))
    assert form.probe.count == (0 if a > b else 2)
    assert form.separability == pytest.approx(separability_formula("unlabelled", a, b), rel=1e-12)


def exact_separability(r, case, a, b):
    """S(f) for gamma = 0 from the two 2 x 2 blocks under the swap angel <-> tiger, in 60 digits."""
    T = mp.matrix([[1, b, a, 0], [b, 1, 0, a], [a, 0, 1, b], [0, a, b, 1]])
    A = T * T.T + r * (T[:, 0] * T[:, 0].T + T[:, 1] * T[:, 1].T)
    d0, d2 = sum(A[0, :]), sum(A[2, :])
    total = 2 * d0 + 2 * d2 + 1
    first = d0 / (2 * (d0 + d2))  # squared entry of v_1 at a sketch
    if case == "class":
        x, y, z = (A[0, 0] - A[0, 1]) / d0, (A[2, 2] - A[2, 3]) / d2, (A[0, 2] - A[0, 3]) ** 2 / (d0 * d2)
        root = mp.sqrt((x - y) ** 2 + 4 * z)
        value, entry = (x + y + root) / 2, (1 + (x - y) / root) / 4
    else:
        value = (A[0, 0] + A[0, 1]) / d0 + (A[2, 2] + A[2, 3]) / d2 - 1
        entry = mp.mpf(1) / 2 - first
    return total / d0 * (first + value * entry) + total


@pytest.mark.parametrize(
    ("r", "case", "exact", "printed"),
    [
        (1, "class", ("28/3", "34/3", "166/27"), (12.5, 20 / 3)),
        (1, "domain", ("35/4", "39/4", "23/2"), (9.75, 11.5)),
        (0, "class", ("15/2", "7", "2"), (7, 2)),
        (0, "domain", ("15/2", "2", "7"), (2, 7)),
    ],
)
def test_linear_terms_of_separability(r, case, exact, printed):
    """Difference quotients of the exact S(f) in 60 digits, of the printed one in doubles.

    The printed form of Theorem 4.2, case one, has another linear term than the exact S(f).
    """
    constant, by_alpha, by_beta = (Fraction(number) for number in exact)
    scenario, h = ("separate", "unlabelled")[1 - r], 1e-6
    for point in ((2, 1), (5, 1)) if case == "class" else ((1, 2), (1, 5)):
        linear = by_alpha * point[0] + by_beta * point[1]
        with mp.workdps(60):
            step = mp.mpf(10) ** -20
            start = mp.mpf(constant.numerator) / constant.denominator
            quotient = (exact_separability(r, case, *(step * p for p in point)) - start) / step
        assert float(quotient) == pytest.approx(float(linear), rel=1e-14)
        at_zero = separability_formula(scenario, *(1e-12 * p for p in point))
        slope = (separability_formula(scenario, *(h * p for p in point)) - at_zero) / h
        assert slope == pytest.approx(printed[0] * point[0] + printed[1] * point[1], rel=1e-4)
        if r == 1:
            expected = float(constant) + h * float(linear)
            assert separability_corrected(*(h * p for p in point)) == pytest.approx(expected, rel=1e-14)


def test_boundary_polynomial_by_sympy():
    """lambda_4 put into the characteristic polynomial of the odd block, numerator, is the cubic in beta."""
    a, b, r = sp.symbols("a b r", positive=True)
    T = sp.Matrix([[1, b, a, 0], [b, 1, 0, a], [a, 0, 1, b], [0, a, b, 1]])
    A = T * T.T + r * (T[:, 0] * T[:, 0].T + T[:, 1] * T[:, 1].T)
    d0, d2 = sum(A.row(0)), sum(A.row(2))
    fourth = (A[0, 0] + A[0, 1]) / d0 + (A[2, 2] + A[2, 3]) / d2 - 1
    x, y, z = (A[0, 0] - A[0, 1]) / d0, (A[2, 2] - A[2, 3]) / d2, (A[0, 2] - A[0, 3]) ** 2 / (d0 * d2)
    numerator = sp.numer(sp.factor(sp.together((x - fourth) * (y - fourth) - z)))
    for point in ((0.1, 0.07, 1.0), (0.3, 0.5, 0.4), (0.02, 0.03, 2.5)):
        ours = -class_advantage(point[0], point[1], eta_u=5.0, eta_l=point[2])
        value = float(numerator.subs(dict(zip((a, b, r), point, strict=True))))
        assert ours * 4 * point[1] * (1 + point[2]) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("eta_l", [0.0, 0.3, 1.0, 4.0])
def test_boundary_is_where_the_exact_problem_changes_sides(eta_l):
    for axis in (paper_axis(20), np.linspace(0.05, 0.9, 20)):
        beta = axis * 1.0003 + 1e-4  # off the ties
        errors = plane("separate", axis, beta, eta_l=eta_l).probe_errors
        wins = np.array([[class_advantage(a, b, 5.0, eta_l) > 0 for b in beta] for a in axis])
        np.testing.assert_array_equal(errors == 0, wins)


def test_critical_values():
    assert critical_ratio() == 9 / 8
    assert critical_ratio(5, 0) == 1
    assert critical_ratio(1, 1) == pytest.approx(49 / 24)
    for alpha in (1e-3, 1e-2):
        assert critical_beta(alpha) == pytest.approx(9 / 8 * alpha - 27 / 64 * alpha**2, abs=2 * alpha**3)
        assert critical_beta(alpha, 5, 0) == pytest.approx(alpha, rel=1e-9)  # without labels alpha = beta, exactly
    assert class_advantage(0.05, critical_beta(0.05)) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize(("alpha", "eta_l"), [(0.6, 10.0), (0.9, 4.0), (0.99, 1.0)])
def test_where_classes_win_for_every_beta_there_is_no_boundary(alpha, eta_l):
    assert critical_beta(alpha, 5.0, eta_l) == math.inf
    assert (plane("separate", [alpha], np.linspace(0.001, 0.999, 200), eta_l=eta_l).probe_errors == 0).all()
    assert math.isfinite(critical_beta(alpha, 5.0, 0.0))


@pytest.mark.parametrize(("words", "told"), [
    (["--alpha", "0.6", "--beta", "0.1", "--eta-l", "10"], "classes win for every beta"),
    (["--rho", "2", "--alpha", "1.8", "--beta", "1.9"], "classes win for every beta"),  # beyond rho there is no beta
    (["--alpha", "0.1", "--beta", "0.1"], f"domains win above beta = {critical_beta(0.1):.5g}"),
])  # fmt: skip
def test_the_command_says_in_words_that_there_is_none(words, told):
    result = CliRunner().invoke(app, ["theory", *words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert told in result.output
    assert "inf" not in result.output


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: first_order("separate", 0.0, 0.1), "alpha"),
        (lambda: first_order("separate", 0.1, -0.1), "beta"),
        (lambda: first_order("zoo", 0.1, 0.1), "scenario"),
        (lambda: first_order("separate", 0.1, 0.1, k=5), "k"),
        (lambda: critical_ratio(0.0, 1.0), "eta_u"),
        (lambda: separability_formula("shared", 0.1, 0.1), "scenario"),
    ],
)
def test_bad_input(call, name):
    with pytest.raises(WildspecError, match=name):
        call()
