"""Worlds of any shape: the five-node example inside, an independent solution of larger ones, what-if questions."""

import json

import numpy as np
import pytest

from wildspec.errors import WildspecError
from wildspec.theory import critical_beta, domain_class_graph, five_node, what_if

CLASSES, DOMAINS = ("angel", "tiger", "panda"), ("sketch", "painting", "zoo")
KNOWN = {(c, d): 1.0 for c in ("angel", "tiger") for d in ("sketch", "painting")}


def five(scenario, alpha, beta, **more):
    home = "painting" if scenario == "shared" else "zoo"
    return domain_class_graph(
        CLASSES, DOMAINS, "sketch", unknown=["panda"], weights={**KNOWN, ("panda", home): 1.0},
        alpha=alpha, beta=beta, **more,
    )  # fmt: skip


@pytest.mark.parametrize("scenario", ["separate", "shared"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 0.03), (0.03, 0.05)])
def test_the_five_node_example_is_a_world(scenario, alpha, beta):
    world, example = five(scenario, alpha, beta, gamma=0.002), five_node(scenario, 1.0, alpha, beta, 0.002)
    order = [[(c.kind, c.domain) for c in world.cells].index(pair) for pair in [
        ("angel", "sketch"), ("tiger", "sketch"), ("angel", "painting"), ("tiger", "painting"),
        ("panda", "painting" if scenario == "shared" else "zoo"),
    ]]  # fmt: skip
    np.testing.assert_allclose(
        world.graph.adjacency()[np.ix_(order, order)], example.graph.adjacency(), atol=1e-15
    )
    assert world.ood_accuracy == 1 - example.probe.mean
    assert world.separability == pytest.approx(example.separability)
    assert world.k == 3
    assert world.id_accuracy == (1.0 if example.probe.count == 0 else 0.0)


@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_winner_changes_sides_at_the_papers_boundary(alpha):
    """Strengths are lambda_3 and lambda_4 to first order, the second exactly."""
    limit = critical_beta(alpha)
    below, above = five("separate", alpha, limit * 0.98), five("separate", alpha, limit * 1.02)
    assert (below.winner, below.ood_accuracy) == ("class", 1.0)
    assert (above.winner, above.ood_accuracy) == ("domain", 0.0)
    values = five_node("separate", 1.0, alpha, limit * 0.98).eigen[0]
    assert below.connectivity.class_strength == pytest.approx(values[2], abs=alpha**2)
    assert below.connectivity.domain_strength == pytest.approx(values[3], abs=1e-12)
    assert below.connectivity.class_captured > 0.99 > 0.01 > below.connectivity.domain_captured
    assert above.connectivity.class_captured < 0.01 < 0.99 < above.connectivity.domain_captured


def by_hand(T, labels, shares, eta_u, k, inside, outside, novel, truth):
    """The same quantities from loops and numpy's general eig of the random walk."""
    N = len(T)
    A = sum(eta_u * shares[j] * np.outer(T[:, j], T[:, j]) for j in range(N))
    for c in set(labels) - {-1}:
        mean = T[:, labels == c].mean(axis=1)
        A = A + np.outer(mean, mean)
    A /= A.sum()
    d = A.sum(axis=1)
    values, vectors = np.linalg.eigh(np.diag(d**-0.5) @ A @ np.diag(d**-0.5))
    Z = vectors[:, -k:] * np.sqrt(values[-k:]) / np.sqrt(d)[:, None]
    Y = np.eye(max(labels) + 1)[labels[inside]]
    scores = Z[outside] @ np.linalg.pinv(Z[inside].T @ Z[inside], rcond=1e-12) @ Z[inside].T @ Y
    right = scores.argmax(axis=1) == truth
    accuracy = np.sum(shares[outside] * right) / shares[outside].sum()
    S = sum(
        shares[i] * shares[j] * np.sum((Z[i] - Z[j]) ** 2) for i in inside for j in novel
    ) / (shares[inside].sum() * shares[novel].sum())  # fmt: skip
    return accuracy, S


