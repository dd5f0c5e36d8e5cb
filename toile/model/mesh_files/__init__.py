"""Readers of mesh files: one format each, all into the same polygons.

Every reader returns a PolygonMesh whose indices are in range, or raises an InputError that describes the problem.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.plugins import nearest

# Reading takes at most about this many bytes of memory per byte of the file (numbers are Python objects meanwhile).
BYTES_PER_FILE_BYTE = 12


@dataclass(frozen=True)
class PolygonMesh:
    """Faces with any number of corners. uv has indices of its own, because a vertex on a seam has several uv."""

    positions: np.ndarray  # (vertices, 3) float64, in the unit of the file
    sizes: np.ndarray  # (faces,) int64: corners of each face
    corners: np.ndarray  # (sum of sizes,) int64: vertex of each corner, face after face
    uv: np.ndarray | None = None  # (texture vertices, 2) float64
    uv_corners: np.ndarray | None = None  # (sum of sizes,) int64: texture vertex of each corner
    groups: dict[str, np.ndarray] = field(default_factory=dict)  # name -> faces
    warnings: tuple[str, ...] = ()


def read(path: Path) -> PolygonMesh:
    """Reads a mesh file by its extension: .obj, .ply, .usd, .usda, .usdc or .usdz."""
    from toile.model.mesh_files import obj, ply, usd  # deferred: they import PolygonMesh from here

    readers = {".obj": obj.read, ".ply": ply.read} | dict.fromkeys((".usd", ".usda", ".usdc", ".usdz"), usd.read)
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise InputError(f'cannot read "{path.name}": not a mesh format that Toile knows.{nearest(suffix, readers)}')
    if not path.exists():
        raise InputError(f"no such file: {path}.{_similar(path)}")
    if not path.is_file():
        raise InputError(f"{path} is {'a directory' if path.is_dir() else 'not a regular file'}. Give a mesh file.")
    try:
        size = path.stat().st_size
        if size == 0:
            raise InputError(f"{path} is empty. Export it again.")
        require_memory(BYTES_PER_FILE_BYTE * size, f"reading {path.name} ({size / 1e6:.0f} MB)")
        return _with_valid_indices(readers[suffix](path), path.name)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    except MemoryError as error:
        raise InputError(f"not enough memory to read {path}.") from error


def available_memory() -> int | None:
    """Returns the memory that this process can still allocate [bytes], or None if the system does not report it."""
    limits = []
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        limits.append(1024 * int(meminfo.split("MemAvailable:")[1].split()[0]))
        # Containers: the limit of the cgroup is not visible in /proc/meminfo.
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError, IndexError):
        pass
    if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits) if limits else None


def require_memory(needed: int, purpose: str) -> None:
    """Raises InputError before anything is allocated if the memory needed [bytes] is not available."""
    available = available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"{purpose} needs about {needed / 1e9:.3g} GB of memory, but only {available / 1e9:.3g} GB are available. "
            "Use a coarser mesh or a larger machine."
        )


def _with_valid_indices(mesh: PolygonMesh, name: str) -> PolygonMesh:
    """Returns the same mesh; raises InputError if a face has too few corners or refers to a missing vertex."""
    if not len(mesh.positions):
        raise InputError(f"{name} has no vertices.")
    if not len(mesh.sizes):
        raise InputError(f"{name} has no faces: points and lines alone are not cloth.")
    if (mesh.sizes < 3).any():
        face = int(np.argmax(mesh.sizes < 3))
        raise InputError(f"{name}: face {face} has {mesh.sizes[face]} corners; a face needs at least 3.")
    if int(mesh.sizes.sum()) != len(mesh.corners):
        raise InputError(f"{name}: the faces declare {mesh.sizes.sum()} corners, but the file has {len(mesh.corners)}.")
    _require_range(mesh.corners, len(mesh.positions), mesh.sizes, "vertex", name)
    if mesh.uv is not None and mesh.uv_corners is not None:
        if len(mesh.uv_corners) != len(mesh.corners):
            raise InputError(f"{name}: {len(mesh.uv_corners)} uv for {len(mesh.corners)} face corners.")
        _require_range(mesh.uv_corners, len(mesh.uv), mesh.sizes, "uv", name)
    return mesh


def _require_range(indices: np.ndarray, count: int, sizes: np.ndarray, what: str, name: str) -> None:
    wrong = (indices < 0) | (indices >= count)
    if wrong.any():
        corner = int(np.argmax(wrong))
        face = int(np.searchsorted(np.cumsum(sizes), corner, side="right"))
        valid = f"the file has {what} 0 to {count - 1}" if count else f"the file has no {what}"
        raise InputError(f"{name}: face {face} refers to {what} {indices[corner]}; {valid} (counted from 0).")


def _similar(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return f" The folder {path.parent} does not exist either." if not path.parent.exists() else ""
    hint = nearest(path.name, siblings)
    return hint if hint.startswith(" Did you mean") else ""
