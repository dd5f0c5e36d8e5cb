"""Rigid motion by keyframes: where something is at time t, and how fast it moves there."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation, RotationSpline, Slerp

from toile.plugins import quantity

Vector = tuple[float, float, float]

# Central difference for velocities [s]: the interpolants are smooth between keys, so this is exact to about 1e-9.
VELOCITY_INTERVAL = 1e-6


class Keyframe(BaseModel):
    """Displacement from the start pose at one time."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    time: float = quantity(unit="s", doc="time of this key")
    translation: Vector = quantity((0.0, 0.0, 0.0), unit="m", doc="displacement from the start")
    rotation: Vector = quantity((0.0, 0.0, 0.0), unit="deg", doc="rotation vector: axis times angle, about the centre")


class Motion(BaseModel):
    """Keyframes and how to go from one to the next; still before the first and after the last."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keyframes: tuple[Keyframe, ...] = quantity(doc="at least one key, in order of time", min_length=1)
    interpolation: Literal["linear", "smooth"] = quantity("smooth", doc="straight between keys, or a cubic spline at rest at both ends")
    centre: Vector | None = quantity(None, unit="m", doc="centre of rotation; the mean of what moves when not given")

    @model_validator(mode="after")
    def _in_order(self) -> Motion:
        times = [key.time for key in self.keyframes]
        for i in range(1, len(times)):
            if times[i] <= times[i - 1]:
                raise ValueError(f"keyframe {i} at {times[i]} s does not come after keyframe {i - 1} at {times[i - 1]} s.")
        return self

    def pose(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Rotation matrix and translation at a time."""
        times = np.array([key.time for key in self.keyframes])
        translations = np.array([key.translation for key in self.keyframes])
        rotations = Rotation.from_rotvec([key.rotation for key in self.keyframes], degrees=True)
        time = float(np.clip(time, times[0], times[-1]))
        if len(times) == 1:
            return rotations[0].as_matrix(), translations[0]
        if self.interpolation == "linear":
            translation = np.array([np.interp(time, times, translations[:, axis]) for axis in range(3)])
            return Slerp(times, rotations)(time).as_matrix(), translation
        rotation = RotationSpline(times, rotations)(time).as_matrix()
        return rotation, CubicSpline(times, translations, bc_type="clamped")(time)

    def move(self, points: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities, at a time, of points given at their start."""
        centre = points.mean(axis=0) if self.centre is None else np.asarray(self.centre)

        def at(t: float) -> np.ndarray:
            rotation, translation = self.pose(t)
            return (points - centre) @ rotation.T + centre + translation

        velocity = (at(time + VELOCITY_INTERVAL) - at(time - VELOCITY_INTERVAL)) / (2.0 * VELOCITY_INTERVAL)
        return at(time), velocity
