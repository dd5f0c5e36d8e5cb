"""Delays Ctrl-C and SIGTERM while the files of a run are written, so that results are complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Delays Ctrl-C and SIGTERM until the block ends, so that all outputs hold the same whole frames."""
    if not _in_main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
    if received:
        signal.raise_signal(received[0])


@contextlib.contextmanager
def delay_first_interrupt() -> Iterator[list[KeyboardInterrupt]]:
    """Lets the block complete after the first Ctrl-C or SIGTERM, and yields the list that then holds it.

    To draw a film may take longer than the run itself, and is all that is left to do. A second signal ends the block.
    """
    interrupts: list[KeyboardInterrupt] = []
    if not _in_main_thread():
        yield interrupts
        return
    before = {int(number): signal.getsignal(number) for number in STOPPING}

    def collect(number: int, frame: FrameType | None) -> None:
        handler = before[number]
        assert callable(handler)
        try:
            handler(number, frame)
        except KeyboardInterrupt as interrupt:
            if interrupts:
                raise
            interrupts.append(interrupt)

    handled = [number for number, handler in before.items() if callable(handler)]
    for number in handled:
        signal.signal(number, collect)
    try:
        yield interrupts
    finally:
        for number in handled:
            signal.signal(number, before[number])


def _in_main_thread() -> bool:
    """Python delivers signals to the main thread only."""
    return threading.current_thread() is threading.main_thread()
