"""MP4 film of the whole run (H.264, at the scene's frame rate), with one camera that sees every frame.

Triangles that intersect others are red if the run counts intersections.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from toile.model.frame import Surface
from toile.outputs._film_writer import FilmWriter
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import Writer
from toile.plugins import quantity

# Without these tags, players assume the colors of a small film to be BT.601 and of a large one BT.709.
COLORS = [
    "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
    "-pix_fmt", "yuv420p",
]  # fmt: skip
QUALITY = ["-c:v", "libx264", "-crf", "18", "-movflags", "+faststart"]


class Video(RenderedOutput):
    """Needs imageio-ffmpeg."""

    suffix: ClassVar[str] = ".mp4"

    width: int = quantity(640, unit="pixel", doc="width of the film, even", ge=2, le=8192, multiple_of=2)
    height: int = quantity(480, unit="pixel", doc="height of the film, even", ge=2, le=8192, multiple_of=2)
    samples: int = quantity(2, doc="rays per pixel: smoother edges and shadows", ge=1, le=4096)

    def writer_to(self, path: Path, surface: Surface) -> Writer:
        return FilmWriter(path, surface, self, [*COLORS, *QUALITY])
