"""What outputs of many pictures have in common: one camera that sees every frame, and the pictures in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Spool
from toile.outputs._drawing import Drawing
from toile.outputs.base import advanced
from toile.render.framing import FramingPlanner, ScenePoints


class Film:
    """The camera is known only when every frame is, so positions wait in a nameless file and are drawn at the end."""

    def __init__(self, path: Path, surface: Surface, settings: Drawing):
        """The nameless file is beside `path`."""
        self.settings, self.surface = settings, surface
        self.raytracer = settings.raytracer(surface)
        self.planner = FramingPlanner(surface)
        self.numbers: list[int] = []
        self.marked: list[np.ndarray | None] = []  # of each frame
        self.ends = np.cumsum([len(solid.rest) for solid in surface.solids])
        self.cloths = Spool(path, (surface.vertex_count, 3), np.float32)
        self.solids = Spool(path, (int(self.ends[-1]), 3), np.float32) if surface.solids_move else None

    def see(self, frame: Frame) -> None:
        self.cloths.append(frame.positions)
        if self.solids is not None:
            self.solids.append(np.concatenate(self.surface.solids_at(frame)))
        self.planner.add(frame)
        self.numbers.append(frame.number)
        self.marked.append(frame.intersecting)

    def images(self, every: int = 1) -> Iterator[np.ndarray]:
        """(height, width, 3) uint8 of each frame, or of each `every`-th."""
        framing = self.planner.plan(self._shown, self.settings.camera)
        count = -(-len(self.numbers) // every)
        drawn = islice(zip(self._shown(), self.marked, strict=True), 0, None, every)
        for number, (shown, marked) in enumerate(drawn):
            advanced("frames drawn", number, count)
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
