"""MP4 film of the whole run (H.264, at the scene's frame rate), with one camera that sees every frame."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, Spool
from toile.outputs._camera import ground_height
from toile.outputs._drawing import Drawing
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
        self.frames = Spool(path, (surface.vertex_count, 3), np.float32)
        self.lowest = math.inf

    def write(self, frame: Frame) -> None:
        self.frames.append(frame.positions)
        if len(frame.positions):
            self.lowest = min(self.lowest, float(frame.positions[:, 2].min()))

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing():
                self._encode(self._images())
        finally:
            self.frames.close()
        return [self.draft.path]

    def discard(self) -> None:
        self.frames.close()
        self.draft.discard()

    def _images(self) -> Iterator[np.ndarray]:
        camera = self.settings.camera(self.frames.arrays())
        ground = ground_height(self.lowest, camera.distance)
        for positions in self.frames.arrays():
            yield self.raytracer.render(positions, camera, ground)

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
