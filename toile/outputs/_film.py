"""The pictures of a whole run, with one camera that sees every frame."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Spool
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import report_progress
from toile.render.framing import FramingPlanner, ScenePoints


class Film:
    """Stores positions in an unnamed file and draws them at the end: the camera depends on every frame."""

    def __init__(self, path: Path, surface: Surface, settings: RenderedOutput):
        """The unnamed file is in the folder of `path`."""
        self.settings, self.surface = settings, surface
        self.raytracer = settings.raytracer(surface)
        self.planner = FramingPlanner(surface)
        self.numbers: list[int] = []
        self.marked: list[np.ndarray | None] = []  # triangles to mark, of each frame
        self.ends = np.cumsum([len(solid.rest) for solid in surface.solids])
        self.cloths = Spool(path, (surface.vertex_count, 3), np.float32)
        self.solids = Spool(path, (int(self.ends[-1]), 3), np.float32) if surface.solids_move else None

    def add(self, frame: Frame) -> None:
        self.cloths.append(frame.positions)
        if self.solids is not None:
            self.solids.append(np.concatenate(self.surface.solids_at(frame)))
        self.planner.add(frame)
        self.numbers.append(frame.number)
        self.marked.append(frame.intersecting)

    def images(self, every: int = 1) -> Iterator[np.ndarray]:
        """Draws each frame, or each `every`-th, as (height, width, 3) uint8."""
        framing = self.planner.plan(self._shown, self.settings.camera)
        count = -(-len(self.numbers) // every)
        drawn = islice(zip(self._shown(), self.marked, strict=True), 0, None, every)
        for number, (shown, marked) in enumerate(drawn):
            report_progress("frames drawn", number, count)
            yield self.raytracer.draw(shown, framing, marked)

    def close(self) -> None:
        self.cloths.close()
        if self.solids is not None:
            self.solids.close()

    def _shown(self) -> Iterator[ScenePoints]:
        if self.solids is None:
            at_rest = [solid.rest for solid in self.surface.solids]
            yield from ((cloth, at_rest) for cloth in self.cloths.arrays())
        else:
            for cloth, solids in zip(self.cloths.arrays(), self.solids.arrays(), strict=True):
                yield cloth, np.split(solids, self.ends[:-1])
