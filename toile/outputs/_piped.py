"""A program of its own that gets what it writes through a pipe, and may end before it has taken all of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import IO, Any


def feed(
    command: list[str], pieces: Iterable[Any], messages: int | IO[bytes], environment: dict[str, str] | None = None
) -> int:
    """Its exit code, after all of the pieces or as many as it took. What it says goes to `messages`."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=messages,
        env=environment,
        process_group=0,  # the terminal's Ctrl-C is for us: a run that is stopped completes its files
    )
    assert process.stdin is not None
    try:
        try:
            for piece in pieces:
                process.stdin.write(piece)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has stopped; its exit code says so
        return process.wait()
    finally:
        process.kill()  # does nothing to a process that has ended
        process.wait()