def test_a_larger_world_against_loops(rng):
    """Four known classes, one unknown, three domains, uneven shares, own alpha and beta for every pair."""
    classes, domains = ["a", "b", "c", "d", "new"], ["x", "y", "z"]
    amounts = rng.uniform(0.5, 2, size=(5, 3))
    amounts[1, 2] = 0  # one cell missing
    alpha, beta = rng.uniform(0.02, 0.1, (3, 3)), rng.uniform(0.01, 0.05, (5, 5))
    alpha, beta = (alpha + alpha.T) / 2, (beta + beta.T) / 2
    world = domain_class_graph(
        classes, domains, ["x", ("d", "y")], unknown=["new"], weights=amounts, alpha=alpha, beta=beta, gamma=0.001, k=6
    )
    cells = [(i, j) for i in range(5) for j in range(3) if amounts[i, j] > 0]
    T = np.zeros((14, 14))
    for row, (i, j) in enumerate(cells):
        for column, (p, q) in enumerate(cells):
            T[row, column] = (
                1.0 if (i, j) == (p, q) else alpha[j, q] if i == p else beta[i, p] if j == q else 0.001
            )
    labels = np.array([i if i < 4 and (j == 0 or (i, j) == (3, 1)) else -1 for i, j in cells])
    shares = np.array([amounts[cell] for cell in cells]) / amounts.sum()
    novel = np.array([n for n, (i, _) in enumerate(cells) if i == 4])
    outside = np.array([n for n, (i, _) in enumerate(cells) if i < 4 and labels[n] < 0])
    accuracy, S = by_hand(
        T, labels, shares, 14.0, 6, np.flatnonzero(labels >= 0), outside, novel, np.array([cells[n][0] for n in outside])
    )
    assert world.ood_accuracy == pytest.approx(accuracy)
    assert world.separability == pytest.approx(S, rel=1e-9)
    assert [(p.cell.kind, p.cell.domain) for p in world.predictions] == [
        (classes[cells[n][0]], domains[cells[n][1]]) for n in outside
    ]
    assert world.ood_accuracy == pytest.approx(
        sum(p.cell.share for p in world.predictions if p.correct) / sum(p.cell.share for p in world.predictions)
    )
    shares_by_domain = {d: sum(p.cell.share for p in world.predictions if p.cell.domain == d) for d in domains}
    total = sum(accuracy * shares_by_domain[d] for d, accuracy in world.by_domain().items())
    assert total / sum(shares_by_domain.values()) == pytest.approx(world.ood_accuracy)


def test_what_if_answers_the_users_question():
    """Domains win; a panda among the paintings (Theorem B.1) or labels on one painting make classes visible."""
    world = five("separate", 0.03, 0.05)
    assert world.ood_accuracy == 0.0
    moved = what_if(world, weights={**KNOWN, ("panda", "painting"): 1.0})
    assert moved.accuracy_gain == 1.0
    assert "helps generalization (+100 points" in moved.verdict
    fewer = what_if(world, more={"painting": 0.25})
    assert fewer.after.winner == "class"
    assert fewer.accuracy_gain == 1.0
    assert "class connectivity takes over" in fewer.verdict
    same = what_if(world, more={"painting": 1.0})
    assert same.verdict == "does not change generalization; does not change detection"
    assert same.margin_gain == 0
    stronger = what_if(world, alpha=0.08)
    assert stronger.accuracy_gain == 1.0
    one_more = what_if(world, add={("panda", "painting"): 0.5}).after
    assert len(one_more.cells) == 6
    assert sum(c.share for c in one_more.cells) == pytest.approx(1)
    labelled = what_if(world, label=[("angel", "painting")]).after
    assert [c.role for c in labelled.cells if (c.kind, c.domain) == ("angel", "painting")] == ["labelled"]
    assert world.ood_accuracy == 0.0  # the question leaves the world as it was
    back = what_if(moved.after, weights={**KNOWN, ("panda", "zoo"): 1.0})
    assert "hurts generalization (-100 points" in back.verdict


