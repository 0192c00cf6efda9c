"""Micro-batching: everyone gets their own rows, company is waited for no longer than said, the door shuts when full."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from wildspec.decision.verdicts import Verdicts
from wildspec.serving.batcher import Busy, MicroBatcher


def _verdicts(pixels: np.ndarray, neighbours: int) -> Verdicts:
    """A stand-in whose score is the first pixel: whose answer it is can be told."""
    n = len(pixels)
    first = pixels[:, 0, 0, 0].astype(float)
    near = np.tile(np.arange(neighbours), (n, 1))
    zeros = np.zeros(n)
    return Verdicts(zeros, zeros, np.ones((n, 1)), first, zeros, zeros, near, near.astype(float), np.zeros((n, 2)))


def _block(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint8).reshape(-1, 1, 1, 1) * np.ones((1, 3, 2, 2), np.uint8)


def _ready(values: list[int]) -> Callable[[], np.ndarray]:
    return lambda: _block(values)


def _run(scene: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scene, 60))


def test_requests_that_come_together_are_judged_together_and_told_apart() -> None:
    sizes: list[int] = []

    async def scene() -> list[Verdicts]:
        batcher = MicroBatcher(_verdicts, max_batch=64, max_wait=1.0, seen=lambda images, seconds: sizes.append(images))
        requests = [[1], [2, 3], [4], [5, 6, 7], [8]]
        for request in requests:
            batcher.admit(len(request))
        waiting = [batcher.judge(_ready(r), len(r), i) for i, r in enumerate(requests)]
        batcher.start()
        answers = await asyncio.gather(*waiting)
        for request in requests:
            batcher.leave(len(request))
        await batcher.stop()
        return answers

    answers = _run(scene())
    assert [a.score.tolist() for a in answers] == [[1], [2, 3], [4], [5, 6, 7], [8]]
    assert [a.neighbours.shape[1] for a in answers] == [0, 1, 2, 3, 4]
    assert sizes == [8]


def test_company_is_waited_for_but_not_by_the_lonely() -> None:
    sizes: list[int] = []

    async def scene() -> None:
        batcher = MicroBatcher(_verdicts, max_wait=0.5, seen=lambda images, seconds: sizes.append(images))
        batcher.start()
        batcher.admit(1)
        await asyncio.wait_for(batcher.judge(_ready([1]), 1, 0), 0.4)  # alone: sooner than max_wait
        batcher.leave(1)
        batcher.admit(3)
        first = batcher.judge(_ready([1]), 1, 0)
        await asyncio.sleep(0.05)  # two more are known to be on their way
        rest = [batcher.judge(_ready([v]), 1, 0) for v in (2, 3)]
        await asyncio.gather(first, *rest)
        batcher.leave(3)
        await batcher.stop()

    _run(scene())
    assert sizes == [1, 3]


def test_a_batch_is_never_larger_than_said_but_a_large_request_is_not_split() -> None:
    sizes: list[int] = []

    async def scene() -> None:
        batcher = MicroBatcher(_verdicts, max_batch=4, max_wait=0.0, seen=lambda images, seconds: sizes.append(images))
        batcher.admit(14)
        waiting = [batcher.judge(_ready([1] * n), n, 0) for n in (3, 2, 2, 6, 1)]
        batcher.start()
        await asyncio.gather(*waiting)
        batcher.leave(14)
        await batcher.stop()

    _run(scene())
    assert sizes == [3, 4, 6, 1]


def test_the_door_shuts_when_the_house_is_full_and_opens_again() -> None:
    async def scene() -> None:
        batcher = MicroBatcher(_verdicts, max_queue=10)
        batcher.admit(7)
        with pytest.raises(Busy) as busy:
            batcher.admit(4)
        assert busy.value.retry_after >= 1
        batcher.admit(3)
        assert batcher.full
        batcher.leave(7)
        batcher.admit(7)

    _run(scene())


def test_when_to_come_again_is_what_those_inside_will_take() -> None:
    async def scene() -> None:
        batcher = MicroBatcher(_verdicts, max_queue=1000)
        assert batcher.retry_after == 1, "nothing is known yet"
        batcher.admit(700)
        for rate, seconds in ((1e6, 1), (100.0, 7), (99.0, 8), (1.0, 60)):
            batcher._rate = rate
            assert batcher.retry_after == seconds

    _run(scene())


@pytest.mark.parametrize("passes", [1, 3])
def test_no_more_passes_at_a_time_than_said_and_as_many_when_there_is_work(passes: int) -> None:
    now, most = 0, 0
    lock, all_in = threading.Lock(), threading.Barrier(passes)

    async def scene() -> list[Any]:
        def decide(pixels: np.ndarray, neighbours: int) -> Verdicts:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            all_in.wait(30)  # ends only when all passes are under way
            with lock:
                now -= 1
            return _verdicts(pixels, neighbours)

        batcher = MicroBatcher(decide, max_batch=1, max_wait=0.0, passes=passes)
        waiting = [batcher.judge(_ready([v]), 1, 0) for v in range(6)]
        batcher.start()
        answers = await asyncio.gather(*waiting)
        await batcher.stop()
        return answers

    assert [a.score[0] for a in _run(scene())] == [0, 1, 2, 3, 4, 5]
    assert most == passes


def test_a_failing_batch_fails_alone() -> None:
    async def scene() -> None:
        def decide(pixels: np.ndarray, neighbours: int) -> Verdicts:
            if pixels[0, 0, 0, 0] == 13:
                raise RuntimeError("boom")
            return _verdicts(pixels, neighbours)

        batcher = MicroBatcher(decide, max_wait=0.0)
        batcher.start()
        with pytest.raises(RuntimeError, match="boom"):
            await batcher.judge(_ready([13]), 1, 0)
        assert (await batcher.judge(_ready([5]), 1, 0)).score.tolist() == [5]
        assert batcher.running
        await batcher.stop()

    _run(scene())


def test_whoever_gave_up_is_not_judged_and_harms_nobody() -> None:
    seen: list[int] = []

    async def scene() -> None:
        def decide(pixels: np.ndarray, neighbours: int) -> Verdicts:
            seen.extend(pixels[:, 0, 0, 0].tolist())
            return _verdicts(pixels, neighbours)

        batcher = MicroBatcher(decide, max_wait=0.0)
        gone, stays = batcher.judge(_ready([1]), 1, 0), batcher.judge(_ready([2]), 1, 0)
        gone.cancel()
        batcher.start()
        assert (await stays).score.tolist() == [2]
        await batcher.stop()

    _run(scene())
    assert seen == [2]


def test_any_number_may_give_up_at_once() -> None:
    async def scene() -> float:
        batcher = MicroBatcher(_verdicts, max_batch=1, max_wait=0.0, max_queue=10_000)
        gone = [batcher.judge(_ready([1]), 1, 0) for _ in range(5000)]
        stays = batcher.judge(_ready([2]), 1, 0)
        for one in gone:
            one.cancel()
        batcher.start()
        answer = (await stays).score[0]
        await batcher.stop()
        return answer

    assert _run(scene()) == 2


def test_what_cannot_be_prepared_is_told_so_and_the_others_are_judged() -> None:
    sizes: list[int] = []

    async def scene() -> list[Any]:
        batcher = MicroBatcher(_verdicts, seen=lambda images, seconds: sizes.append(images))
        waiting = [batcher.judge(_ready([1]), 1, 0), batcher.judge(lambda: None, 2, 0), batcher.judge(_ready([3]), 1, 0)]
        batcher.start()
        return await asyncio.gather(*waiting, batcher.judge(lambda: None, 1, 0))

    first, none, third, alone = _run(scene())
    assert (first.score.tolist(), none, third.score.tolist(), alone) == ([1], None, [3], None)
    assert sizes == [2], "what was not judged is not counted"


def test_stop_finishes_what_was_admitted() -> None:
    async def scene() -> list[float]:
        batcher = MicroBatcher(_verdicts, max_batch=1, max_wait=0.0)
        batcher.start()

        async def request(value: int) -> float:
            batcher.admit(1)
            try:
                return float((await batcher.judge(_ready([value]), 1, 0)).score[0])
            finally:
                batcher.leave(1)

        waiting = [asyncio.ensure_future(request(v)) for v in range(5)]
        await asyncio.sleep(0)
        await batcher.stop()
        return await asyncio.gather(*waiting)

    assert _run(scene()) == [0, 1, 2, 3, 4]
