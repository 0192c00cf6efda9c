"""alpha and beta of a pair of domains, as the theory wants them."""

import numpy as np
from tests.scripts import load_script

from wildspec.bench.pacs_embeddings import Embeddings


def test_alpha_and_beta_follow_the_domains():
    """Classes overlap, domains are far apart: raw, a domain holds together; standardized by domain, a class does."""
    rng = np.random.default_rng(1)
    labels, domains = np.tile(np.repeat(np.arange(7), 40), 2), np.repeat([0, 1], 280)
    moves = np.stack([np.full(16, 6.0), np.r_[np.full(8, 6.0), np.full(8, 1.0)]])
    features = 1.5 * rng.normal(size=(7, 16))[labels] + moves[domains] + 0.8 * rng.normal(size=(560, 16))
    names = np.array(["photo", "sketch"])[domains]
    pair_strengths = load_script("benchmarks/pacs_strengths.py").pair_strengths
    found = pair_strengths(Embeddings(features.astype(np.float32), labels, names, ""), "photo", "sketch")
    assert found["raw"]["stronger"] == "domain"
    assert found["raw"]["beta"] > found["raw"]["alpha"]
    assert (found["aligned"]["stronger"], found["aligned"]["alpha"] > found["aligned"]["beta"]) == ("class", True)
