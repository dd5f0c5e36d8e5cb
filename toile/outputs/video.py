"""MP4 film of the whole run (H.264, at the scene's frame rate), with one camera that sees every frame.

Triangles that intersect others are red, in runs that count them.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, Spool
from toile.outputs._drawing import Drawing
from toile.outputs._staging import Shown, Staging
from toile.outputs.base import Writer
from toile.plugins import quantity


class Video(Drawing):
    """Needs imageio-ffmpeg."""

    suffix: ClassVar[str] = ".mp4"

    width: int = quantity(640, unit="pixel", doc="width of the film, even", ge=2, le=8192, multiple_of=2)
    height: int = quantity(480, unit="pixel", doc="height of the film, even", ge=2, le=8192, multiple_of=2)
    samples: int = quantity(2, doc="rays per pixel: smoother edges and shadows", ge=1, le=4096)

    def writer_to(self, path: Path, surface: Surface) -> Writer:
        try:
            import imageio_ffmpeg
        except ImportError as error:
            message = 'output video needs imageio-ffmpeg, which is not installed: pip install "toile[video]"'
            raise InputError(message) from error
        return VideoWriter(path, surface, self, imageio_ffmpeg.get_ffmpeg_exe())


class VideoWriter(Writer):
    """The camera is known only when every frame is, so positions wait in a nameless file and are drawn at the end."""

    def __init__(self, path: Path, surface: Surface, settings: Video, ffmpeg: str):
        self.settings, self.ffmpeg, self.fps = settings, ffmpeg, surface.fps
        self.raytracer = settings.raytracer(surface)
        self.draft = Draft(path)
        self.surface = surface
        self.frames = Spool(path, (surface.vertex_count, 3), np.float32)
        self.ends = np.cumsum([len(solid.rest) for solid in surface.solids])
        self.solids = Spool(path, (int(self.ends[-1]), 3), np.float32) if surface.solids_move else None
        self.staging = Staging(surface)
        self.marked: list[np.ndarray | None] = []  # of each frame

    def write(self, frame: Frame) -> None:
        self.frames.append(frame.positions)
        if self.solids is not None:
            self.solids.append(np.concatenate(self.surface.solids_at(frame)))
        self.staging.see(frame)
        self.marked.append(frame.intersecting)

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing():
                self._encode(self._images())
        finally:
            self._forget()
        return [self.draft.path]

    def discard(self) -> None:
        self._forget()
        self.draft.discard()

    def _forget(self) -> None:
        self.frames.close()
        if self.solids is not None:
            self.solids.close()

    def _images(self) -> Iterator[np.ndarray]:
        stage = self.staging.stage(self._shown, self.settings.camera)
        for shown, marked in zip(self._shown(), self.marked, strict=True):
            yield self.raytracer.draw(shown, stage, marked)

    def _shown(self) -> Iterator[Shown]:
        if self.solids is None:
            at_rest = [solid.rest for solid in self.surface.solids]
            yield from ((cloth, at_rest) for cloth in self.frames.arrays())
        else:
            for cloth, solids in zip(self.frames.arrays(), self.solids.arrays(), strict=True):
                yield cloth, np.split(solids, self.ends[:-1])

    def _encode(self, images: Iterator[np.ndarray]) -> None:
        size = f"{self.settings.width}x{self.settings.height}"
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", repr(self.fps), "-i", "-"]
        # Players take the colours of a small film for BT.601 and of a large one for BT.709 unless they are told.
        tags = [word for tag in ("colorspace", "color_primaries", "color_trc") for word in (f"-{tag}", "bt709")]
        colours = ["-vf", "scale=out_color_matrix=bt709", *tags, "-pix_fmt", "yuv420p"]
        target = ["-c:v", "libx264", "-crf", "18", "-movflags", "+faststart", str(self.draft.part)]
        command = [self.ffmpeg, "-y", "-loglevel", "error", *source, *colours, *target]
        with tempfile.TemporaryFile() as messages:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=messages)
            assert process.stdin is not None
            try:
                try:
                    for image in images:
                        process.stdin.write(image.data)
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # ffmpeg has stopped; it says why below
                status = process.wait()
            finally:
                process.kill()  # does nothing to a process that has ended
                process.wait()
            if status != 0:
                messages.seek(0)
                said = messages.read().decode(errors="replace").strip() or f"exit code {status}"
                raise ToileError(f"{self.draft.path}: ffmpeg could not write the film: {said}")
