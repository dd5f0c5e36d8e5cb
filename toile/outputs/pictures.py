"""PNG sequence: pictures/NAME_0000.png is the start state, then one picture per frame, with one camera for all.

Triangles that intersect others are red if the run counts intersections.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import explained
from toile.outputs._file_sequence import FileSequence
from toile.outputs._film import Film
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import Writer
from toile.plugins import quantity
from toile.render.png import png_bytes


class Pictures(RenderedOutput):
    """Needs no GPU and no graphics library."""

    suffix: ClassVar[str] = ".png"

    width: int = quantity(640, unit="pixel", doc="width of the pictures", ge=2, le=16384, multiple_of=2)
    height: int = quantity(480, unit="pixel", doc="height of the pictures", ge=2, le=16384, multiple_of=2)
    samples: int = quantity(2, doc="rays per pixel: smoother edges and shadows", ge=1, le=4096)

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return PicturesWriter(folder / "pictures", name, surface, self)


class PicturesWriter(Writer):
    """Draws the pictures at the end, when every frame is known."""

    def __init__(self, folder: Path, name: str, surface: Surface, settings: Pictures):
        self.film = Film(folder, surface, settings)
        self.files = FileSequence(folder, name, settings.suffix)

    def write(self, frame: Frame) -> None:
        self.film.add(frame)

    def close(self) -> list[Path]:
        try:
            with explained(self.files.draft.path):
                for number, image in zip(self.film.numbers, self.film.images(), strict=True):
                    self.files.add(number, [png_bytes(image)])
            return self.files.close()
        except BaseException:
            self.files.discard()
            raise
        finally:
            self.film.close()

    def discard(self) -> None:
        self.film.close()
        self.files.discard()
