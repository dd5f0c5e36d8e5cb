"""The most memory that a process had, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import warp as wp

STATUS = Path("/proc/self/status")


def peak_of_process() -> int | None:
    """Resident, from the start of the process on; None where the system does not tell."""
    if STATUS.exists():  # the other way, Linux counts what the process was before it became this program
        line = next((line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")), None)
        return None if line is None else 1024 * int(line.split()[1])
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def peak_of_device(device: str) -> int | None:
    """What Warp's arrays and trees took of a GPU at most; None for the CPU, or without a pool that counts."""
    if wp.get_device(device).is_cpu or not wp.is_mempool_enabled(device):
        return None
    return int(wp.get_mempool_used_mem_high(device))
