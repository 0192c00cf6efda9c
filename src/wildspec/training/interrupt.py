"""Ctrl-C while training: the step is finished and a checkpoint written; pressed again, it ends at once.

Only where Python would have raised `KeyboardInterrupt` on the spot: in the main thread, with nobody else's handler set.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupt:
    """``asked``: somebody pressed Ctrl-C, and waits."""

    asked: bool = False


@contextmanager
def patient(wanted: bool = True) -> Iterator[Interrupt]:
    """Note the first Ctrl-C instead of raising it; whoever trains looks at ``asked`` after each step."""
    state = Interrupt()
    mine = threading.current_thread() is threading.main_thread()
    if not wanted or not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield state
        return

    def note(number: int, frame: FrameType | None) -> None:
        if state.asked:
            raise KeyboardInterrupt
        state.asked = True

    signal.signal(signal.SIGINT, note)
    try:
        yield state
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
