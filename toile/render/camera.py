"""The camera, given by the user or placed so that every point of every frame just fits into the picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from toile.errors import ToileError

# Judgments of taste. The view is from the front right and a little above; the picture keeps a margin around the cloth.
VIEW = np.array([-0.48, 0.84, -0.24])  # from the camera to the cloth
MARGIN = 0.84  # share of the picture's half width that the cloth may fill
GROUND_GAP = 2e-3  # gap that separates ground and cloth in float32 [share of the camera's distance]
MIN_SIZE = 1e-3  # [m]  a single point is framed as if it were this large
NEAREST = 0.5  # minimum distance of a point from the camera [share of the diagonal of the bounding box]


@dataclass(frozen=True)
class Camera:
    """A pinhole camera that looks from one point at another, with z up in the picture."""

    position: np.ndarray  # [m]
    look_at: np.ndarray  # [m]
    fov: float  # [deg]  vertical angle of view

    def axes(self) -> np.ndarray:
        """Rows: right, up, forward."""
        return _axes(self.look_at - self.position)

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(self.look_at - self.position))


@dataclass(frozen=True)
class Extent:
    """Bounds of the points of one or more frames: a box, and the maxima that decide how far away the camera is."""

    low: np.ndarray  # [m]
    high: np.ndarray  # [m]
    reach: np.ndarray  # [m]  A and B of frame_camera, across and up
    near: float  # [m]  coordinate of the nearest point, measured towards the camera

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.high - self.low))


def frame_camera(
    frames: Iterable[np.ndarray],
    aspect: float,
    fov: float,
    look_at: tuple[float, float, float] | None = None,
    look_from: tuple[float, float, float] | None = None,
) -> Camera:
    """Returns the camera for a picture or a whole film; `aspect` is width / height.

    For a fixed direction of view, with coordinates r, u (across) and f (along it), a point is inside the left and
    right edges if |r - c| <= t (f + d) for a camera at c across and d behind. So d = (A + B) / (2 t) and
    c = (A - B) / 2 with A = max(r - t f), B = max(-r - t f), and the same for u: four maxima give the tightest frame.
    """
    t = MARGIN * np.tan(np.radians(fov) / 2.0) * np.array([aspect, 1.0])
    axes = _axes(VIEW)
    extent = _extent(frames, axes, t)
    center = 0.5 * (extent.low + extent.high)
    if look_from is not None:
        target = center if look_at is None else np.asarray(look_at, float)
        position = np.asarray(look_from, float)
        if np.allclose(position, target):
            raise ToileError(f"the camera is at its own target, {look_from}: move look_from or look_at.")
        return Camera(position, target, fov)
    a, b = extent.reach[:, 0], extent.reach[:, 1]
    # All points on one line of sight would fit a picture taken from the first of them.
    gap = NEAREST * extent.size
    nearest = extent.near + gap
    if look_at is not None:
        target = np.asarray(look_at, float)
        across = axes[:2] @ target
        behind = max(np.max(np.maximum(a - across, b + across) / t), nearest)
        return Camera(target - max(behind + axes[2] @ target, gap) * axes[2], target, fov)
    behind = max(np.max((a + b) / (2.0 * t)), nearest)
    # The target is at the depth of the center, so that a light placed around the target is around the cloth.
    depth = axes[2] @ center
    target = axes.T @ np.array([*(0.5 * (a - b)), depth])
    return Camera(target - (behind + depth) * axes[2], target, fov)


def ground_height(lowest: float, size: float) -> float:
    """z = 0 if the cloth stays above it, otherwise just below the lowest point of the run: never through the cloth."""
    return 0.0 if lowest > GROUND_GAP * size else lowest - GROUND_GAP * size


def _extent(frames: Iterable[np.ndarray], axes: np.ndarray, t: np.ndarray) -> Extent:
    extents = [_extent_of(points, axes, t) for points in frames if len(points)]
    if not extents:  # without points, the cubic meter above the origin is framed
        return _extent_of(np.array([[-0.5, -0.5, 0.0], [0.5, 0.5, 1.0]]), axes, t)
    whole = Extent(
        np.min([extent.low for extent in extents], axis=0),
        np.max([extent.high for extent in extents], axis=0),
        np.max([extent.reach for extent in extents], axis=0),
        max(extent.near for extent in extents),
    )
    if whole.size < MIN_SIZE:
        center = 0.5 * (whole.low + whole.high)
        return _extent_of(center + MIN_SIZE * np.array([[-0.5, -0.5, -0.5], [0.5, 0.5, 0.5]]), axes, t)
    return whole


def _extent_of(points: np.ndarray, axes: np.ndarray, t: np.ndarray) -> Extent:
    points = np.asarray(points, np.float64)
    if not np.isfinite(points).all():
        raise ToileError("a frame has positions that are not finite: it cannot be drawn.")
    across, along = points @ axes[:2].T, (points @ axes[2])[:, None]
    reach = np.stack([(across - t * along).max(axis=0), (-across - t * along).max(axis=0)], axis=1)
    return Extent(points.min(axis=0), points.max(axis=0), reach, float(-along.min()))


def _axes(forward: np.ndarray) -> np.ndarray:
    forward = forward / np.linalg.norm(forward)
    # A camera that looks straight up or down has no horizon: y is up in the picture.
    up = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 0.9999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(right, forward), forward])
