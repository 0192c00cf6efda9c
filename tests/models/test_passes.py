"""Passes side by side: every sample once, one thread each, errors at once, and torch's threads as they were."""

import threading
import time

import pytest
import torch

from wildspec.models.passes import run_passes, threads_apart


@pytest.fixture
def three_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize(("count", "batch"), [(0, 4), (3, 4), (4, 4), (17, 4), (40, 1)])
def test_every_sample_once(count: int, batch: int, side_by_side: bool) -> None:
    seen, told, where = [0] * count, list[int](), set[int]()

    def work(start: int, stop: int) -> None:
        assert 0 < stop - start <= batch
        for i in range(start, stop):
            seen[i] += 1

    def advance(done: int) -> None:
        told.append(done)
        where.add(threading.get_ident())

    run_passes(work, count, batch, advance, side_by_side=side_by_side)
    assert seen == [1] * count
    assert sum(told) == count
    assert where <= {threading.get_ident()}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_as_many_passes_as_threads_run_at_a_time() -> None:
    """They wait for each other: with fewer the barrier would break."""
    together = threading.Barrier(3)
    threads = []

    def work(start: int, stop: int) -> None:
        together.wait(timeout=30)
        threads.append(torch.get_num_threads())

    run_passes(work, 6, 1)
    assert threads == [1] * 6


@pytest.mark.usefixtures("three_threads")
def test_a_single_pass_has_all_threads() -> None:
    threads = []
    run_passes(lambda start, stop: threads.append(torch.get_num_threads()), 5, 8)
    assert threads == [3]


@pytest.mark.usefixtures("three_threads")
def test_an_error_ends_the_rest_and_leaves_the_threads_as_they_were() -> None:
    seen = []

    def work(start: int, stop: int) -> None:
        seen.append(start)
        if start == 2:
            raise ValueError("torn")
        time.sleep(0.01)  # passes take time: three threads would need more than three seconds for all

    with pytest.raises(ValueError, match="torn"):
        run_passes(work, 1000, 1)
    assert len(seen) < 1000
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_two_callers_do_not_take_each_others_threads() -> None:
    with threads_apart() as first:
        with threads_apart() as second:
            assert (first, second) == (3, 1)
        assert torch.get_num_threads() == 1
        seen = []
        run_passes(lambda start, stop: seen.append(start), 4, 2)
        assert seen == [0, 2]
    assert torch.get_num_threads() == 3
    with threads_apart() as again:
        assert again == 3
