"""Encoding of films by ffmpeg, a process of its own that reads the pictures from a pipe."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.render.pipe import feed


class EncodingError(Exception):
    """The message of ffmpeg, or its exit code if there is none."""


def find_ffmpeg(user: str) -> str:
    """Returns the path of the executable. Raises an InputError that names its `user` if it is not installed."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        message = f'{user} needs imageio-ffmpeg, which is not installed: pip install "toile[video]"'
        raise InputError(message) from error
    return imageio_ffmpeg.get_ffmpeg_exe()


def encode(
    ffmpeg: str, images: Iterable[np.ndarray], size: tuple[int, int], fps: float, options: list[str], path: Path
) -> None:
    """Writes (height, width, 3) uint8 images as a film. `size` is width and height, `options` are those of ffmpeg."""
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", repr(fps), "-i", "-"]
    command = [ffmpeg, "-y", "-loglevel", "error", *source, *options, str(path)]
    with tempfile.TemporaryFile() as messages:
        status = feed(command, (image.data for image in images), messages)
        if status != 0:
            messages.seek(0)
            raise EncodingError(messages.read().decode(errors="replace").strip() or f"exit code {status}")
