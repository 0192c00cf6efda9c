"""The review's service: a page, and what the page asks for. On the loopback interface, with a token from the start.

    GET  /                 the page; it holds nothing of the model, and finds the token behind # in its own address
    GET  /v1/state         counts, the last lesson, the curve          POST /v1/answer  {tab, act, class, samples}
    GET  /v1/card?tab=     the sample that this window asks about      POST /v1/skip    {tab, act, samples}
    GET  /v1/sheets        groups of rejected samples                  POST /v1/undo    {tab, act or null}
    GET  /v1/picture?...   a sample's picture                          POST /v1/done    {tab}: write the model, and stop
    GET  /v1/labelled?row= a labelled sample's small picture
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from wildspec._version import __version__
from wildspec.errors import DataError, InputError
from wildspec.serving.app import page
from wildspec.serving.bodies import Memory, Refused, read_body
from wildspec.serving.guard import Guard, answer_errors, check_bearer
from wildspec.serving.hosts import Hosts
from wildspec.serving.review_room import ON_SHEET, SHOWN, ReviewRoom
from wildspec.serving.review_samples import SMALL, large, small
from wildspec.serving.service import check_token
from wildspec.serving.web import review_page

MOST_BYTES = 64 << 10  # of a request
SECONDS = 30.0
KEPT_PICTURES = 2000
WORD = r"^[0-9a-z]{8,32}$"
Tab = Annotated[str, Query(pattern=WORD)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tab: str = Field(pattern=WORD)


class AnswerIn(_Body):
    act: str = Field(pattern=WORD)
    value: str = Field(alias="class", min_length=1, max_length=1000)
    samples: list[int] = Field(min_length=1, max_length=max(ON_SHEET, SHOWN + 1))


class SkipIn(_Body):
    act: str = Field(pattern=WORD)
    samples: list[int] = Field(min_length=1, max_length=max(ON_SHEET, SHOWN + 1))


class UndoIn(_Body):
    act: str | None = Field(default=None, pattern=WORD)


def image(data: bytes) -> Response:
    """A picture of ours, JPEG or PNG."""
    kind = "image/png" if data[:4] == b"\x89PNG" else "image/jpeg"
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def create_review(room: ReviewRoom, token: str, stop: Callable[[], None] = lambda: None) -> FastAPI:
    """The service of one review. ``stop``: called when the model is written and the page has been told."""
    check_token(token)
    app = FastAPI(title="wildspec review", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    memory = Memory(64 * MOST_BYTES)

    async def body(request: Request, kind: Any) -> Any:
        check_bearer(request, token)
        declared = request.headers.get("content-length")
        data = await read_body(request.stream(), declared, MOST_BYTES, SECONDS, memory)
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            where = ", ".join(sorted({str(item["loc"][-1]) if item["loc"] else "the body" for item in error.errors()}))
            raise Refused(422, "bad_request", f"wrong value of {where}"[:200]) from None
        finally:
            memory.give_back(len(data))

    async def run(work: Callable[[], Any]) -> Any:
        """In a thread: it reads and writes files."""
        try:
            return await run_in_threadpool(work)
        except (InputError, DataError) as error:
            raise Refused(422, "refused", str(error)) from None

    @app.get("/v1/state")
    async def state(request: Request) -> Response:
        check_bearer(request, token)
        return JSONResponse(await run(room.state))

    @app.get("/v1/card")
    async def card(request: Request, tab: Tab) -> Response:
        check_bearer(request, token)
        return JSONResponse({"card": await run(lambda: room.card(tab))})

    @app.get("/v1/sheets")
    async def sheets(request: Request) -> Response:
        check_bearer(request, token)
        return JSONResponse({"sheets": await run(room.sheets)})

    @app.post("/v1/answer")
    async def answer(request: Request) -> Response:
        given: AnswerIn = await body(request, AnswerIn)
        said = await run(lambda: room.answer(given.tab, given.act, given.value.strip(), given.samples))
        return JSONResponse({"said": said})

    @app.post("/v1/skip")
    async def skip(request: Request) -> Response:
        given: SkipIn = await body(request, SkipIn)
        await run(lambda: room.skip(given.tab, given.act, given.samples))
        return JSONResponse({"said": "skipped"})

    @app.post("/v1/undo")
    async def undo(request: Request) -> Response:
        given: UndoIn = await body(request, UndoIn)
        return JSONResponse({"samples": await run(lambda: room.undo(given.tab, given.act))})

    @app.post("/v1/done")
    async def done(request: Request) -> Response:
        await body(request, _Body)
        told = await run(room.finish)
        asyncio.get_running_loop().call_later(0.5, stop)
        return JSONResponse(told)

    @lru_cache(maxsize=KEPT_PICTURES)
    def thumbnail(i: int) -> bytes:
        return small(room.samples.load(i, SMALL))

    def show(i: int, whole: bool) -> bytes:
        try:
            return large(room.samples.load(i)) if whole else thumbnail(i)
        except DataError as error:
            raise Refused(422, "no_picture", str(error).partition(" (")[0]) from None  # no word of what the file holds

    @app.get("/v1/picture")
    async def picture(request: Request, sample: Annotated[int, Query(ge=0)], whole: bool = False) -> Response:
        check_bearer(request, token)
        if sample >= len(room):
            raise Refused(404, "refused", "there is no such sample")
        data: bytes = await run_in_threadpool(show, sample, whole)
        return image(data)

    @app.get("/v1/labelled")
    async def labelled(request: Request, row: Annotated[int, Query(ge=0)]) -> Response:
        check_bearer(request, token)
        data = room.samples.labelled(row)
        if data is None:
            raise Refused(404, "refused", "there is no such picture")
        return image(data)

    app.add_api_route("/", page(review_page), include_in_schema=False)
    answer_errors(app)
    app.add_middleware(Guard, hosts=Hosts(), advice="open it as 127.0.0.1 or localhost")
    return app
