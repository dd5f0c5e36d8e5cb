"""Rigid motion by keyframes: pose and velocity at a time t.

    x(t) = R(t) (x0 - c) + c + p(t),    dx/dt = w x (R (x0 - c)) + dp/dt,    w = J(r) dr/dt

Rotation vectors r are interpolated component by component, so an angle of 720 degrees is two turns.

Source      J is the left Jacobian of the rotation group (any text on Lie groups)
Symbols     R = exp(r)  rotation     c  center [m]     p  translation [m]     w  angular velocity [rad/s]
Deviations  none
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from toile.plugins import quantity

Vector = tuple[float, float, float]

# Times closer than this are equal [s]: steps that should end at the same time differ by rounding.
SAME_TIME = 1e-9

# Below this angle [rad] the Taylor series is exact to rounding, and the closed form would divide by zero.
SMALL_ANGLE = 1e-4


class Keyframe(BaseModel):
    """Displacement from the start pose at one time."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    time: float = quantity(unit="s", doc="time of this key")
    translation: Vector = quantity((0.0, 0.0, 0.0), unit="m", doc="displacement from the start")
    rotation: Vector = quantity(
        (0.0, 0.0, 0.0), unit="deg", doc="rotation vector: axis times angle, about the center; 720 is two turns"
    )


class Motion(BaseModel):
    """Keyframes and the interpolation between them; at rest before the first and after the last."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    keyframes: tuple[Keyframe, ...] = quantity(doc="at least one key, in order of time", min_length=1)
    interpolation: Literal["linear", "smooth"] = quantity(
        "smooth", doc="linear between keys, or smooth: at rest at both ends, without overshoot between keys"
    )
    center: Vector | None = quantity(None, unit="m", doc="center of rotation; by default the mean of the moving points")

    @model_validator(mode="after")
    def _in_order(self) -> Motion:
        times = [key.time for key in self.keyframes]
        for i in range(1, len(times)):
            if times[i] <= times[i - 1]:
                raise ValueError(
                    f"keyframe {i} at {times[i]} s is not later than keyframe {i - 1} at {times[i - 1]} s."
                )
        return self

    def pose(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rotation matrix and the translation at a time."""
        value, _ = self._interpolate(time)
        return rotation_matrix(value[3:]), value[:3]

    def move(self, points: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions and velocities at a time of points given at their start."""
        value, rate = self._interpolate(time)
        center = points.mean(axis=0) if self.center is None else np.asarray(self.center)
        arms = (points - center) @ rotation_matrix(value[3:]).T
        angular_velocity = _left_jacobian(value[3:]) @ rate[3:]
        return arms + center + value[:3], np.cross(angular_velocity, arms) + rate[:3]

    def frame(self, origin: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns rotation, origin, velocity, angular velocity [rad/s] at a time of a frame that starts at `origin`."""
        value, rate = self._interpolate(time)
        center = origin if self.center is None else np.asarray(self.center)
        rotation, angular_velocity = rotation_matrix(value[3:]), _left_jacobian(value[3:]) @ rate[3:]
        arm = rotation @ (origin - center)
        return rotation, arm + center + value[:3], np.cross(angular_velocity, arm) + rate[:3], angular_velocity

    def carry(self, points: np.ndarray, since: float, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions and velocities at a time of points given at the time `since`."""
        rotation, translation = self.pose(since)
        center = points.mean(axis=0) - translation if self.center is None else np.asarray(self.center)
        start = (points - translation - center) @ rotation + center
        fixed = self if self.center is not None else self.model_copy(update={"center": tuple(center)})
        return fixed.move(start, time)

    def _interpolate(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns (translation [m], rotation vector [rad]) as one vector, and its time derivative."""
        times = np.array([key.time for key in self.keyframes])
        keys = np.array([(*key.translation, *np.radians(key.rotation)) for key in self.keyframes])
        if time < times[0] or time >= times[-1]:  # it moves from the first key on, and is at rest at the last
            return keys[0 if time < times[0] else -1], np.zeros(6)
        i = int(np.searchsorted(times, time, side="right")) - 1
        interval = times[i + 1] - times[i]
        s = (time - times[i]) / interval
        if self.interpolation == "linear":
            return (1.0 - s) * keys[i] + s * keys[i + 1], (keys[i + 1] - keys[i]) / interval
        rates = _smooth_rates(times, keys)
        m0, m1 = interval * rates[i], interval * rates[i + 1]
        change = keys[i + 1] - keys[i]  # cubic Hermite form on this interval
        value = keys[i] + s * m0 + s**2 * (3.0 * change - 2.0 * m0 - m1) + s**3 * (m0 + m1 - 2.0 * change)
        slope = m0 + 2.0 * s * (3.0 * change - 2.0 * m0 - m1) + 3.0 * s**2 * (m0 + m1 - 2.0 * change)
        return value, slope / interval


def rotation_matrix(vector: np.ndarray) -> np.ndarray:
    """Returns exp of a rotation vector [rad] (Rodrigues)."""
    a, b, _ = _coefficients(np.asarray(vector))
    cross = _cross_matrix(vector)
    return np.eye(3) + a * cross + b * cross @ cross


def _left_jacobian(vector: np.ndarray) -> np.ndarray:
    """Returns the matrix that maps the rate of a rotation vector to the angular velocity in the world."""
    _, b, c = _coefficients(vector)
    cross = _cross_matrix(vector)
    return np.eye(3) + b * cross + c * cross @ cross


def _coefficients(vector: np.ndarray) -> tuple[float, float, float]:
    """Returns sin(q)/q, (1 - cos(q))/q^2 and (q - sin(q))/q^3 for the angle q."""
    q = float(np.linalg.norm(vector))
    if q < SMALL_ANGLE:
        return 1.0 - q**2 / 6.0, 0.5 - q**2 / 24.0, 1.0 / 6.0 - q**2 / 120.0
    # 2 sin^2(q/2) replaces 1 - cos(q), which would lose half its digits at small angles.
    return float(np.sin(q)) / q, 2.0 * float(np.sin(0.5 * q) / q) ** 2, (q - float(np.sin(q))) / q**3


def _cross_matrix(vector: np.ndarray) -> np.ndarray:
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _smooth_rates(times: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Returns the derivatives at the keys of a curve that is at rest at both ends and at extrema and plateaus.

    Elsewhere they are the weighted harmonic mean of the slopes on both sides (Fritsch and Butland 1984): the cubic then
    stays between its keys, where a spline would overshoot.
    """
    interval = np.diff(times)[:, None]
    slope = np.diff(keys, axis=0) / interval
    rates = np.zeros_like(keys)
    before, after = slope[:-1], slope[1:]
    same_way = before * after > 0.0
    w_before, w_after = 2.0 * interval[1:] + interval[:-1], interval[1:] + 2.0 * interval[:-1]
    one, two = np.where(same_way, before, 1.0), np.where(same_way, after, 1.0)
    mean = (w_before + w_after) / (w_before / one + w_after / two)
    rates[1:-1] = np.where(same_way, mean, 0.0)
    return rates
