"""Readers of meshes that move vertex by vertex: one format each, all into the same arrays.

    body.npz         arrays `positions` (frames, vertices, 3) and optionally `triangles` and `fps`; Toile's own format
    body.pc2         positions only
    body.usd...      points of every mesh at its time samples, placed by its transforms
    body_####.obj    one file per frame, # for a digit or * for any number of digits; .ply likewise

Frame 0 is the first one in the file, whatever its time there. vertex_sequence.py checks that numbers are finite and
that the number of vertices matches the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files.scene_path import resolve_scene_path
from toile.plugins import nearest


@dataclass(frozen=True)
class FrameFile:
    """Content of a sequence file."""

    positions: np.ndarray  # [m]  (frames, vertices, 3) float32 or float64, at least one of each
    fps: float | None = None  # [1/s]  None if the file does not have it
    triangles: np.ndarray | None = None  # (triangles, 3) int32, None if the file does not have them
    warnings: tuple[str, ...] = ()


def read_sequence(folder: Path, file: str, allow_outside: bool = False, *, scale: float = 1.0) -> FrameFile:
    """Reads all frames of a file or of numbered files under `folder`; `scale` is meters per unit of the file."""
    from toile.model.sequence_files import npz, numbered, pc2, usd  # deferred: they import FrameFile from here

    path = resolve_scene_path(folder, file, allow_outside)
    suffix = path.suffix.lower()
    readers = {".npz": npz.read, ".pc2": pc2.read} | dict.fromkeys((".usd", ".usda", ".usdc", ".usdz"), usd.read)
    try:
        if numbered.is_pattern(path.name):
            frames = numbered.read(folder, file, allow_outside)
        elif suffix in readers:
            _require_file(path)
            frames = readers[suffix](path)
        else:
            raise InputError(_unknown(path, [*readers, *numbered.SUFFIXES]))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    except MemoryError as error:
        raise InputError(f"not enough memory to read {path}.") from error
    if scale == 1.0:
        return frames
    with np.errstate(over="ignore"):  # infinite values are reported later, with frame and vertex
        return replace(frames, positions=scale * frames.positions)


def _require_file(path: Path) -> None:
    if not path.exists():
        raise InputError(f"no such file: {path}.")
    if not path.is_file():
        raise InputError(f"{path} is {'a directory' if path.is_dir() else 'not a regular file'}. Give a sequence file.")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty. Export it again.")


def _unknown(path: Path, known: list[str]) -> str:
    if path.suffix.lower() in (".obj", ".ply"):
        return f'"{path.name}" is a single frame. Name all of them, such as "{path.stem}_####{path.suffix}".'
    return f'cannot read "{path.name}": not a sequence format that Toile knows.{nearest(path.suffix.lower(), known)}'
