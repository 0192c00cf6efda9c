"""Uploads are decoded where they can be given up: a hanging decoder costs its own request, and no stop waits for it."""

import asyncio
import io
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from service import multipart, running

import tiny_model
from wildspec.data.decode import decode, fit
from wildspec.serving.app import Limits
from wildspec.serving.decode_pool import BROKE_DOWN, TOO_LONG, DecodePool
from wildspec.serving.engine import BundleEngine


def encoded(side: int, kind: str = "PNG", seed: int = 0) -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side + 3, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def with_pool(work: Callable[[DecodePool], Awaitable[Any]], *, seconds: float = 30.0, workers: int = 2) -> Any:
    async def run() -> Any:
        pool = DecodePool(16, 1_000_000, seconds, workers)
        try:
            return await work(pool)
        finally:
            pool.close()

    return asyncio.run(run())


async def stopped(pool: DecodePool) -> int:
    """A process of the pool, which hangs."""
    await pool.decode([encoded(8)])
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)
    return pid


async def gone(pid: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the process lives on")


def test_a_process_decodes_as_this_one_does_and_says_what_it_cannot() -> None:
    images = [encoded(40), encoded(30, "JPEG"), b"no image", encoded(2000)[:60], encoded(1001), encoded(9, "WEBP")]
    found = with_pool(lambda pool: pool.decode(images))
    for i in (0, 1, 5):
        assert np.array_equal(found[i], fit(decode(images[i]), 16).transpose(2, 0, 1))
    assert "known format" in found[2]
    assert "2003 x 2000 pixels" in found[3]
    assert "1004 x 1001 pixels" in found[4]


def test_what_hangs_is_ended_after_its_time_and_the_next_is_decoded() -> None:
    async def work(pool: DecodePool) -> Any:
        pid = await stopped(pool)
        hung = await pool.decode([encoded(20)])
        await gone(pid)
        return hung, await pool.decode([encoded(20), encoded(21)])

    hung, after = with_pool(work, seconds=0.5, workers=1)
    assert hung == [TOO_LONG]
    assert [item.shape for item in after] == [(3, 16, 16)] * 2


def test_a_process_that_dies_costs_one_request() -> None:
    async def work(pool: DecodePool) -> Any:
        pid = await stopped(pool)
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        return await pool.decode([encoded(20), encoded(21)]), await pool.decode([encoded(22)])

    died, after = with_pool(work, workers=1)
    assert died == [BROKE_DOWN], "the images behind it were not looked at"
    assert after[0].shape == (3, 16, 16)


def test_whoever_gives_up_leaves_no_process_behind() -> None:
    async def work(pool: DecodePool) -> Any:
        pid = await stopped(pool)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pool.decode([encoded(20)]), 0.2)
        await gone(pid)
        return await pool.decode([encoded(23)])

    assert with_pool(work, workers=1)[0].shape == (3, 16, 16)


def test_closing_ends_a_process_in_the_middle_of_an_image() -> None:
    async def work(pool: DecodePool) -> Any:
        pid = await stopped(pool)
        waiting = asyncio.ensure_future(pool.decode([encoded(20)]))
        await asyncio.sleep(0.1)
        pool.close()
        await gone(pid)
        return await waiting

    assert with_pool(work) == [TOO_LONG]


@pytest.fixture(scope="module")
def engine() -> BundleEngine:
    return BundleEngine(tiny_model.fitted(), "shapes")


def test_uploads_that_cost_seconds_are_refused_by_their_header(engine: BundleEngine) -> None:
    bad = {"text.ppm": b"P1\n360 360\n" + b"#\n" * 400_000, "grey.ppm": b"P5 2000 2000 15\n" + bytes(4_000_000)}
    with running(engine, Limits(max_body_mb=10)) as client:
        for name, data in bad.items():
            body, kind = multipart([(name, data)])
            status, answer, _ = client.predict(body, kind)
            assert (status, answer["code"]) == (422, "bad_image")
            assert "save it as JPEG or PNG" in answer["images"][0]["reason"]
        assert client.app.state.service.decoders.pids == [], "no process was needed to say so"


def test_the_pixels_of_a_request_have_a_limit(engine: BundleEngine) -> None:
    one = encoded(600, "JPEG")  # 600 x 603
    with running(engine, Limits(max_request_pixels=800_000)) as client:
        assert client.predict(*multipart([("a", one), ("b", one)]))[0] == 200
        status, answer, _ = client.predict(*multipart([("a", one)] * 3))
    assert (status, answer["code"]) == (413, "too_large")
    assert "1,085,400 pixels" in answer["message"]


def test_an_upload_on_which_the_decoder_hangs_is_told_so(engine: BundleEngine) -> None:
    with running(engine, Limits(decode_seconds=0.5)) as client:
        assert client.predict(encoded(700))[0] == 200
        (pid,) = client.app.state.service.decoders.pids
        os.kill(pid, signal.SIGSTOP)
        status, answer, _ = client.predict(encoded(700))
        assert (status, answer["images"][0]["reason"]) == (422, TOO_LONG)
        assert client.predict(encoded(30))[0] == 200


def test_the_service_stops_although_a_decoder_hangs(engine: BundleEngine) -> None:
    large = encoded(700)
    with running(engine, Limits(seconds=4, decode_seconds=600)) as client:
        assert client.predict(large)[0] == 200
        (pid,) = client.app.state.service.decoders.pids
        os.kill(pid, signal.SIGSTOP)
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(client.predict(large)))
        asking.start()
        until = time.monotonic() + 30
        while not client.app.state.service.batcher.inside and time.monotonic() < until:
            time.sleep(0.01)
    asking.join(30)
    assert answers[0][0] == 503
    asyncio.run(gone(pid))  # leaving the block, the service has stopped


def test_the_service_stops_although_a_pass_hangs(engine: BundleEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    go, plain = threading.Event(), engine.decide
    hang = [False]

    def decide(pixels: np.ndarray, neighbours: int) -> Any:
        if hang[0]:
            go.wait(60)
        return plain(pixels, neighbours)

    monkeypatch.setattr(engine, "decide", decide)
    with running(engine, Limits(seconds=0.3)) as client:
        hang[0] = True
        assert client.predict(encoded(30))[0] == 503
    assert client.app.state.service.batcher.stuck
    go.set()
