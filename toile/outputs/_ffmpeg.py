"""A film encoded by ffmpeg, which runs as a process of its own and gets the pictures through a pipe."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft
from toile.outputs._drawing import Drawing
from toile.outputs._film import Film
from toile.outputs._piped import feed
from toile.outputs.base import Writer


class FfmpegWriter(Writer):
    """One file of all pictures, or of each `every`-th, with what the format asks of ffmpeg."""

    def __init__(self, path: Path, surface: Surface, settings: Drawing, options: list[str], every: int = 1):
        self.ffmpeg = _executable(settings.type_name())
        self.settings, self.options, self.every = settings, options, every
        self.fps = surface.fps / every
        self.film = Film(path, surface, settings)
        self.draft = Draft(path)

    def write(self, frame: Frame) -> None:
        self.film.see(frame)

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing():
                self._encode(self.film.images(self.every))
        finally:
            self.film.close()
        return [self.draft.path]

    def discard(self) -> None:
        self.film.close()
        self.draft.discard()

    def _encode(self, images: Iterator[np.ndarray]) -> None:
        size = f"{self.settings.width}x{self.settings.height}"
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", repr(self.fps), "-i", "-"]
        command = [self.ffmpeg, "-y", "-loglevel", "error", *source, *self.options, str(self.draft.part)]
        with tempfile.TemporaryFile() as messages:
            status = feed(command, (image.data for image in images), messages)
            if status != 0:
                messages.seek(0)
                said = messages.read().decode(errors="replace").strip() or f"exit code {status}"
                raise ToileError(f"{self.draft.path}: ffmpeg could not write the film: {said}")


def _executable(type_name: str) -> str:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        message = f'output {type_name} needs imageio-ffmpeg, which is not installed: pip install "toile[video]"'
        raise InputError(message) from error
    return imageio_ffmpeg.get_ffmpeg_exe()
