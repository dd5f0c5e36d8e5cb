"""A run as one HTML file: opens without a server, without the net, and without Toile.

Not viser's own recording: that plays everything anew to go one frame back, shows neither frames nor certificate, brings
0.8 MB of its client along, and needs a server to be made. The page (share_page.html) is ours, 15 kB.

Places are 16-bit steps of the box that holds all of them, so they are exact to 1/131070 of its sides: 0.01 mm in 1.3 m.
From frame to frame most change by little, and differences pack to a fraction:

    data      base64(deflate(triangles, still, frame, frame, ...))
    triangles 3 x uint32 each, into the vertices that move and then those that stay
    still     3 x float32 each [m]
    frame     of every coordinate that moves z = zigzag(q - q of the frame before), low bytes first, then high bytes

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
from toile.runs.check import check
from toile.viewer.draw.creases import creased
from toile.viewer.draw.drawing import bounded
from toile.viewer.draw.palette import BACKGROUND, CLOTHS, SOLID
from toile.viewer.draw.text import number
from toile.viewer.playback.marks import marked_frames, marks
from toile.viewer.playback.recording import Recording

PAGE = Path(__file__).with_name("share_page.html")

# What mail and browsers take without complaint [bytes]
COMFORTABLE = 50_000_000

STEPS = 65535
NOTHING = (np.full(3, np.inf), np.full(3, -np.inf))
EMPTY = (np.zeros(3), np.zeros(3))
FIELD_OF_VIEW = 0.7  # [rad]
# From where the camera looks: towards +y and a little to the left, from above. [rad]
TURN, TILT = math.radians(-60.0), math.radians(20.0)

CHART_WIDTH, CHART_HEIGHT = 1000, 44
CURVES = {"warp_max": "#4878a8", "weft_max": "#c4564a", "edge_max": "#689668"}


@dataclass(frozen=True)
class Shared:
    """The file that was written."""

    path: Path
    size: int  # [bytes]
    frames: int  # in it
    without: str  # why there is no certificate in it, or ""


def share_run(run: Path | str, out: Path | str | None = None, every: int = 1, most: int | None = None) -> Shared:
    """Write a run as one HTML file, by default under its name into its folder.

    `every` leaves out all frames but each so-many-th, `most` all but so many; the first and the last are always there.
    """
    recording = Recording(Path(run))
    try:
        path = recording.folder if out is None else Path(out)
        if path.is_dir():
            path = path / f"{file_name(recording.name)}.html"
        if path.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"{path}: a shared run is a page: give a name that ends in .html, or a folder.")
        if not recording.frame_count:
            raise InputError(f"{recording.folder}: there is no complete frame in it yet.")
        shown = chosen_frames(recording.frame_count, every, most)
        draft = Draft(path)
        with draft.finishing(), draft.part.open("w", encoding="utf-8", newline="\n") as file:
            _write(file, recording, shown)
        without = recording.message if recording.report is None else ""
        return Shared(path, path.stat().st_size, len(shown), without)
    finally:
        recording.close()


def chosen_frames(count: int, every: int, most: int | None) -> list[int]:
    """The first and the last always."""
    frames = [*range(0, count - 1, every), count - 1]
    if most is not None and most < len(frames):
        frames = [frames[round(place)] for place in np.linspace(0, len(frames) - 1, max(most, 2))]
    return frames


def _write(file: IO[str], recording: Recording, shown: Sequence[int]) -> None:
    pool = _Pool(recording)
    (low, high), seen = _boxes(pool, shown)
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
        "camera": _camera(*seen),
        "certificate": _certificate(recording),
        "marks": [(mark.worst, str(mark)) for mark in _marks(recording)],
    }
    before, after = PAGE.read_text(encoding="utf-8").split("@DATA@")
    # A closing tag inside the text would end the script that holds it.
    text = json.dumps(about, allow_nan=False).replace("<", "\\u003c")
    before = before.replace("@TITLE@", html.escape(recording.name)).replace("@CHART@", _chart(recording))
    file.write(before.replace("@ABOUT@", text))
    for piece in _base64(_packed(pool, shown, low, step)):
        file.write(piece)
    file.write(after)


class _Pool:
    """The vertices of cloths and solids in one row, those that move first, and triangles into it."""

    def __init__(self, recording: Recording):
        self.recording = recording
        surface = recording.surface
        first = CLOTHS * (1 + len(surface.parts) // len(CLOTHS))
        self.objects = [
            {"name": part.name, "triangles": part.triangles.stop - part.triangles.start, "color": color}
            for part, color in zip(surface.parts, first, strict=False)
        ]
        triangles = [surface.triangles]
        still = [np.zeros((0, 3))]
        self._origins: dict[int, np.ndarray] = {}  # of solids that move
        self.moving = count = surface.vertex_count
        # Those that move come first: Python sorts without changing the order of equals.
        for place, solid in sorted(enumerate(surface.solids), key=lambda item: not item[1].moves):
            origin, corners = creased(solid.rest, solid.triangles)
            if solid.moves:
                self._origins[place] = origin
                self.moving += len(origin)
            else:
                still.append(bounded(solid, surface.rest)[origin])
            triangles.append(corners + count)
            count += len(origin)
            self.objects.append({"name": solid.name, "triangles": len(corners), "color": SOLID})
        self.still, self.triangles = np.concatenate(still), np.concatenate(triangles)

    def cloth(self, frame: int) -> np.ndarray:
        return self.recording.positions(frame)

    def at(self, frame: int) -> np.ndarray:
        """(moving, 3)"""
        solids = self.recording.solids(frame)
        return np.concatenate([self.cloth(frame), *(solids[i][origin] for i, origin in self._origins.items())])


Box = tuple[np.ndarray, np.ndarray]  # its low and its high corner


def _boxes(pool: _Pool, shown: Sequence[int]) -> tuple[Box, Box]:
    """The box of all that moves, over the frames, and the one to look at: the cloth's, or of all without cloth."""
    moving, cloth = NOTHING, NOTHING
    for frame in shown:
        points = pool.at(frame)
        if not np.isfinite(points).all():
            raise InputError(f"{pool.recording.folder}: frame {frame} holds places that are no numbers.")
        moving, cloth = _with(moving, points), _with(cloth, pool.cloth(frame))
    seen = next((box for box in (cloth, _with(moving, pool.still)) if box is not NOTHING), EMPTY)
    return (EMPTY if moving is NOTHING else moving), seen


