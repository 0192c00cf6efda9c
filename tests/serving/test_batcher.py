"""Micro-batching: everyone gets their own rows, company is waited for no longer than said, the door shuts when full."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from wildspec.estimators.verdicts import Verdicts
from wildspec.serving.batcher import Busy, MicroBatcher


def _verdicts(pixels: np.ndarray, neighbours: int) -> Verdicts:
    """A stand-in whose score is the first pixel: whose answer it is can be told."""
    n = len(pixels)
    first = pixels[:, 0, 0, 0].astype(float)
    near = np.tile(np.arange(neighbours), (n, 1))
    zeros = np.zeros(n)
    return Verdicts(zeros, zeros, np.ones((n, 1)), first, zeros, near, near.astype(float), np.zeros((n, 2)))


def _block(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint8).reshape(-1, 1, 1, 1) * np.ones((1, 3, 2, 2), np.uint8)


def _run(scene: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scene, 60))


def test_requests_that_come_together_are_judged_together_and_told_apart() -> None:
    sizes: list[int] = []

    async def scene() -> list[Verdicts]:
        batcher = MicroBatcher(_verdicts, max_batch=64, max_wait=1.0, seen=lambda images, seconds: sizes.append(images))
        requests = [[1], [2, 3], [4], [5, 6, 7], [8]]
        for request in requests:
            batcher.admit(len(request))
        waiting = [asyncio.ensure_future(batcher.judge(_block(r), i)) for i, r in enumerate(requests)]
        await asyncio.sleep(0)
        batcher._last = 5  # as after a busy moment: company is waited for
        batcher.max_batch = 8
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


def test_a_batch_is_never_larger_than_said_but_a_large_request_is_not_split() -> None:
    sizes: list[int] = []

    async def scene() -> None:
        batcher = MicroBatcher(_verdicts, max_batch=4, max_wait=0.0, seen=lambda images, seconds: sizes.append(images))
        batcher.admit(14)
        waiting = [asyncio.ensure_future(batcher.judge(_block([1] * n), 0)) for n in (3, 2, 2, 6, 1)]
        await asyncio.sleep(0)
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


def test_a_failing_batch_fails_alone() -> None:
    async def scene() -> None:
        def decide(pixels: np.ndarray, neighbours: int) -> Verdicts:
            if pixels[0, 0, 0, 0] == 13:
                raise RuntimeError("boom")
            return _verdicts(pixels, neighbours)

        batcher = MicroBatcher(decide, max_wait=0.0)
        batcher.start()
        with pytest.raises(RuntimeError, match="boom"):
            await batcher.judge(_block([13]), 0)
        assert (await batcher.judge(_block([5]), 0)).score.tolist() == [5]
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
        gone = asyncio.ensure_future(batcher.judge(_block([1]), 0))
        stays = asyncio.ensure_future(batcher.judge(_block([2]), 0))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        batcher.start()
        assert (await stays).score.tolist() == [2]
        await batcher.stop()

    _run(scene())
    assert seen == [2]


def test_stop_finishes_what_was_admitted() -> None:
    async def scene() -> list[float]:
        batcher = MicroBatcher(_verdicts, max_batch=1, max_wait=0.0)
        batcher.start()

        async def request(value: int) -> float:
            batcher.admit(1)
            try:
                return float((await batcher.judge(_block([value]), 0)).score[0])
            finally:
                batcher.leave(1)

        waiting = [asyncio.ensure_future(request(v)) for v in range(5)]
        await asyncio.sleep(0)
        await batcher.stop()
        return await asyncio.gather(*waiting)

    assert _run(scene()) == [0, 1, 2, 3, 4]
