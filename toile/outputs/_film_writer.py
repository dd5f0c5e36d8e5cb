"""Writer of a film in one file, which ffmpeg encodes."""

from __future__ import annotations

from pathlib import Path

from toile.errors import ToileError
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft
from toile.outputs._film import Film
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import Writer
from toile.render.ffmpeg import EncodingError, encode, find_ffmpeg


class FilmWriter(Writer):
    """One file of all pictures, or of each `every`-th. `options` are those of ffmpeg for the format."""

    def __init__(self, path: Path, surface: Surface, settings: RenderedOutput, options: list[str], every: int = 1):
        self.ffmpeg = find_ffmpeg(f"output {settings.type_name()}")
        self.settings, self.options, self.every = settings, options, every
        self.fps = surface.fps / every
        self.film = Film(path, surface, settings)
        self.draft = Draft(path)

    def write(self, frame: Frame) -> None:
        self.film.add(frame)

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing():
                size = (self.settings.width, self.settings.height)
                encode(self.ffmpeg, self.film.images(self.every), size, self.fps, self.options, self.draft.part)
        except EncodingError as error:
            raise ToileError(f"{self.draft.path}: ffmpeg could not write the film: {error}") from error
        finally:
            self.film.close()
        return [self.draft.path]

    def discard(self) -> None:
        self.film.close()
        self.draft.discard()
