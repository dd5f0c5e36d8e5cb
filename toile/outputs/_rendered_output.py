"""Base class of pictures and films: size, samples and camera."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from toile.model.frame import Surface
from toile.outputs._names import file_name
from toile.outputs.base import Output, Writer
from toile.plugins import quantity
from toile.render.camera import Camera, frame_camera

if TYPE_CHECKING:
    from toile.render.raytracer import RayTracer

Point = tuple[float, float, float]


class RenderedOutput(Output):
    """An output that the ray tracer draws, with its settings."""

    suffix: ClassVar[str]  # of the file name

    width: int = quantity(1024, unit="pixel", doc="width of the picture", ge=2, le=16384, multiple_of=2)
    height: int = quantity(768, unit="pixel", doc="height of the picture", ge=2, le=16384, multiple_of=2)
    samples: int = quantity(4, doc="rays per pixel: smoother edges and shadows", ge=1, le=4096)
    look_at: Point | None = quantity(None, unit="m", doc="point in the middle of the picture; by default the cloth")
    look_from: Point | None = quantity(None, unit="m", doc="position of the camera; by default all cloth is visible")
    fov: float = quantity(30.0, unit="deg", doc="vertical angle of view", gt=0, lt=170)
    device: str = quantity("cpu", doc="device that draws: cpu or cuda")

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return self.writer_to(folder / f"{file_name(name)}{self.suffix}", surface)

    def writer_to(self, path: Path, surface: Surface) -> Writer:
        """Like `writer`, for a file name that the user chose."""
        raise NotImplementedError

    def raytracer(self, surface: Surface) -> RayTracer:
        from toile.render.raytracer import RayTracer

        return RayTracer(surface, self.width, self.height, self.samples, self.device)

    def camera(self, frames: Iterable[np.ndarray]) -> Camera:
        return frame_camera(frames, self.width / self.height, self.fov, self.look_at, self.look_from)