def test_rarer_unknowns_have_longer_vectors_but_the_same_angle():
    """S(f) grows when pandas get rarer (|f|^2 ~ 1 / degree); the verdict looks at the angle, which stays."""
    question = what_if(five("separate", 0.05, 0.03), more={("panda", "zoo"): 0.1})
    assert question.after.separability > question.before.separability + 1
    assert question.angular_gain == pytest.approx(0, abs=1e-12)
    assert question.before.angular_separability == pytest.approx(2)  # orthogonal to every known cell


def test_a_cut_through_a_repeated_eigenvalue_is_said():
    world = domain_class_graph(6, 3, "domain 0", unknown=["class 5"], alpha=0.03, beta=0.02)
    assert world.spectrum.split_eigenspace
    assert world.clean_k > world.k
    clean = what_if(world, k=world.clean_k).after
    assert not clean.spectrum.split_eigenspace
    assert clean.clean_k == clean.k


def test_worlds_without_shift_or_without_unknowns():
    plain = domain_class_graph(3, 2, ["domain 0", "domain 1"], k=3)
    assert plain.ood_accuracy is None
    assert plain.separability is None
    assert plain.predictions == []
    assert what_if(plain, k=4).accuracy_gain is None
    single = domain_class_graph(4, 1, [(c, 0) for c in range(3)], k=3)
    assert single.connectivity.domain_strength is None
    assert single.winner == "class"
    alone = domain_class_graph(2, 2, [(0, 0)], k=2)
    assert alone.connectivity.class_strength is None


def test_json_round_trip():
    text = json.dumps(five("shared", 0.05, 0.03).to_dict(), allow_nan=False)
    assert json.loads(text)["winner"] in ("class", "domain")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": "angel"}, "classes"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"domains": 0}, "domains"),
        ({"labelled": "moon"}, "labelled.*'moon' is no domain"),
        ({"labelled": [("angel", "moon")]}, "labelled"),
        ({"labelled": []}, "labelled"),
        ({"labelled": [("panda", "zoo")], "unknown": ["panda"]}, "unknown"),
        ({"unknown": ["bear"]}, "unknown"),
        ({"weights": np.ones((2, 2))}, "weights"),
        ({"weights": -np.ones((3, 3))}, "weights"),
        ({"weights": np.zeros((3, 3))}, "weights"),
        ({"weights": {("angel", "moon"): 1}}, "weights"),
        ({"weights": {("angel", "zoo"): 1, ("tiger", "zoo"): 1}, "labelled": [("angel", "sketch")]}, "has no data"),
        ({"alpha": 1.5}, "alpha"),
        ({"alpha": np.ones((2, 2)) * 0.1}, "alpha"),
        ({"beta": np.array([[0, 0.1, 0.2], [0.3, 0, 0.1], [0.2, 0.1, 0]])}, "beta must be symmetric"),
        ({"alpha": np.nan}, "alpha must be finite"),
        ({"beta": "weak"}, "beta must be numbers"),
        ({"weights": "even"}, "weights must be numbers"),
        ({"gamma": -0.1}, "gamma"),
        ({"gamma": 1.0}, "gamma must stay below rho = 1"),
        ({"rho": 0.0}, "rho"),
        ({"k": 9}, "k must be smaller than the number of cells 9"),
        ({"eta_l": -1.0}, "eta_l"),
    ],
)
def test_bad_worlds(change, message):
    arguments = {"classes": CLASSES, "domains": DOMAINS, "labelled": "sketch", **change}
    with pytest.raises(WildspecError, match=message):
        domain_class_graph(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"more": {"moon": 2.0}}, "more"), ({"more": {"zoo": -1.0}}, "more"), ({"add": {("x", "zoo"): 1}}, "add"),
     ({"budget": 3}, "no argument 'budget'")],
)  # fmt: skip
def test_bad_questions(change, message):
    with pytest.raises(WildspecError, match=message):
        what_if(five("separate", 0.05, 0.03), **change)


def test_a_cell_that_no_vector_sees_is_no_error():
    """Nothing is tied to anything: there are more components than dimensions, some cells have no coordinates."""
    world = domain_class_graph(3, 2, "domain 0", unknown=["class 2"], alpha=0.0, beta=0.0, k=2)
    assert np.isfinite(world.angular_separability)
    assert (np.linalg.norm(world.spectrum.embedding, axis=1) < 1e-12).any()
