"""A child process that reads its data from a pipe, and may end before it has read all of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import IO, Any


def feed(
    command: list[str], pieces: Iterable[Any], messages: int | IO[bytes], environment: dict[str, str] | None = None
) -> int:
    """Runs a command, writes pieces to its standard input and returns its exit code. `messages` gets its errors."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=messages,
        env=environment,
        process_group=0,  # so that Ctrl-C in the terminal reaches only Toile: an interrupted run completes its files
    )
    assert process.stdin is not None
    try:
        try:
            for piece in pieces:
                process.stdin.write(piece)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the child has ended; its exit code shows it
        return process.wait()
    finally:
        process.kill()  # has no effect on a process that has ended
        process.wait()
