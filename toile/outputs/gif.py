"""Animated GIF of the whole run, which repeats itself: for pages that show no film.

Its 256 colors are those that suit the whole film best. Times in a GIF are hundredths of a second, and browsers slow
down what is shorter than two of them: above 50 frames per second only every second frame is in it, or fewer. While the
colors are chosen, the whole film is in memory: 0.7 MB a frame.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

from toile.model.frame import Surface
from toile.outputs._drawing import Drawing
from toile.outputs._ffmpeg import FfmpegWriter
from toile.outputs.base import Writer
from toile.plugins import quantity

FASTEST = 50.0  # [1/s]  frames that browsers show at their own speed
# What does not change between two frames is not stored again. An ordered pattern, because one that spreads errors moves
# over still surfaces.
PALETTE = "split[a][b];[a]palettegen=stats_mode=full[p];[b][p]paletteuse=dither=bayer:bayer_scale=4:diff_mode=rectangle"


class Gif(Drawing):
    """Needs imageio-ffmpeg."""

    suffix: ClassVar[str] = ".gif"

    width: int = quantity(480, unit="pixel", doc="width of the film, even", ge=2, le=2048, multiple_of=2)
    height: int = quantity(360, unit="pixel", doc="height of the film, even", ge=2, le=2048, multiple_of=2)
    samples: int = quantity(2, doc="rays per pixel: smoother edges and shadows", ge=1, le=4096)

    def writer_to(self, path: Path, surface: Surface) -> Writer:
        every = max(1, math.ceil(surface.fps / FASTEST))
        return FfmpegWriter(path, surface, self, ["-filter_complex", PALETTE, "-loop", "0"], every)
