"""PNG picture of one frame, by default the last, drawn by a small ray tracer with soft shadows.

Triangles that intersect others are red if the run counts intersections.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from toile.errors import InputError
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import Writer
from toile.plugins import quantity
from toile.render.framing import FramingPlanner, ScenePoints
from toile.render.png import png_bytes


class Picture(RenderedOutput):
    """Needs no GPU and no graphics library."""

    suffix: ClassVar[str] = ".png"
    distinct_fields: ClassVar[tuple[str, ...]] = ("frame",)

    frame: int | None = quantity(None, doc="number of the frame; 0 is the start, by default the last", ge=0)

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        """The file name contains the number of a chosen frame, so that several pictures of a run can coexist."""
        return super().writer(folder, name if self.frame is None else f"{name}_{self.frame:04d}", surface)

    def writer_to(self, path: Path, surface: Surface) -> Writer:
        return PictureWriter(path, surface, self)


class PictureWriter(Writer):
    """Keeps the frame to draw, and collects the extent of all frames for the framing."""

    def __init__(self, path: Path, surface: Surface, settings: Picture):
        self.settings, self.surface = settings, surface
        self.raytracer = settings.raytracer(surface)
        self.draft = Draft(path)
        self.planner = FramingPlanner(surface)
        self.last = -1
        self.shown: ScenePoints | None = None
        self.marked: np.ndarray | None = None

    def write(self, frame: Frame) -> None:
        self.last = frame.number
        self.planner.add(frame)
        if self.settings.frame in (None, frame.number):
            solids = [np.array(points) for points in self.surface.solids_at(frame)]
            self.shown = np.array(frame.positions), solids
            self.marked = frame.intersecting

    def close(self) -> list[Path]:
        with self.draft.finishing():
            shown = self.shown
            if shown is None:
                raise InputError(f"no picture of frame {self.settings.frame}: the run has frames 0 to {self.last}.")
            framing = self.planner.plan(lambda: [shown], self.settings.camera)
            self.draft.part.write_bytes(png_bytes(self.raytracer.draw(shown, framing, self.marked)))
        return [self.draft.path]

    def discard(self) -> None:
        self.draft.discard()
