"""The threads that share the work of large launches on the CPU.

A running kernel releases Python's global lock, so that the ranges of one launch run in parallel. The number of threads
changes no result: no range reads or writes what another writes, and sums are made of partial sums that do not depend on
the ranges.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from toile.errors import InputError


class _Threads:
    """A number of threads: the main one, and a pool of the others."""

    def __init__(self, count: int):
        self.count = count
        self.others = ThreadPoolExecutor(max(1, count - 1), "toile")  # threads start when they are first needed


_threads: _Threads | None = None


def available() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count() -> int:
    """Returns the number of threads in use: set by `use` or by TOILE_THREADS in the environment, or one per core."""
    return _now().count


def use(threads: int) -> None:
    """Sets the number of threads from now on."""
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
    """Runs at most `count()` tasks in parallel; returns when all are done."""
    if len(tasks) == 1:
        tasks[0]()
        return
    others = [_now().others.submit(task) for task in tasks[1:]]
    try:
        tasks[0]()
    finally:
        wait(others)  # also after an error: no thread writes any more when it is raised
    for other in others:
        other.result()


def _start_again() -> None:
    """Replaces the pool in a child process: threads do not survive a fork, and tasks would wait for them forever."""
    global _threads
    if _threads is not None:
        _threads = _Threads(_threads.count)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
