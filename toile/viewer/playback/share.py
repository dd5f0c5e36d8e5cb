"""A run as one HTML file, which opens without a server, without a network and without Toile.

This is not viser's own recording, which replays everything to go back one frame, shows neither frame numbers nor the
certificate, contains 0.8 MB of client code, and needs a server to be made. The page (share_page.html) has 15 kB.

Positions are 16-bit steps in their bounding box, so they are exact to 1/131070 of its sides: 0.01 mm in 1.3 m. Most
change little from frame to frame, and their differences compress well:

    data      base64(deflate(triangles, still, frame, frame, ...))
    triangles 3 x uint32 each, indices of the moving vertices and then of the still ones
    still     3 x float32 each [m]
    frame     z = zigzag(q - q of the previous frame) of every moving coordinate, low bytes first, then high bytes

Symbols     q  steps from the low corner of the box     zigzag(d) = 2 d if d >= 0, else -2 d - 1, in 16 bits
"""

from __future__ import annotations

import base64
import html
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from toile.errors import InputError, SceneError
from toile.outputs._atomic import Draft
from toile.outputs._names import file_name
from toile.outputs.base import report_progress
from toile.render.solid_mesh import split_sharp
from toile.viewer.draw.palette import BACKGROUND, CLOTHS, FLAGGED, SERIES, SOLID
from toile.viewer.draw.scene_drawing import FIELD_OF_VIEW, with_bounded_floor
from toile.viewer.draw.text import number
from toile.viewer.playback.flagged_frames import frame_numbers
from toile.viewer.playback.recording import Recording

PAGE = Path(__file__).with_name("share_page.html")

# Larger files are a problem for mail and some browsers. [bytes]
COMFORTABLE = 50_000_000

STEPS = 65535
NOTHING = (np.full(3, np.inf), np.full(3, -np.inf))
EMPTY = (np.zeros(3), np.zeros(3))
# Direction of the camera: towards +y and a little to the left, from above [rad]
TURN, TILT = math.radians(-60.0), math.radians(20.0)

CHART_WIDTH, CHART_HEIGHT = 1000, 44
CURVES = dict(zip(("warp_max", "weft_max", "edge_max"), SERIES, strict=False))


@dataclass(frozen=True)
class SharedFile:
    """The file that was written."""

    path: Path
    size: int  # [bytes]
    frames: int  # number of frames in it
    without: str  # reason why it has no certificate, or ""


def share_run(
    run: Path | str, out: Path | str | None = None, every: int = 1, max_frames: int | None = None
) -> SharedFile:
    """Writes a run as one HTML file, by default under its name into its folder.

    The file contains each `every`-th frame, and at most `max_frames`; it always contains the first and the last.
    """
    recording = Recording(Path(run))
    try:
        path = recording.folder if out is None else Path(out)
        if path.is_dir():
            path = path / f"{file_name(recording.name)}.html"
        if path.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"{path}: a shared run is a page: give a name that ends in .html, or a folder.")
        if not recording.frame_count:
            raise InputError(f"{recording.folder}: it contains no complete frame yet.")
        shown = chosen_frames(recording.frame_count, every, max_frames)
        draft = Draft(path)
        with draft.finishing(), draft.part.open("w", encoding="utf-8", newline="\n") as file:
            _write(file, recording, shown)
        without = recording.message if recording.report is None else ""
        return SharedFile(path, path.stat().st_size, len(shown), without)
    finally:
        recording.close()


def chosen_frames(count: int, every: int, max_frames: int | None) -> list[int]:
    """Returns the frames to include, always with the first and the last."""
    frames = [*range(0, count - 1, every), count - 1]
    if max_frames is not None and max_frames < len(frames):
        frames = [frames[round(i)] for i in np.linspace(0, len(frames) - 1, max(max_frames, 2))]
    return frames


def _write(file: IO[str], recording: Recording, shown: Sequence[int]) -> None:
    pool = _VertexPool(recording)
    (low, high), visible = _boxes(pool, shown)
    step = np.where(high > low, (high - low) / STEPS, 1.0)
    about = {
        "name": recording.name,
        "message": recording.message,
        "fps": recording.fps,
        "frames": list(shown),
        "triangles": len(pool.triangles),
        "still": len(pool.still),
        "moving": pool.moving,
        "low": low.tolist(),
        "step": step.tolist(),
        "objects": pool.objects,
        "background": BACKGROUND,
        "camera": _camera(*visible),
        "certificate": _certificate(recording),
        "flagged": [(flagged.worst, str(flagged)) for flagged in recording.flagged()],
    }
    before, after = PAGE.read_text(encoding="utf-8").split("@DATA@")
    # A closing tag inside the text would end the script that holds it.
    text = json.dumps(about, allow_nan=False).replace("<", "\\u003c")
    before = before.replace("@TITLE@", html.escape(recording.name)).replace("@CHART@", _chart(recording))
    file.write(before.replace("@ABOUT@", text))
    for piece in _base64(_packed(pool, shown, low, step)):
        file.write(piece)
    file.write(after)


