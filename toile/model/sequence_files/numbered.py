"""Reader of one file per frame: body_0001.obj, body_0002.obj, ... given as `body_####.obj` or `body_*.obj`.

Frames run from the smallest number found to the largest without gaps. Faces are those of the first frame.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path, PurePosixPath

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import read as read_mesh
from toile.model.mesh_files import require_memory
from toile.model.mesh_files.scene_path import resolve_scene_path
from toile.model.mesh_files.triangulate import triangulate
from toile.model.sequence_files import FrameFile

SUFFIXES = (".obj", ".ply")
WILD = re.compile(r"#+|\*")


def is_pattern(name: str) -> bool:
    return WILD.search(name) is not None


def read(folder: Path, file: str, allow_outside: bool) -> FrameFile:
    pattern = resolve_scene_path(folder, file, allow_outside)
    names = _names(pattern)
    # Each file is resolved by itself: any of them may be a link out of the folder.
    above = PurePosixPath(file.replace("\\", "/")).parent
    paths = [resolve_scene_path(folder, str(above / name), allow_outside) for name in names]
    first = read_mesh(paths[0])
    count = len(first.positions)
    require_memory(24 * count * len(paths), f"reading {len(paths)} frames of {pattern.name}")
    positions = np.empty((len(paths), count, 3))
    positions[0] = first.positions
    for frame, path in enumerate(paths[1:], 1):
        x = _positions(path)
        if len(x) != count:
            raise InputError(
                f"{names[frame]} has {len(x)} vertices, but {names[0]} has {count}; all frames need the same vertices."
            )
        positions[frame] = x
    corner, _ = triangulate(first)
    return FrameFile(positions, triangles=first.corners[corner].astype(np.int32))


def _names(pattern: Path) -> list[str]:
    """Returns file names in the order of their numbers."""
    wild = WILD.findall(pattern.name)
    if len(wild) != 1 or pattern.suffix.lower() not in SUFFIXES:
        raise InputError(f'"{pattern.name}": numbered frames have one # or * and end in {" or ".join(SUFFIXES)}.')
    before, after = pattern.name.split(wild[0])
    digits = len(wild[0]) if wild[0] != "*" else 1
    number = re.compile(rf"{re.escape(before)}([0-9]{{{digits},}}){re.escape(after)}")
    if not pattern.parent.is_dir():
        raise InputError(f"no such folder: {pattern.parent}.")
    found: dict[int, str] = {}
    for name in sorted(entry.name for entry in pattern.parent.iterdir()):
        if match := number.fullmatch(name):
            frame = int(match[1])
            if frame in found:
                raise InputError(f"{found[frame]} and {name} are both frame {frame}. Remove one of them.")
            found[frame] = name
    if not found:
        raise InputError(f"no file matches {pattern.name} ({wild[0]} stands for a number) in {pattern.parent}.")
    frames = sorted(found)
    for one, two in itertools.pairwise(frames):
        if two != one + 1:
            width = len(found[one]) - len(before) - len(after)
            raise InputError(
                f"{before}{one + 1:0{width}}{after} is missing: {found[one]} is followed by {found[two]} "
                f"({frames[-1] - frames[0] + 1 - len(frames)} missing in all)."
            )
    return [found[frame] for frame in frames]


def _positions(path: Path) -> np.ndarray:
    """Reads the vertices of a frame. Plain OBJ files are searched for vertices only, which is several times faster."""
    if path.suffix.lower() == ".obj" and path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
        vertices = [tokens[1:4] for line in text.splitlines() if (tokens := line.split(None, 4)) and tokens[0] == "v"]
        if vertices and "\\" not in text and "\0" not in text:
            try:
                return np.array(vertices, np.float64).reshape(len(vertices), 3)
            except ValueError:
                pass  # the reader reports the problem and its line
    return read_mesh(path).positions
