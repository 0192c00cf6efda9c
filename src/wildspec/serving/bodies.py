"""From the body of a request to encoded images: read within limits, take the images out. Every fault is the client's.

Three forms: ``multipart/form-data`` with files, ``application/json`` with base64, or one image as the body itself.
Nothing in an error names a path, a Python class or a file of this machine.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

NAME_CHARACTERS = 200  # of an upload's own name, given back in the answer
OTHER_PARTS = 64  # of a multipart body that are no files; they are ignored, but not without end


class Refused(Exception):
    """A request that gets a 4xx or 503 answer. ``code``: a word for programs; ``images``: which ones, and why."""

    def __init__(
        self, status: int, code: str, message: str, *, retry_after: int | None = None, images: list[dict] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after, self.images = status, code, message, retry_after, images


@dataclass(frozen=True)
class Upload:
    """An encoded image and what the client calls it."""

    name: str
    data: bytes


class Memory:
    """Bytes of bodies and answers being held, all requests together; a request that would exceed the budget is refused."""

    def __init__(self, budget: int) -> None:
        self.budget, self.held = budget, 0

    def take(self, size: int) -> None:
        if self.held + size > self.budget:
            raise Refused(503, "busy", "too much is being sent at once; try again", retry_after=1)
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size


async def read_body(stream: AsyncIterator[bytes], declared: str | None, limit: int, seconds: float, memory: Memory) -> bytes:
    """The whole body, if it is small enough, arrives in time and there is room for it. The caller gives the memory back."""
    too_large = Refused(413, "too_large", f"the body has more than {limit:,} bytes")
    if declared is not None and declared.isdecimal() and int(declared) > limit:
        raise too_large
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in stream:
                memory.take(len(chunk))
                total += len(chunk)
                if total > limit:
                    raise too_large
                parts.append(chunk)
    except BaseException as error:
        memory.give_back(total)
        if isinstance(error, TimeoutError):
            raise Refused(408, "too_slow", f"the body did not arrive within {seconds:g} s") from None
        raise
    return b"".join(parts)


def take_images(body: bytes, content_type: str | None, most: int) -> list[Upload]:
    """The encoded images in a body."""
    kind, options = parse_options_header(content_type or "")
    if kind == b"multipart/form-data":
        uploads = _from_multipart(body, options.get(b"boundary", b""), most)
    elif kind == b"application/json" or kind.endswith(b"+json"):
        uploads = _from_json(body, most)
    elif kind.startswith(b"image/") or kind == b"application/octet-stream":
        uploads = [Upload("image", body)]
    else:
        raise Refused(415, "unsupported", "send multipart/form-data, application/json or an image/* body")
    if not uploads:
        raise Refused(422, "no_images", "the request holds no image")
    if len(uploads) > most:
        raise Refused(413, "too_many", f"at most {most} images a request, got {len(uploads)}")
    return uploads


def bad_images(code: str, why: str, failed: list[dict[str, Any]], count: int) -> Refused:
    """A request is answered as a whole: which images are in the way, and what to do about them."""
    if count == 1:
        return Refused(422, code, f"the image {why}: {failed[0]['reason']}", images=failed)
    told = f"{len(failed)} of {count} images {why}, and none was judged; leave out those listed here and ask again"
    return Refused(422, code, told, images=failed)


def _from_json(body: bytes, most: int) -> list[Upload]:
    """Base64 has no quotes, commas or brackets: a body with many more of them than images is refused before it is parsed,
    since ten million empty strings would cost seconds and gigabytes."""
    if body.count(b'"') > 2 * most + 2:
        raise Refused(413, "too_many", f"at most {most} images a request")
    if sum(map(body.count, (b"[", b"{", b","))) > 2 * most + 2:
        raise Refused(422, "bad_request", 'expected {"images": ["BASE64", ...]}')
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "bad_json", "the body is not JSON") from None
    given = value.get("images") if isinstance(value, dict) else None
    if isinstance(value, dict) and set(value) - {"images"}:
        raise Refused(422, "bad_request", 'expected {"images": ["BASE64", ...]} and nothing else')
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise Refused(422, "bad_request", 'expected {"images": ["BASE64", ...]}')
    uploads: list[Upload] = []
    failed: list[dict[str, Any]] = []
    for i, text in enumerate(given):
        if text.startswith("data:"):
            text = text.partition(",")[2]
        try:
            uploads.append(Upload(f"image {i}", base64.b64decode(text, validate=True)))
        except (binascii.Error, ValueError):
            failed.append({"index": i, "name": f"image {i}", "reason": "not base64"})
    if failed:
        raise bad_images("bad_base64", "cannot be read", failed, len(given))
    return uploads


def _from_multipart(body: bytes, boundary: bytes, most: int) -> list[Upload]:
    """The file parts; other fields are ignored. In memory: the body is small already."""
    uploads: list[Upload] = []
    headers: dict[bytes, bytes] = {}
    field, value, content = bytearray(), bytearray(), bytearray()
    parts, ended = 0, False

    def begin() -> None:
        nonlocal parts
        parts += 1
        if parts > most + OTHER_PARTS:
            raise Refused(413, "too_many", f"at most {most} images a request")
        headers.clear()
        content.clear()

    def header_end() -> None:
        headers[bytes(field).lower()] = bytes(value)
        field.clear()
        value.clear()

    def part_end() -> None:
        _, options = parse_options_header(headers.get(b"content-disposition", b""))
        if b"filename" in options:
            name = options[b"filename"].decode("utf-8", "replace")[:NAME_CHARACTERS]
            uploads.append(Upload(name or f"image {len(uploads)}", bytes(content)))
            if len(uploads) > most:
                raise Refused(413, "too_many", f"at most {most} images a request")

    def end() -> None:
        nonlocal ended
        ended = True

    callbacks: Any = {
        "on_part_begin": begin,
        "on_part_data": lambda data, a, b: content.extend(data[a:b]),
        "on_part_end": part_end,
        "on_header_field": lambda data, a, b: field.extend(data[a:b]),
        "on_header_value": lambda data, a, b: value.extend(data[a:b]),
        "on_header_end": header_end,
        "on_end": end,
    }
    try:
        if not boundary:
            raise FormParserError("no boundary")
        MultipartParser(boundary, callbacks).write(body)
    except (FormParserError, ValueError):
        raise Refused(400, "bad_multipart", "the multipart body is malformed") from None
    if not ended:
        raise Refused(400, "bad_multipart", "the multipart body ends too early")
    return uploads
