"""What one changed setting did: means over the seeds that both were run with, nothing else compared."""

from typing import Any

import pytest
from tests.bench.making import ran

from one_change import one_change
from wildspec.training.recipe import Recipe

PLAIN = Recipe("paper", all_labels=True)
SLOWER = Recipe("paper", changes={"wild.lr": 1e-4}, all_labels=True)


def runs(recipe: Recipe, noisy: dict[int, float], **changes: Any) -> list[dict[str, Any]]:
    usual = {"method": "oe", "detector": "msp", "fpr95_id": 0.25}
    return [ran(recipe, seed=seed, **{**usual, **changes}, ood_acc=value) for seed, value in noisy.items()]


def test_means_over_the_seeds_that_both_have() -> None:
    plain = runs(PLAIN, {0: 0.9, 1: 0.2, 2: 0.3})
    (said,) = one_change([*plain, *runs(SLOWER, {1: 0.4, 2: 0.6, 7: 0.99})], plain)
    assert "wild.lr=0.0001" in said
    assert "50.00 (25.00)" in said  # (0.4 + 0.6) / 2 and (0.2 + 0.3) / 2, seeds 0 and 7 left out
    assert "25.00 (25.00)" in said  # FPR95, the same in all
    assert said.endswith("seeds 1, 2")


@pytest.mark.parametrize(
    "others",
    [
        runs(PLAIN, {0: 0.1}),
        runs(SLOWER, {5: 0.1}),
        runs(SLOWER, {0: 0.1}, method="woods"),
        runs(SLOWER, {0: 0.1}, semantic="textures10"),
        runs(Recipe("paper", changes={"wild.lr": 1e-4}), {0: 0.1}),
        runs(Recipe("paper", changes={"wild.lr": 1e-4, "wild.epochs": 3.0}, all_labels=True), {0: 0.1}),
    ],
    ids=["no change", "another seed", "another method", "another set", "fewer labels", "two changes"],
)
def test_what_does_not_compare_is_left_out(others: list[dict[str, Any]]) -> None:
    assert one_change(others, runs(PLAIN, {0: 0.9})) == []
