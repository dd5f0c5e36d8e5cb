"""Animated GIF of the whole run, which repeats itself: for pages that show no video.

Its 256 colors are chosen for the whole film. Times in a GIF are hundredths of a second, and browsers slow down frames
shorter than two of them: above 50 frames per second the file contains only every second frame, or fewer. While ffmpeg
chooses the colors, the whole film is in memory: 0.7 MB a frame.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

from toile.model.frame import Surface
from toile.outputs._film_writer import FilmWriter
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import Writer
from toile.plugins import quantity

MAX_FPS = 50.0  # [1/s]  browsers show faster films at another speed
# Only the rectangle that changes between two frames is stored. The dither pattern is ordered, because one that spreads
# errors moves over still surfaces.
PALETTE = "split[a][b];[a]palettegen=stats_mode=full[p];[b][p]paletteuse=dither=bayer:bayer_scale=4:diff_mode=rectangle"


class Gif(RenderedOutput):
    """Needs imageio-ffmpeg."""

    suffix: ClassVar[str] = ".gif"

    width: int = quantity(480, unit="pixel", doc="width of the film, even", ge=2, le=2048, multiple_of=2)
    height: int = quantity(360, unit="pixel", doc="height of the film, even", ge=2, le=2048, multiple_of=2)
    samples: int = quantity(2, doc="rays per pixel: smoother edges and shadows", ge=1, le=4096)

    def writer_to(self, path: Path, surface: Surface) -> Writer:
        every = max(1, math.ceil(surface.fps / MAX_FPS))
        return FilmWriter(path, surface, self, ["-filter_complex", PALETTE, "-loop", "0"], every)
