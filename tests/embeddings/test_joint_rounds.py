"""The rounds of attribution on embeddings, against a slow second telling: loops, ranks by counting, scikit-learn's probe."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from wildspec.embeddings import joint
from wildspec.embeddings.evidence import Tail
from wildspec.embeddings.joint import JointSettings, aligned_shifted, known_share
from wildspec.embeddings.linear import fit_probe
from wildspec.embeddings.wild_graph import GraphSettings, build_graph
from wildspec.graph.search import unit_rows

CLASSES = 3


@pytest.fixture(scope="module")
def parts(world, model):
    """Shift, graph of the shifted wild samples, labelled rows and classes, the first probe."""
    shift = model.model_.wild.shift
    shifted, long = aligned_shifted(shift, unit_rows(world.wild))
    graph = build_graph(shifted, GraphSettings(eta_l=0.0))
    aligned = shift.align(unit_rows(world.labelled), np.zeros(len(world.labelled)))
    return shift, graph, Tail.of(long), aligned, world.labels, fit_probe(aligned, world.labels, CLASSES)


def slow_strangeness(features, probabilities, rows, labels, own):
    """(n, 3): unsure, distant, undecided. ``own[i]``: the row that sample i itself is, or None."""
    found = []
    for i, feature in enumerate(features.astype(np.float64)):
        near: dict[int, list[float]] = {}
        for j, (row, label) in enumerate(zip(rows.astype(np.float64), labels, strict=True)):
            if j != own[i]:
                near.setdefault(int(label), []).append(float(feature @ row))
        means = sorted((float(np.mean(sorted(values)[-5:])) for values in near.values()), reverse=True)
        found.append([-probabilities[i].max(), -max(map(max, near.values())), means[1] - means[0]])
    return np.array(found)


def slow_ranks(found):
    """(n,) u: the mean rank of the summed mean ranks, by counting."""
    def mean_rank(values):
        return np.array([(np.sum(values < v) + np.sum(values <= v)) / 2 for v in values])

    sums = sum(mean_rank(column) / len(found) for column in found.T)
    return (mean_rank(np.round(sums, 12)) * 2 + 1) / (2 * len(found) + 2)


def slow_rounds(graph, aligned, labels, probe, share, rounds):
    features = graph.denoised_members(np.arange(len(graph)))
    rows, classes, own = aligned, labels, [None] * len(graph)
    attributed, probabilities = np.full(len(graph), -1), probe.probabilities(features)
    for _ in range(rounds):
        u = slow_ranks(slow_strangeness(features, probabilities, rows, classes, own))
        known = [i for i in range(len(graph)) if u[i] < share]
        attributed = np.full(len(graph), -1)
        attributed[known] = probabilities[known].argmax(axis=1)
        rows = np.concatenate([aligned, graph.rows[known]])
        classes = np.concatenate([labels, attributed[known]])
        own = [len(aligned) + known.index(i) if i in known else None for i in range(len(graph))]
        weights = [1.0] * len(aligned) + [0.5] * len(known)
        fitted = LogisticRegression(C=10.0, max_iter=300).fit(rows, classes, sample_weight=weights)
        probabilities = fitted.predict_proba(features)
    return attributed, probabilities, slow_strangeness(features, probabilities, rows, classes, own)


@pytest.mark.parametrize(("share", "rounds"), [(1 / 3, 2), (1 / 3, 0), (0.6, 1)])
def test_the_rounds_are_those_told_slowly(parts, share, rounds):
    shift, graph, long, aligned, labels, probe = parts
    settings = JointSettings(graph=graph.settings, attribute=share, rounds=rounds)
    found = joint.attribute(shift, graph, long, aligned, labels, CLASSES, probe, settings)
    attributed, probabilities, strange = slow_rounds(graph, aligned, labels, probe, share, rounds)
    np.testing.assert_array_equal(found.attributed, attributed)
    everybody = graph.denoised_members(np.arange(len(graph)))
    np.testing.assert_allclose(found.probe.probabilities(everybody), probabilities, atol=2e-5)
    np.testing.assert_allclose(found.ranks.singles, np.sort(strange, axis=0), atol=2e-5)
    assert found.known == pytest.approx(known_share(strange), abs=1.5 / len(graph))
    assert (attributed >= 0).sum() == pytest.approx(share * len(graph) if rounds else 0, abs=2)


def test_supervised_edges_weigh_as_much_as_of_the_graph_was_looked_at(parts, monkeypatch):
    shift, graph, long, aligned, labels, probe = parts
    graph = replace(graph, settings=replace(graph.settings, eta_l=0.1))
    given = []

    def relabel(one, whole, share=1.0):
        given.append((whole, share))
        return one

    monkeypatch.setattr(joint, "relabel", relabel)
    for most in (20_000, 100):
        settings = JointSettings(graph=graph.settings, rounds=1, most=most)
        found = joint.attribute(shift, graph, long, aligned, labels, CLASSES, probe, settings)
        whole, share = given.pop()
        assert share == pytest.approx(min(most, len(graph)) / len(graph))
        np.testing.assert_array_equal(whole[found.reference], found.attributed)
        assert (np.delete(whole, found.reference) == -1).all()
