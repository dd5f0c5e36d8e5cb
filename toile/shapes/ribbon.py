"""A long strip of cloth along a curve through given points, nearly unstretched.

    p(s, t) = c(s) + t b(s),    b = cos(phi) n1 + sin(phi) n2,    n1, n2 a rotation minimizing frame of the curve

The sides of a strip are longer or shorter than its center line by t k . b where the curve bends in the plane of the
strip, and longer by (t dphi/ds)^2 / 2 where the strip twists. phi(s) keeps the sum of both small: it banks into every
bend,

    minimize the sum of (k . b)^2 + weight (dphi/ds)^2,    by Gauss-Newton iterations

Source      the frame: Wang et al. 2008, Computation of rotation minimizing frames, the double reflection
Symbols     c  center line, a cubic spline     k  its curvature vector [1/m]     b  direction of the width [-]
            phi  rotation of the strip about the curve [rad]     t  coordinate across it [m]
Deviations  none
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import model_validator
from scipy.interpolate import CubicSpline
from scipy.linalg import solveh_banded

from toile.model.mesh import Mesh, find_edges
from toile.model.motion import Vector
from toile.plugins import quantity
from toile.shapes._curve import arc_lengths, require_curve, segment_lengths
from toile.shapes._sheet import Count, Diagonals, flat_sheet
from toile.shapes.base import Shape

# Steps along the curve, independent of the mesh, so that all meshes of a ribbon have the same shape.
STEPS = 2000
# Weight of twisting relative to bending in the plane of the strip. A strip that twists by an angle has sides that are
# longer by half the square of those of one bent by that angle, and it must not turn over for a short bend.
TWIST_WEIGHT = 0.02
# Gauss-Newton iterations. Angles are below one radian, and each iteration leaves a small part of the error.
ITERATIONS = 12
# Strain above which a warning is given: cloth stretches by a few percent at most.
STRETCHED = 0.01


class Ribbon(Shape):
    """A strip with u along the curve and v across it; its center line passes through every point."""

    points: tuple[Vector, ...] = quantity(unit="m", doc="at least two points of the center line")
    width: float = quantity(0.02, unit="m", doc="width of the strip", gt=0)
    across: Vector = quantity((0.0, 0.0, 1.0), doc="approximate direction of the width at the first point")
    resolution: tuple[Count, Count] = quantity((201, 5), doc="vertices along and across")
    diagonals: Diagonals = quantity("alternating", doc="direction of the diagonals of the cells")

    @model_validator(mode="after")
    def _usable(self) -> Ribbon:
        points = np.array(self.points).reshape(-1, 3)
        require_curve(points, "points")
        tangent = _unit(_curve(points)[0](0.0, 1))
        if np.linalg.norm(np.cross(tangent, self.across)) < 1e-3 * np.linalg.norm(self.across) or not any(self.across):
            raise ValueError("across: must not run along the curve at its first point.")
        return self

    def expected_vertex_count(self) -> int:
        return math.prod(self.resolution)

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        middle, across = self._strip()
        station = np.linspace(0.0, len(middle) - 1.0, self.resolution[0])
        rows = np.arange(len(middle))
        c = np.stack([np.interp(station, rows, x) for x in middle.T], axis=1)
        b = _unit(np.stack([np.interp(station, rows, x) for x in across.T], axis=1))
        # The flat strip has the length of its edges, not of the curve between them.
        u = arc_lengths(c)
        v = np.linspace(-0.5 * self.width, 0.5 * self.width, self.resolution[1])
        flat = flat_sheet((1.0, 1.0), self.resolution, self.diagonals)
        uv = np.stack(np.meshgrid(u, v, indexing="xy"), axis=-1).reshape(-1, 2)
        positions = (c[None] + v[:, None, None] * b[None]).reshape(-1, 3)
        mesh = replace(flat, positions=positions, uv=uv[flat.triangles])
        return replace(mesh, warnings=self._stretched(mesh, uv))

    def _stretched(self, mesh: Mesh, uv: np.ndarray) -> tuple[str, ...]:
        edges = find_edges(mesh.triangles).edges
        length, flat = (np.linalg.norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1) for x in (mesh.positions, uv))
        worst = int(np.argmax(np.abs(length / flat - 1.0)))
        strain = length[worst] / flat[worst] - 1.0
        if abs(strain) <= STRETCHED:
            return ()
        place = ", ".join(f"{x:.3g}" for x in mesh.positions[edges[worst, 0]])
        return (
            f"the ribbon starts {'stretched' if strain > 0 else 'shortened'} by {100.0 * abs(strain):.1f} % near "
            f"({place}) m: its curve is too tight for its width. Move the points apart, or make it narrower.",
        )

    def _strip(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the center line and the direction of the width at equal arc lengths."""
        spline, knots = _curve(np.array(self.points))
        parameter = np.linspace(0.0, knots[-1], 8 * STEPS + 1)
        fine = spline(parameter)
        length = arc_lengths(fine)
        s = np.linspace(0.0, length[-1], STEPS + 1)
        at = np.interp(s, length, parameter)
        c, tangent = spline(at), _unit(spline(at, 1))
        across = np.asarray(self.across, float)
        n1 = parallel_transport(c, tangent, _unit(across - (across @ tangent[0]) * tangent[0]))
        n2 = np.cross(tangent, n1)
        k = np.gradient(tangent, s, axis=0)
        phi = bank_angles(np.sum(k * n1, axis=1), np.sum(k * n2, axis=1), s[1])
        return c, np.cos(phi)[:, None] * n1 + np.sin(phi)[:, None] * n2


