"""What stands around every service of ours: names, origins, headers, tokens, and errors of one form."""

import hmac
import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wildspec.serving.batcher import Busy
from wildspec.serving.bodies import Refused
from wildspec.serving.hosts import OPEN_PATHS, SAFE_METHODS, Hosts

log = logging.getLogger("wildspec.serve")
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"), (b"x-frame-options", b"DENY")]


class Guard:
    """Adds the safety headers, answers only what is meant for us (`wildspec.serving.hosts`). A defect of ours is logged here
    and told to nobody."""

    def __init__(self, app: ASGIApp, hosts: Hosts, advice: str = "allow it with --allow-host") -> None:
        self.app, self.hosts, self.advice = app, hosts, advice

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
        try:
            if (refused := self._refused(scope)) is not None:
                path = "refused"
                await refused(scope, receive, tell)
            else:
                path = await self.take(scope, receive, tell)
        except ClientDisconnect:
            status = 499  # it hung up; there is nobody to answer
        except Exception:
            log.exception("error while answering %s", path)
            if status:
                raise  # the answer had begun: all that is left is to close the connection
            await error_answer(500, "internal", "an internal error; it was logged")(scope, receive, tell)
        finally:
            self.answered(path, status)

    async def take(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Let the service answer; the path it was found under."""
        await self.app(scope, receive, send)
        return str(getattr(scope.get("route"), "path", "other"))

    def answered(self, path: str, status: int) -> None:
        """Called after every answer."""

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that is meant for another service, or that another one's page has sent."""
        if scope["path"] not in OPEN_PATHS and self.hosts.misdirected(scope["headers"]):
            return error_answer(421, "misdirected", f"this service does not go by that name; {self.advice}")
        if scope["method"] not in SAFE_METHODS and self.hosts.from_elsewhere(scope["headers"]):
            return error_answer(403, "cross_site", "the request comes from a page of another site")
        return None


def check_bearer(request: Request, token: str) -> None:
    """`Refused` where the request does not carry the token."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise Refused(401, "unauthorized", "a bearer token is needed")


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


def answer_errors(app: FastAPI) -> None:
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