def _with(box: Box, points: np.ndarray) -> Box:
    if not len(points):
        return box
    return np.minimum(box[0], points.min(axis=0)), np.maximum(box[1], points.max(axis=0))


def _camera(low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Sees a ball around the box."""
    radius = 0.5 * float(np.linalg.norm(high - low)) or 1.0
    at = 0.5 * (low + high)
    return {
        "at": at.tolist(),
        "far": radius / math.sin(0.5 * FIELD_OF_VIEW),
        "turn": TURN,
        "tilt": TILT,
        "fov": FIELD_OF_VIEW,
    }


def _packed(pool: _Pool, shown: Sequence[int], low: np.ndarray, step: np.ndarray) -> Iterator[bytes]:
    packer = zlib.compressobj(6)
    yield packer.compress(np.ascontiguousarray(pool.triangles, "<u4").tobytes())
    yield packer.compress(np.ascontiguousarray(pool.still, "<f4").tobytes())
    before = np.zeros((pool.moving, 3), np.uint16)
    for place, frame in enumerate(shown):
        q = np.clip(np.rint((pool.at(frame).astype(float) - low) / step), 0, STEPS).astype(np.uint16)
        d = (q - before).view(np.int16)  # modulo 2^16, as the page adds
        z = ((d << 1) ^ (d >> 15)).view(np.uint16).ravel()
        yield packer.compress((z & 0xFF).astype(np.uint8).tobytes() + (z >> 8).astype(np.uint8).tobytes())
        before = q
        report_progress("frame", place + 1, len(shown))
    yield packer.flush()


def _base64(pieces: Iterator[bytes]) -> Iterator[str]:
    """In text, without a break inside: every piece but the last is a multiple of three bytes."""
    left = b""
    for piece in pieces:
        left += piece
        whole = len(left) - len(left) % 3
        yield base64.b64encode(left[:whole]).decode("ascii")
        left = left[whole:]
    yield base64.b64encode(left).decode("ascii")


def _marks(recording: Recording) -> list[Any]:
    return [] if recording.report is None else marks(recording.expect, recording.report, recording.frame_count)


def _certificate(recording: Recording) -> list[list[str]]:
    """Rows of figure, found, expected, and whether it was met."""
    if recording.report is None:
        return []
    try:
        findings = check(recording.expect, recording.report)
    except SceneError:  # a certificate of another version
        findings = []
    rows = [[f.key, number(f.value), f.bound, "met" if f.ok else "not met"] for f in findings]
    known = {finding.key for finding in findings}
    summary = recording.report["summary"]
    return rows + [[key, number(value), "", ""] for key, value in summary.items() if key not in known]


def _chart(recording: Recording) -> str:
    """The largest strain over the frames, above the scrubber; marked frames have a red foot."""
    last = recording.frame_count - 1
    values = {name: [(e.get("strain") or {}).get(name) for e in recording.entries] for name in CURVES}
    largest = max((v for row in values.values() for v in row if v is not None), default=0.0)
    if last < 1 or not largest > 0.0:
        return ""
    x = [CHART_WIDTH * entry["frame"] / last for entry in recording.entries]
    lines = []
    for name, color in CURVES.items():
        points = [
            f"{place:.1f},{CHART_HEIGHT * (1.0 - 0.9 * value / largest):.1f}"
            for place, value in zip(x, values[name], strict=True)
            if value is not None
        ]
        lines.append(f'<polyline points="{" ".join(points)}" stroke="{color}"/>')
    width = max(CHART_WIDTH / last, 2.0)
    feet = "".join(
        f'<rect x="{CHART_WIDTH * frame / last - 0.5 * width:.1f}" y="38" width="{width:.1f}" height="6"/>'
        for frame in sorted(marked_frames(_marks(recording)))
    )
    return (
        f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" preserveAspectRatio="none" fill="none" stroke-width="1.5">'
        f"<title>largest strain, up to {100.0 * largest:.3g} %: blue along warp, red along weft, green along edges"
        f'</title>{"".join(lines)}<g fill="#e02020">{feet}</g></svg>'
    )
