"""The threads that share the work of large launches on the CPU.

A kernel that runs holds no lock of Python's, so that ranges of one launch run side by side on as many cores. How many
threads there are changes no result: what one range writes no other reads or writes, and sums are made of parts that do
not depend on the ranges.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from toile.errors import InputError

_pool: ThreadPoolExecutor | None = None
_count: int | None = None


def available() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count() -> int:
    """Threads in use: as many as `use` or the environment variable TOILE_THREADS says, or one for each core."""
    if _count is None:
        given = os.environ.get("TOILE_THREADS")
        if given is None:
            use(available())
        elif not given.isdigit():
            raise InputError(f'TOILE_THREADS = "{given}": must be a number of threads, 1 or more.')
        else:
            use(int(given))
    return _count


def use(threads: int) -> None:
    """From now on so many threads."""
    global _pool, _count
    if threads < 1:
        raise InputError(f"{threads} threads: must be 1 or more.")
    if _pool is not None:
        _pool.shutdown()
    _pool = ThreadPoolExecutor(threads - 1, "toile") if threads > 1 else None
    _count = threads


def together(tasks: Sequence[Callable[[], None]]) -> None:
    """Runs tasks at the same time, at most `count()`; returns when all are done."""
    if len(tasks) == 1:
        tasks[0]()
        return
    others = [_pool.submit(task) for task in tasks[1:]]
    tasks[0]()
    for other in others:
        other.result()
