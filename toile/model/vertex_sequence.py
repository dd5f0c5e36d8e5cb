"""A surface that moves vertex by vertex: positions at even times, interpolated between them.

    linear   straight from frame to frame; the velocity is discontinuous at each
    smooth   a cubic through the frames whose rate at frame k is (x[k+1] - x[k-1]) fps / 2, and 0 at both ends

It is at rest before the first frame and after the last, so that a smooth sequence starts and stops without a jump of
the velocity.

Source      cubic Hermite curves with central differences (Catmull and Rom 1974)
Symbols     s  time since frame k in frames [-]     m0, m1  rates at both ends of it [m per frame]
Deviations  none
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from toile.errors import InputError
from toile.model.mesh_repair import FARTHEST, diagonal
from toile.model.motion import Motion
from toile.model.solid_mesh import SolidMesh

# A first frame that is larger or smaller than the mesh by more than this factor is in another unit, not another pose.
OTHER_UNIT = 4.0
NAMED = 5  # at most this many frames are listed in a message


@dataclass(frozen=True)
class VertexSequence:
    """Positions of every vertex at start, start + 1/fps, ..."""

    positions: np.ndarray  # [m]  (frames, vertices, 3) float32 or float64
    fps: float  # [1/s]
    start: float = 0.0  # [s]  time of the first frame
    interpolation: Literal["linear", "smooth"] = "smooth"
    warnings: tuple[str, ...] = ()  # shown before the run

    @property
    def frame_count(self) -> int:
        return len(self.positions)

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions and velocities (vertices, 3) at a time, in float64."""
        frames = (time - self.start) * self.fps
        if frames < 0.0 or frames >= self.frame_count - 1:  # moving from the first frame on, at rest at the last
            still = self._frame(0 if frames < 0.0 else self.frame_count - 1)
            return still, np.zeros_like(still)
        k = int(frames)
        s = frames - k
        x0, change, m0, m1 = self._interval(k)
        b, c = 3.0 * change - 2.0 * m0 - m1, m0 + m1 - 2.0 * change
        return x0 + s * (m0 + s * (b + s * c)), self.fps * (m0 + s * (2.0 * b + s * 3.0 * c))

    def _frame(self, k: int) -> np.ndarray:
        return self.positions[k].astype(np.float64)

    def _interval(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the start of the interval after frame k, its change, and the rates at both ends [m per frame]."""
        x0, x1 = self._frame(k), self._frame(k + 1)
        change = x1 - x0
        if self.interpolation == "linear":
            return x0, change, change, change
        still = np.zeros_like(x0)
        m0 = 0.5 * (x1 - self._frame(k - 1)) if k > 0 else still
        m1 = 0.5 * (self._frame(k + 2) - x0) if k + 2 < self.frame_count else still
        return x0, change, m0, m1


def sequence_for(
    mesh: SolidMesh,
    positions: np.ndarray,
    *,
    fps: float,
    start: float = 0.0,
    interpolation: Literal["linear", "smooth"] = "smooth",
) -> VertexSequence:
    """Returns the frames of a mesh, numbered as in its file or as in the mesh; raises InputError if they do not fit."""
    if not 0.0 < fps < np.inf or not np.isfinite(start):
        raise InputError(f"fps = {fps:g} and start = {start:g}: fps must be > 0 [1/s] and both finite.")
    frames = _fitting(mesh, positions)
    _require_finite(frames, mesh)
    warnings = [*_oddities(frames, mesh), *_teleports(frames)]
    return VertexSequence(frames, fps, start, interpolation, tuple(warnings))


def motion_teleports(motion: Motion, size: float, frame_time: float) -> list[str]:
    """Returns warnings for keyframes that move an object of a size [m] farther than that in one frame of a run."""
    jumps: list[tuple[int, float, float]] = []
    for frame in _suspects(motion, size, frame_time):
        before, after = (motion.pose(frame_time * n)[1] for n in (frame - 1, frame))
        distance = float(np.linalg.norm(after - before))
        if distance > size:
            jumps.append((frame, distance, size))
        if len(jumps) > NAMED:
            break
    return _jump_warnings(jumps)


def _suspects(motion: Motion, size: float, frame_time: float) -> Iterator[int]:
    """Yields frames of a run, in order, that may be too fast: those with a key, and all between distant keys.

    Between two keys no rate exceeds three times the mean, so the other frames need no test.
    """
    done = 0
    for one, two in pairwise(motion.keyframes):
        distance = np.linalg.norm(np.subtract(two.translation, one.translation))
        first, last = int(one.time // frame_time) + 1, int(-(-two.time // frame_time))
        fast = 3.0 * distance * frame_time > size * (two.time - one.time)
        for frame in range(max(first, done + 1), last + 1) if fast else (first, last):
            if frame > done:
                done = frame
                yield frame


# Errors


def _fitting(mesh: SolidMesh, positions: np.ndarray) -> np.ndarray:
    """Returns the frames of the mesh's own vertices."""
    if positions.ndim != 3 or positions.shape[2] != 3:
        raise InputError(f"a sequence must be (frames, vertices, 3), but this one is {positions.shape}.")
    if not len(positions):
        raise InputError("the sequence has no frames.")
    count, here = positions.shape[1], len(mesh.positions)
    if count == mesh.source_vertex_count:
        return mesh.from_source(positions)
    if count == here:  # written for the selected part, or after unused vertices were removed
        return positions
    removed = f" ({here} of them in use)" if mesh.source_vertex_count != here else ""
    raise InputError(
        f"the sequence has {count} vertices, but the mesh has {mesh.source_vertex_count}{removed}: they must be the "
        "same vertices in the same order. Export both from one object, without modifiers that change its vertices."
    )


def _require_finite(frames: np.ndarray, mesh: SolidMesh) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(frames) <= FARTHEST).all(axis=2)
    if wrong.any():
        frame, vertex = (int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape))
        x = frames[frame, vertex]
        reason = f"farther than {FARTHEST:g} m from the origin" if np.isfinite(x).all() else "not finite"
        number = vertex if mesh.numbering is None else int(np.flatnonzero(mesh.numbering >= 0)[vertex])
        raise InputError(
            f"frame {frame}, vertex {number} = ({', '.join(f'{value:g}' for value in x)}): {reason} "
            f"({np.count_nonzero(wrong)} such in {np.count_nonzero(wrong.any(axis=1))} frames, counted from 0)."
        )


