"""The threads that share the work of large launches on the CPU.

A kernel that runs holds no lock of Python's, so that ranges of one launch run side by side on as many cores. How many
threads there are changes no result: what one range writes no other reads or writes, and sums are made of parts that do
not depend on the ranges.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from toile.errors import InputError


class _Threads:
    """So many, this one included."""

    def __init__(self, count: int):
        self.count = count
        self.others = ThreadPoolExecutor(max(1, count - 1), "toile")  # it makes them when they are first needed


_threads: _Threads | None = None


def available() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count() -> int:
    """Threads in use: as many as `use` or the environment variable TOILE_THREADS says, or one for each core."""
    return _now().count


def use(threads: int) -> None:
    """From now on so many threads."""
    global _threads
    if threads < 1:
        raise InputError(f"{threads} threads: must be 1 or more.")
    if _threads is not None:
        _threads.others.shutdown()
    _threads = _Threads(threads)


def _now() -> _Threads:
    if _threads is None:
        given = os.environ.get("TOILE_THREADS", str(available()))
        if not given.isdigit():
            raise InputError(f'TOILE_THREADS = "{given}": must be a number of threads, 1 or more.')
        use(int(given))
    assert _threads is not None
    return _threads


def together(tasks: Sequence[Callable[[], None]]) -> None:
    """Runs tasks at the same time, at most `count()`; returns when all are done."""
    if len(tasks) == 1:
        tasks[0]()
        return
    others = [_now().others.submit(task) for task in tasks[1:]]
    try:
        tasks[0]()
    finally:
        wait(others)  # also after an error: nobody writes any more when it is told
    for other in others:
        other.result()