def _curve(points: np.ndarray) -> tuple[CubicSpline, np.ndarray]:
    """Returns a natural cubic spline through points, and its parameter at each of them."""
    # The root of the distance, not the distance: the spline then neither overshoots nor loops where points are dense.
    knots = np.concatenate([[0.0], np.cumsum(np.sqrt(segment_lengths(points)))])
    return CubicSpline(knots, points, bc_type="natural"), knots


def parallel_transport(c: np.ndarray, tangent: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Transports a direction across a curve along it without rotation about it (double reflection)."""
    carried = [first]
    for i in range(len(c) - 1):
        chord = c[i + 1] - c[i]
        normal = carried[-1] - 2.0 * (chord @ carried[-1]) / (chord @ chord) * chord
        t = tangent[i] - 2.0 * (chord @ tangent[i]) / (chord @ chord) * chord
        mirror = tangent[i + 1] - t
        squared = mirror @ mirror
        carried.append(normal if squared == 0.0 else normal - 2.0 * (mirror @ normal) / squared * mirror)
    return np.array(carried)


def bank_angles(k1: np.ndarray, k2: np.ndarray, step: float) -> np.ndarray:
    """Returns the angles of the strip from curvatures along the two frame directions [1/m] at equal steps [m]."""
    phi = np.zeros(len(k1))
    for i in range(len(phi) - 1):  # initial guess: follow the bends from the start, to avoid turning over
        bend = k1[i] * np.cos(phi[i]) + k2[i] * np.sin(phi[i])
        slope = k2[i] * np.cos(phi[i]) - k1[i] * np.sin(phi[i])
        phi[i + 1] = phi[i] - step * bend * np.sign(slope) / np.sqrt(TWIST_WEIGHT)
    stiffness = TWIST_WEIGHT / step**2
    for _ in range(ITERATIONS):
        bend = k1 * np.cos(phi) + k2 * np.sin(phi)
        slope = k2 * np.cos(phi) - k1 * np.sin(phi)
        change = np.diff(phi)
        right = -bend * slope
        right[:-1] += stiffness * change
        right[1:] -= stiffness * change
        diagonal = slope**2 + 2.0 * stiffness
        diagonal[[0, -1]] -= stiffness
        diagonal[0] += 1e-6 * stiffness  # a straight curve does not determine the angle: keep it
        phi = phi + solveh_banded([np.concatenate([[0.0], np.full(len(phi) - 1, -stiffness)]), diagonal], right)
    return phi


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
