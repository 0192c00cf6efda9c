"""docs/dev/shift-worlds.md: the arithmetic by hand, on round numbers."""

import pytest

import worlds_page


def run(draw, state, mine, theirs):
    names = ("id_kept", "covariate_kept", "unknown_rejected", "id_acc", "covariate_acc")
    return {
        "draw": draw, "state": state, "ours": dict(zip(names, mine, strict=True)) | {"shifted_share": 0.0},
        "baseline": dict(zip(names, theirs, strict=True)),
    }  # fmt: skip


PLAIN = [
    run(0, 0, (0.9, None, 1.0, 1.0, None), (1.0, None, 0.5, 1.0, None)),
    run(0, 1, (0.9, None, 0.8, 1.0, None), (1.0, None, 0.5, 1.0, None)),
    run(1, 0, (1.0, None, 0.6, 1.0, None), (1.0, None, 0.5, 1.0, None)),
]
MOVED = [run(0, 0, (1.0, 0.5, 0.5, 1.0, 1.0), (1.0, 0.1, 1.0, 1.0, 0.5))]
DOCUMENT = {
    "worlds": {"blobs": {"shift": False, "runs": PLAIN}, "moved": {"shift": True, "runs": MOVED}},
    "environments": {"made": {"command": "python benchmarks/shift_worlds.py"}},
}


def test_spread_is_over_states_of_one_draw():
    assert worlds_page.spread(PLAIN) == pytest.approx(0.2)
    assert worlds_page.spread(MOVED) == 0


def test_balance_is_the_mean_of_what_a_world_asks_for():
    assert worlds_page.balance(PLAIN, "ours") == pytest.approx(0.8)
    assert worlds_page.balance(MOVED, "ours") == pytest.approx(0.5)
    assert worlds_page.balance(MOVED, "baseline") == pytest.approx(0.55)


def test_the_page_names_worlds_that_miss_a_bar():
    page = worlds_page.page(DOCUMENT)
    assert "| ID kept at least 93 % | 2 of 2 | none |" in page  # (0.9 + 0.9 + 1.0) / 3 = 0.933
    assert "random states less than 10 points apart | 1 of 2 | blobs |" in page
    assert "every run | 0 of 1 | blobs |" in page
    assert "mean of that and of covariate kept | 1 of 2 | moved |" in page
    assert "| blobs | 93.3 | – | 80.0 | 100.0 | – | 20.0 | 100.0 | – | 50.0 | 100.0 | – |" in page
    assert "real embeddings" not in page
