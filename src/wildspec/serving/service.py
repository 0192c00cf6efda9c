"""One model being asked over HTTP: what each path does. Routes, errors and headers are in `wildspec.serving.app`."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from wildspec.checks import integer, non_negative, positive
from wildspec.decision.verdicts import REJECTED_NAME, Verdicts
from wildspec.errors import InputError
from wildspec.serving.batcher import Busy, MicroBatcher
from wildspec.serving.bodies import Memory, Refused, Upload, read_body, take_images
from wildspec.serving.decode_pool import DecodePool
from wildspec.serving.engine import Engine
from wildspec.serving.guard import check_bearer
from wildspec.serving.meters import Meters
from wildspec.serving.pixels import SMALL_BYTES, decode_small, look_at, stacked

MOST_NEIGHBOURS = 20
PARAMETERS = {"neighbours", "pictures"}
PARSERS = 2
PIECE = 64 << 10  # of an answer, given out when the one before is read
MOST_PIXELS = (1 << 32) - 1  # of an image: what the processes that decode can be told (`wildspec.serving.decode_worker`)
HELD_MB = 512.0  # where nothing is asked for: bodies and answers held at a time


@dataclass(frozen=True)
class Limits:
    """What a request may cost. ``max_wait_ms``: how long an image waits for others; ``max_queue``: waiting or being scored;
    ``max_pixels``: of an image, ``max_request_pixels``: of all in a request; ``decode_seconds``: to decode them;
    ``max_held_mb``: bodies and answers held at a time, all requests together; by default `HELD_MB`, and room for one request
    at least."""

    max_batch: int = 64
    max_wait_ms: float = 4.0
    max_queue: int = 512
    max_images: int = 32
    max_body_mb: float = 32.0
    max_pixels: int = 25_000_000
    max_request_pixels: int = 100_000_000
    decode_seconds: float = 10.0
    max_held_mb: float | None = None
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_images", "max_request_pixels"):
            integer(name, getattr(self, name), 1)
        integer("max_pixels", self.max_pixels, 1, MOST_PIXELS)
        integer("max_queue", self.max_queue, self.max_images)
        non_negative("max_wait_ms", self.max_wait_ms)
        for name in ("max_body_mb", "seconds", "decode_seconds"):
            positive(name, getattr(self, name))
        if self.max_held_mb is not None and positive("max_held_mb", self.max_held_mb) < self.max_body_mb:
            raise InputError(
                f"max_held_mb must be at least max_body_mb ({self.max_body_mb:g}), got {self.max_held_mb:g}: a request "
                "of that size would never be taken; raise it, or leave it out"
            )

    @property
    def held_mb(self) -> float:
        """Bodies and answers held at a time."""
        return max(HELD_MB, self.max_body_mb) if self.max_held_mb is None else self.max_held_mb


class HeldResponse(Response):
    """JSON that counts as held until it is on its way, given out piece by piece as it is read; `Refused` where there is no
    room for it."""

    def __init__(self, content: bytes, memory: Memory) -> None:
        memory.take(len(content))
        self.memory = memory
        super().__init__(content, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for first in range(0, len(self.body), PIECE):
                part, last = bytes(self.body[first : first + PIECE]), first + PIECE >= len(self.body)
                await send({"type": "http.response.body", "body": part, "more_body": not last})
        finally:
            self.memory.give_back(len(self.body))


class Service:
    """The state of a running service and its handlers."""

    def __init__(self, engine: Engine, limits: Limits, token: str | None) -> None:
        self.engine, self.limits, self.token = engine, limits, check_token(token)
        self.meters = Meters(lambda: self.batcher.inside)
        self.ready = False
        self._facts = engine.describe()
        self._memory = Memory(int(limits.held_mb * 1e6))
        self._parsers = ThreadPoolExecutor(PARSERS, thread_name_prefix="wildspec-parse")
        self.decoders = DecodePool(engine.size, limits.max_pixels, limits.decode_seconds)
        self.batcher = MicroBatcher(
            engine.decide, max_batch=limits.max_batch, max_wait=limits.max_wait_ms / 1000, max_queue=limits.max_queue,
            passes=engine.passes, seen=lambda images, seconds: self.meters.batch.observe(images),
        )  # fmt: skip

    @asynccontextmanager
    async def life(self, app: FastAPI) -> AsyncIterator[None]:
        """From the first pass through the network to the last answer."""
        self.batcher.start()
        blank = np.zeros((1, 3, self.engine.size, self.engine.size), dtype=np.uint8)
        await self.batcher.judge(lambda: blank, 1, 1)  # the first pass is slow; nobody should wait for it
        self.ready = True
        yield
        self.ready = False
        await self.batcher.stop(self.limits.seconds)
        self.decoders.close()
        self._parsers.shutdown(wait=False, cancel_futures=True)

    async def predict(
        self,
        request: Request,
        neighbours: Annotated[int, Query(ge=0, le=MOST_NEIGHBOURS, description="Nearest labelled images to name.")] = 3,
        pictures: Annotated[bool, Query(description="Add thumbnails of the neighbours.")] = False,
    ) -> Response:
        """Decide about one image or several.

        Send files as multipart/form-data, base64 in JSON, or one image as the body itself.
        """
        asked = [name for name, _ in request.query_params.multi_items()]
        if len(asked) > len(set(asked) & PARAMETERS):  # a slip would give out names that were not asked for
            raise Refused(422, "bad_request", f"the parameters are {' and '.join(sorted(PARAMETERS))}, each at most once")
        return await self.answer(request, neighbours, pictures)

    async def answer(self, request: Request, neighbours: int = 3, pictures: bool = False) -> Response:
        """What `predict` does, once its parameters are known to be right."""
        self._check_token(request)
        began = time.monotonic()
        if not self.ready:
            raise Refused(503, "stopping", "the service is not ready", retry_after=1)
        if self.batcher.full:
            raise Busy(self.batcher.retry_after)
        limits, declared = self.limits, request.headers.get("content-length")
        body = await read_body(
            request.stream(), declared, int(limits.max_body_mb * 1e6), limits.seconds, self._memory
        )
        try:
            async with asyncio.timeout(limits.seconds):
                uploads, small = await self._take(body, request.headers.get("content-type"))
                verdicts = await self._judge(uploads, small, neighbours)
        except TimeoutError:
            raise Refused(503, "timeout", f"no answer within {limits.seconds:g} s", retry_after=5) from None
        finally:
            self._memory.give_back(len(body))
        results = [result(self.engine, verdicts, i, upload.name, pictures) for i, upload in enumerate(uploads)]
        rejected = int(verdicts.rejected.sum())
        self.meters.rejected.inc(rejected)
        self.meters.kept.inc(len(results) - rejected)
        self.meters.seconds.observe(time.monotonic() - began)
        answer = {"model": self.engine.name, "threshold": self.engine.threshold, "results": results}
        return HeldResponse(json.dumps(answer).encode(), self._memory)

    async def model(self, request: Request) -> Response:
        """What the model is: classes, threshold, promise, distribution of scores."""
        self._check_token(request)
        return JSONResponse(self._facts)

    async def healthz(self) -> Response:
        """200 while the process lives."""
        return JSONResponse({"status": "ok"})

    async def readyz(self) -> Response:
        """200 when requests will be answered; 503 while starting, stopping or full."""
        ready = self.ready and self.batcher.running and not self.batcher.full
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Counters in the Prometheus text format."""
        self._check_token(request)
        return Response(self.meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _check_token(self, request: Request) -> None:
        if self.token is not None:
            check_bearer(request, self.token)

    async def _take(self, body: bytes, kind: str | None) -> tuple[list[Upload], bool]:
        """The images in a body, and whether they are small. A large body is taken apart by a thread: all others wait."""

        def take() -> tuple[list[Upload], bool]:
            uploads = take_images(body, kind, self.limits.max_images)
            return uploads, look_at(uploads, self.limits.max_pixels, self.limits.max_request_pixels)

        if len(body) <= SMALL_BYTES:
            return take()
        return await asyncio.get_running_loop().run_in_executor(self._parsers, take)

    async def _judge(self, uploads: list[Upload], small: bool, neighbours: int) -> Verdicts:
        """Small images are decoded by the thread that judges; large and bad ones by processes: nobody waits for them."""
        count = len(uploads)
        self.batcher.admit(count)
        try:
            verdicts = None
            if small:
                verdicts = await self.batcher.judge(lambda: decode_small(uploads, self.engine.size), count, neighbours)
            if verdicts is None:
                decoded = await self.decoders.decode([upload.data for upload in uploads])
                pixels = stacked(uploads, decoded, self.limits.max_pixels)
                verdicts = await self.batcher.judge(lambda: pixels, count, neighbours)
            assert verdicts is not None
            return verdicts
        finally:
            self.batcher.leave(count)


def check_token(token: str | None) -> str | None:
    """A token that a header can carry: visible ASCII, not empty."""
    if token is not None and not (token.isascii() and token.isprintable() and token.split() == [token]):
        raise InputError("the token must be one word of visible ASCII characters; leave it out to ask for none")
    return token


def result(engine: Engine, verdicts: Verdicts, i: int, name: str, pictures: bool) -> dict[str, Any]:
    """The answer about one image."""
    likely = int(verdicts.likely[i])
    rejected = bool(verdicts.rejected[i])
    probabilities = verdicts.probabilities[i].tolist()
    near = []
    for row, distance in zip(verdicts.neighbours[i].tolist(), verdicts.distances[i].tolist(), strict=True):
        called, label = engine.neighbour(row)
        picture = engine.picture_of(row) if pictures else None
        near.append({"name": called, "label": label, "distance": distance, "picture": picture})
    return {
        "name": name,
        "decision": REJECTED_NAME if rejected else engine.classes[likely],
        "rejected": rejected,
        "likely": engine.classes[likely],
        "probability": min(1.0, probabilities[likely]),
        "probabilities": dict(zip(engine.classes, probabilities, strict=True)),
        "ood_score": float(verdicts.score[i]),
        "threshold": float(verdicts.threshold[i]),
        "p_value": float(verdicts.p_value[i]),
        "neighbours": near,
    }
