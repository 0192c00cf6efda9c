"""A process that decodes images for the service, and can be ended in the middle of one. No torch in it: it starts at once.

    ready    one byte, once
    asked    number of images, side S, most pixels an image (three uint32); then each image: its length (uint32) and bytes
    answers  one an image, as soon as it is decoded: 1 and 3 S S bytes of pixels, or 0, a length (uint32) and the reason

The process has a limit of memory, writes no file and starts no program; it ends when its input does.
"""

import contextlib
import struct
import sys
from typing import BinaryIO

from wildspec.data.decode import decode, fit
from wildspec.errors import DataError

READY, ASKED, LENGTH = b"\2", struct.Struct("<III"), struct.Struct("<I")
SPARE_BYTES, BYTES_A_PIXEL = 768 << 20, 48  # a pixel may be there in several forms at a time, 16 bits a channel


def answer(source: BinaryIO, target: BinaryIO) -> None:
    """Answer what is asked on ``source`` until it ends."""
    target.write(READY)
    target.flush()
    while len(head := source.read(ASKED.size)) == ASKED.size:
        count, size, most = ASKED.unpack(head)
        images = [source.read(LENGTH.unpack(source.read(LENGTH.size))[0]) for _ in range(count)]
        _bound_memory(most)
        for data in images:
            try:
                pixels = fit(decode(data, max_pixels=most, side=size), size).transpose(2, 0, 1).tobytes()
                target.write(b"\1" + pixels)
            except (DataError, MemoryError) as error:
                reason = (str(error) or "not enough memory").encode("utf-8", "replace")
                target.write(b"\0" + LENGTH.pack(len(reason)) + reason)
            target.flush()


def main() -> None:
    """Answer standard input on standard output."""
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
            _lower(resource, what, 0)
    with contextlib.suppress(BrokenPipeError):
        answer(sys.stdin.buffer, sys.stdout.buffer)


def _bound_memory(most_pixels: int) -> None:
    with contextlib.suppress(ImportError):
        import resource

        _lower(resource, resource.RLIMIT_AS, SPARE_BYTES + BYTES_A_PIXEL * most_pixels)


def _lower(resource: "object", what: int, limit: int) -> None:
    with contextlib.suppress(ValueError, OSError):  # a system that does not know this limit, or has a lower one
        resource.setrlimit(what, (limit, limit))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
