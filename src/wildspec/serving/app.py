"""The HTTP service: routes, OpenAPI, errors and headers around a `Service`.

    app = create_app(engine, Limits(), token=None)
"""

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wildspec._version import __version__
from wildspec.serving import schemas
from wildspec.serving.batcher import Busy
from wildspec.serving.bodies import Refused
from wildspec.serving.engine import Engine
from wildspec.serving.hosts import OPEN_PATHS, SAFE_METHODS, Hosts
from wildspec.serving.service import Limits, Service
from wildspec.serving.web import POLICY, docs_page, index_page

__all__ = ["Limits", "create_app"]
_SHORT = re.compile(rb"(?:neighbours=(1?[0-9]|20))?")
log = logging.getLogger("wildspec.serve")
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"), (b"x-frame-options", b"DENY")]
Answers = dict[int | str, dict[str, Any]]


def create_app(
    engine: Engine, limits: Limits | None = None, *, token: str | None = None, hosts: Iterable[str] = ()
) -> FastAPI:
    """The service for one model. ``token``: bearer token that /v1 and /metrics ask for. ``hosts``: names under which it
    answers, beside localhost and addresses in figures; "*": any."""
    service = Service(engine, limits or Limits(), token)
    app = FastAPI(
        title="wildspec", version=__version__, lifespan=service.life, docs_url=None, redoc_url=None,
        redirect_slashes=False,
        description="Classifies images of known classes and rejects what is none of them.",
    )  # fmt: skip
    app.state.service = service
    extra: dict[str, Any] = {} if token is None else {"security": [{"bearer": []}]}
    guarded: Answers = {status: schemas.ERRORS[status] for status in ((421,) if token is None else (401, 421))}
    counters = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counters."}
    state: dict[str, Any] = {"model": schemas.StateOut, "description": "Its state."}

    def route(path: str, handler: Any, tag: str, answers: Answers, method: str = "GET", **options: Any) -> None:
        app.add_api_route(
            path, handler, methods=[method], tags=[tag], responses=answers, response_model=None,
            name=handler.__name__, **options,
        )  # fmt: skip

    predicted = {200: {"model": schemas.PredictionOut, "description": "Decisions, in order."}, **schemas.ERRORS}
    if token is None:
        predicted.pop(401)
    route("/v1/predict", service.predict, "model", predicted, "POST", openapi_extra={**schemas.BODY, **extra})
    described: Answers = {200: {"model": schemas.ModelOut, "description": "The model."}, **guarded}
    route("/v1/model", service.model, "model", described, openapi_extra=extra or None)
    route("/healthz", service.healthz, "service", {200: state})
    route("/readyz", service.readyz, "service", {200: state, 503: state})
    route("/metrics", service.metrics, "service", {200: counters, **guarded}, openapi_extra=extra or None,
          response_class=Response)  # fmt: skip
    app.add_api_route("/", _page(lambda: index_page(token is not None)), include_in_schema=False)
    app.add_api_route("/docs", _page(lambda: docs_page(app.openapi(), token is not None)), include_in_schema=False)
    if token is not None:
        _declare_token(app)
    _answer_errors(app)
    app.add_middleware(Around, service=service, hosts=Hosts(hosts))
    return app


class Around:
    """Counts every answer, adds the safety headers, answers only what is meant for us (`wildspec.serving.hosts`). A defect
    of ours is logged here and told to nobody.

    A predict request without parameters, or with ``neighbours`` alone, is taken straight to the service: matching routes and
    parameters in the framework costs more than everything else the request needs of the event loop.
    """

    def __init__(self, app: ASGIApp, service: Service, hosts: Hosts) -> None:
        self.app, self.service, self.hosts = app, service, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        path = scope["path"]
        short = _SHORT.fullmatch(scope["query_string"]) if path == "/v1/predict" and scope["method"] == "POST" else None
        try:
            if (refused := self._refused(scope)) is not None:
                path = "refused"
                await refused(scope, receive, tell)
            elif short is not None:
                response = await self._straight(Request(scope, receive), int(short[1] or 3))
                await response(scope, receive, tell)
            else:
                await self.app(scope, receive, tell)
                path = getattr(scope.get("route"), "path", "other")
        except ClientDisconnect:
            status = 499  # it hung up; there is nobody to answer
        except Exception:
            log.exception("error while answering %s", path)
            if status:
                raise  # the answer had begun: all that is left is to close the connection
            await error_answer(500, "internal", "an internal error; it was logged")(scope, receive, tell)
        finally:
            self.service.meters.requests.labels(path, str(status)).inc()

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that is meant for another service, or that another one's page has sent."""
        if scope["path"] not in OPEN_PATHS and self.hosts.misdirected(scope["headers"]):
            return error_answer(421, "misdirected", "this service does not go by that name; allow it with --allow-host")
        if scope["method"] not in SAFE_METHODS and self.hosts.from_elsewhere(scope["headers"]):
            return error_answer(403, "cross_site", "the request comes from a page of another site")
        return None

    async def _straight(self, request: Request, neighbours: int) -> Response:
        try:
            return await self.service.answer(request, neighbours)
        except (Refused, Busy) as error:
            return refusal(error)


def error_answer(status: int, code: str, message: str, retry_after: int | None = None, images: Any = None) -> Response:
    """Every error has the same form."""
    body: dict[str, Any] = {"code": code, "message": message}
    if images:
        body["images"] = images
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status, headers)


def refusal(error: Refused | Busy) -> Response:
    """The answer to a request that is not served."""
    if isinstance(error, Busy):
        return error_answer(429, "busy", "the queue is full; try again", error.retry_after)
    return error_answer(error.status, error.code, error.message, error.retry_after, error.images)


def _answer_errors(app: FastAPI) -> None:
    """What went wrong, without a word about this machine."""

    @app.exception_handler(Refused)
    @app.exception_handler(Busy)
    async def refused(request: Request, error: Refused | Busy) -> Response:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        where = ", ".join(sorted({str(item["loc"][-1]) for item in error.errors()}))
        return error_answer(422, "bad_request", f"wrong value of {where}"[:200])

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        words = {404: "there is no such page", 405: "this page does not take that method"}
        response = error_answer(error.status_code, "refused", words.get(error.status_code, "the request was refused"))
        response.headers.update(error.headers or {})
        return response


def _page(make: Callable[[], str]) -> Callable[[], Any]:
    async def show() -> Response:
        return HTMLResponse(make(), headers={"Content-Security-Policy": POLICY})

    return show


def _declare_token(app: FastAPI) -> None:
    """Say in the OpenAPI document that a token is asked for."""
    plain = app.openapi

    def with_token() -> dict[str, Any]:
        document = plain()
        document.setdefault("components", {})["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        return document

    app.openapi = with_token  # type: ignore[method-assign]
