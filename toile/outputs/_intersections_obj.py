"""intersections.obj: the triangles that intersect others at the start, one object per cloth, in world space.

A run that starts without intersections writes no file, and removes the one of an earlier run in the same folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, explained
from toile.outputs._obj_text import object_text
from toile.outputs.base import Writer

INTERSECTIONS_NAME = "intersections.obj"


class IntersectionsWriter(Writer):
    """Uses the first frame only."""

    def __init__(self, folder: Path, surface: Surface):
        self.surface = surface
        self.draft = Draft(folder / INTERSECTIONS_NAME)
        self.text = ""

    def write(self, frame: Frame) -> None:
        if frame.number == 0 and frame.intersecting is not None:
            self.text = self._objects(frame.positions, frame.intersecting)

    def close(self) -> list[Path]:
        if not self.text:
            self.draft.discard()
            with explained(self.draft.path):
                self.draft.path.unlink(missing_ok=True)
            return []
        with self.draft.finishing():
            self.draft.part.write_text(self.text, encoding="utf-8", newline="\n")
        return [self.draft.path]

    def discard(self) -> None:
        self.draft.discard()

    def _objects(self, positions: np.ndarray, intersecting: np.ndarray) -> str:
        pieces, first_vertex = [], 1
        for part in self.surface.parts:
            own = intersecting[(intersecting >= part.triangles.start) & (intersecting < part.triangles.stop)]
            if len(own):
                used, corners = np.unique(self.surface.triangles[own], return_inverse=True)
                pieces.append(object_text(part.name, positions[used], corners.reshape(-1, 3) + first_vertex))
                first_vertex += len(used)
        return "".join(pieces)
