"""Peak memory of a process, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import warp as wp

STATUS = Path("/proc/self/status")


def peak_of_process() -> int | None:
    """Returns the peak resident memory since the start of the process; None if the system does not provide it."""
    if STATUS.exists():  # on Linux, `getrusage` would include the process that started this program
        line = next((line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")), None)
        return None if line is None else 1024 * int(line.split()[1])
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def peak_of_device(device: str) -> int | None:
    """Returns the peak memory that Warp has allocated on a GPU; None for the CPU, or without Warp's memory pool."""
    if wp.get_device(device).is_cpu or not wp.is_mempool_enabled(device):
        return None
    return int(wp.get_mempool_used_mem_high(device))
