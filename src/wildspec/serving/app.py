"""The HTTP service: routes, OpenAPI, errors and headers around a `Service`.

    app = create_app(engine, Limits(), token=None)
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wildspec._version import __version__
from wildspec.serving import schemas
from wildspec.serving.batcher import Busy
from wildspec.serving.bodies import Refused
from wildspec.serving.engine import Engine
from wildspec.serving.guard import Guard, answer_errors, refusal
from wildspec.serving.hosts import Hosts
from wildspec.serving.service import Limits, Service
from wildspec.serving.web import POLICY, docs_page, index_page

__all__ = ["Limits", "create_app"]
_SHORT = re.compile(rb"(?:neighbours=(1?[0-9]|20))?")
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
    for probe in (service.healthz, service.readyz):  # monitors that ask for the status alone
        app.add_api_route(f"/{probe.__name__}", probe, methods=["HEAD"], include_in_schema=False)
    route("/metrics", service.metrics, "service", {200: counters, **guarded}, openapi_extra=extra or None,
          response_class=Response)  # fmt: skip
    app.add_api_route("/", page(lambda: index_page(token is not None)), include_in_schema=False)
    app.add_api_route("/docs", page(lambda: docs_page(app.openapi(), token is not None)), include_in_schema=False)
    if token is not None:
        _declare_token(app)
    answer_errors(app)
    app.add_middleware(Around, service=service, hosts=Hosts(hosts))
    return app


class Around(Guard):
    """Counts every answer.

    A predict request without parameters, or with ``neighbours`` alone, is taken straight to the service: matching routes and
    parameters in the framework costs more than everything else the request needs of the event loop.
    """

    def __init__(self, app: ASGIApp, service: Service, hosts: Hosts) -> None:
        super().__init__(app, hosts)
        self.service = service

    async def take(self, scope: Scope, receive: Receive, send: Send) -> str:
        path = str(scope["path"])
        short = _SHORT.fullmatch(scope["query_string"]) if path == "/v1/predict" and scope["method"] == "POST" else None
        if short is None:
            return await super().take(scope, receive, send)
        response = await self._straight(Request(scope, receive), int(short[1] or 3))
        await response(scope, receive, send)
        return path

    def answered(self, path: str, status: int) -> None:
        self.service.meters.requests.labels(path, str(status)).inc()

    async def _straight(self, request: Request, neighbours: int) -> Response:
        try:
            return await self.service.answer(request, neighbours)
        except (Refused, Busy) as error:
            return refusal(error)


def page(make: Callable[[], str]) -> Callable[[], Any]:
    """A handler that answers with a page of ours."""

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