# Warnings


def _oddities(frames: np.ndarray, mesh: SolidMesh) -> list[str]:
    warnings = []
    if len(frames) == 1:
        warnings.append("the sequence has one frame, so the solid does not move.")
    ratio = diagonal(frames[0]) / diagonal(mesh.positions)
    if not 1.0 / OTHER_UNIT <= ratio <= OTHER_UNIT:
        warnings.append(f"the first frame is {ratio:.3g} times as large as the mesh: are both in meters? Set scale.")
    return warnings


def _teleports(frames: np.ndarray) -> list[str]:
    """Returns warnings for frames at which the whole body, measured by its centroid, moves farther than its size."""
    middle = frames.mean(axis=1, dtype=np.float64)
    across = np.linalg.norm(np.ptp(frames, axis=1).astype(np.float64), axis=1)
    moves, sizes = np.linalg.norm(np.diff(middle, axis=0), axis=1), np.maximum(across[1:], across[:-1])
    return _jump_warnings([(int(k) + 1, float(moves[k]), float(sizes[k])) for k in np.flatnonzero(moves > sizes)])


def _jump_warnings(jumps: list[tuple[int, float, float]]) -> list[str]:
    """Returns one line for all jumps (frame, distance, size)."""
    if not jumps:
        return []
    frames = ", ".join(str(frame) for frame, _, _ in jumps[:NAMED]) + (", ..." if len(jumps) > NAMED else "")
    _, distance, across = max(jumps, key=lambda jump: jump[1])
    return [
        f"teleport at frame {frames}: the solid moves {distance:.3g} m from one frame to the next and is only "
        f"{across:.3g} m large. Cloth in its path may be left behind. Add frames in between, or start it there."
    ]