class _VertexPool:
    """The vertices of cloths and solids in one array, moving ones first, and the triangles."""

    def __init__(self, recording: Recording):
        self.recording = recording
        surface = recording.surface
        colors = CLOTHS * (1 + len(surface.parts) // len(CLOTHS))
        self.objects = [
            {"name": part.name, "triangles": part.triangles.stop - part.triangles.start, "color": color}
            for part, color in zip(surface.parts, colors, strict=False)
        ]
        triangles = [surface.triangles]
        still = [np.zeros((0, 3))]
        self._origins: dict[int, np.ndarray] = {}  # the vertices of each moving solid
        self.moving = count = surface.vertex_count
        # Moving solids come first; the sort is stable.
        for i, solid in sorted(enumerate(surface.solids), key=lambda item: not item[1].moves):
            origin, corners = split_sharp(solid.rest, solid.triangles)
            if solid.moves:
                self._origins[i] = origin
                self.moving += len(origin)
            else:
                still.append(with_bounded_floor(solid, surface.rest)[origin])
            triangles.append(corners + count)
            count += len(origin)
            self.objects.append({"name": solid.name, "triangles": len(corners), "color": SOLID})
        self.still, self.triangles = np.concatenate(still), np.concatenate(triangles)

    def cloth(self, frame: int) -> np.ndarray:
        return self.recording.positions(frame)

    def at(self, frame: int) -> np.ndarray:
        """Returns the positions of the moving vertices."""
        solids = self.recording.solids(frame)
        return np.concatenate([self.cloth(frame), *(solids[i][origin] for i, origin in self._origins.items())])


Box = tuple[np.ndarray, np.ndarray]  # its low and its high corner


def _boxes(pool: _VertexPool, shown: Sequence[int]) -> tuple[Box, Box]:
    """Bounding boxes over the frames: of all moving vertices, and of the cloth, or of everything without cloth."""
    moving, cloth = NOTHING, NOTHING
    for frame in shown:
        points = pool.at(frame)
        if not np.isfinite(points).all():
            raise InputError(f"{pool.recording.folder}: frame {frame} has positions that are not finite.")
        moving, cloth = _with(moving, points), _with(cloth, pool.cloth(frame))
    visible = next((box for box in (cloth, _with(moving, pool.still)) if box is not NOTHING), EMPTY)
    return (EMPTY if moving is NOTHING else moving), visible


def _with(box: Box, points: np.ndarray) -> Box:
    if not len(points):
        return box
    return np.minimum(box[0], points.min(axis=0)), np.maximum(box[1], points.max(axis=0))


def _camera(low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """A camera that sees the bounding sphere of a box."""
    radius = 0.5 * float(np.linalg.norm(high - low)) or 1.0
    at = 0.5 * (low + high)
    return {
        "at": at.tolist(),
        "far": radius / math.sin(0.5 * FIELD_OF_VIEW),
        "turn": TURN,
        "tilt": TILT,
        "fov": FIELD_OF_VIEW,
    }


def _packed(pool: _VertexPool, shown: Sequence[int], low: np.ndarray, step: np.ndarray) -> Iterator[bytes]:
    packer = zlib.compressobj(6)
    yield packer.compress(np.ascontiguousarray(pool.triangles, "<u4").tobytes())
    yield packer.compress(np.ascontiguousarray(pool.still, "<f4").tobytes())
    before = np.zeros((pool.moving, 3), np.uint16)
    for i, frame in enumerate(shown):
        q = np.clip(np.rint((pool.at(frame).astype(float) - low) / step), 0, STEPS).astype(np.uint16)
        d = (q - before).view(np.int16)  # modulo 2^16, as the page adds them
        z = ((d << 1) ^ (d >> 15)).view(np.uint16).ravel()
        yield packer.compress((z & 0xFF).astype(np.uint8).tobytes() + (z >> 8).astype(np.uint8).tobytes())
        before = q
        report_progress("frame", i + 1, len(shown))
    yield packer.flush()


def _base64(pieces: Iterator[bytes]) -> Iterator[str]:
    """Encodes pieces without padding in between: every piece but the last is a multiple of three bytes."""
    left = b""
    for piece in pieces:
        left += piece
        whole = len(left) - len(left) % 3
        yield base64.b64encode(left[:whole]).decode("ascii")
        left = left[whole:]
    yield base64.b64encode(left).decode("ascii")


def _certificate(recording: Recording) -> list[list[str]]:
    """Rows of name, value, expectation, and whether it is met."""
    try:
        findings = recording.findings()
    except SceneError:  # a certificate of another version
        findings = []
    rows = [[f.key, number(f.value), f.bound, "met" if f.ok else "not met"] for f in findings]
    return rows + [[key, number(value), "", ""] for key, value in recording.values_besides(findings)]


def _chart(recording: Recording) -> str:
    """The largest strain over the frames as SVG, above the scrubber; flagged frames have a red bar at the bottom."""
    last = recording.frame_count - 1
    values = {name: [(e.get("strain") or {}).get(name) for e in recording.entries] for name in CURVES}
    largest = max((v for row in values.values() for v in row if v is not None), default=0.0)
    if last < 1 or not largest > 0.0:
        return ""
    x = [CHART_WIDTH * entry["frame"] / last for entry in recording.entries]
    lines = []
    for name, color in CURVES.items():
        points = [
            f"{at:.1f},{CHART_HEIGHT * (1.0 - 0.9 * value / largest):.1f}"
            for at, value in zip(x, values[name], strict=True)
            if value is not None
        ]
        lines.append(f'<polyline points="{" ".join(points)}" stroke="{color}"/>')
    width = max(CHART_WIDTH / last, 2.0)
    bars = "".join(
        f'<rect x="{CHART_WIDTH * frame / last - 0.5 * width:.1f}" y="38" width="{width:.1f}" height="6"/>'
        for frame in sorted(frame_numbers(recording.flagged()))
    )
    return (
        f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" preserveAspectRatio="none" fill="none" stroke-width="1.5">'
        f"<title>largest strain, up to {100.0 * largest:.3g} %: blue along warp, red along weft, green along edges"
        f'</title>{"".join(lines)}<g fill="{FLAGGED}">{bars}</g></svg>'
    )
