"""Forces and matrix of a whole sheet, summed element by element in dense arrays.

    f        total force at (x, v)                                   [N]
    A(h)     M - h df/dv - h^2 df/dx, made positive definite         [kg]

Internal forces follow from their conditions ([BW98] eqs. (7), (11)); the matrix holds k dC dC^T + sigma d2C with its
negative eigenvalues clamped over F, and the product of gradients alone for bending. Air and pull: [BW98] sec. 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from reference.conditions import Condition, angle, bend, deformation, gradient, shear, stretch, uv_area
from reference.hessians import at_corners, clamped, shear_hessian, stretch_hessian
from reference.springs import Spring


@dataclass
class Sheet:
    """A cloth as a list of triangles with the uv of their corners."""

    triangles: np.ndarray  # (triangles, 3)
    uv: np.ndarray  # (triangles, 3, 2) [m]
    count: int  # particles of the whole model

    def hinges(self) -> list[tuple[list[int], np.ndarray, float]]:
        """For every inner edge: flap, flap, edge start, edge end; the edge in uv; rest area of both triangles."""
        seen: dict[frozenset[int], tuple[int, int]] = {}
        found = []
        for t, corners in enumerate(self.triangles):
            for c in range(3):
                start, end = int(corners[c]), int(corners[(c + 1) % 3])
                key = frozenset((start, end))
                if key not in seen:
                    seen[key] = (t, c)
                    continue
                other, d = seen[key]
                edge = self.uv[t, (c + 1) % 3] - self.uv[t, c]
                # This triangle has the edge start -> end; its flap is x0, that of the other triangle is x1.
                points = [int(corners[(c + 2) % 3]), int(self.triangles[other][(d + 2) % 3]), start, end]
                found.append((points, edge, uv_area(self.uv[t]) + uv_area(self.uv[other])))
        return found


class Dense:
    """Sums of forces, energies and matrices over elements."""

    def __init__(
        self,
        x: np.ndarray,
        v: np.ndarray,
        masses: np.ndarray,
        project: Callable[[np.ndarray], np.ndarray] = clamped,
    ):
        """`project` clamps the second derivatives over F to be positive definite."""
        self.x, self.v, self.project = x, v, project
        n = len(x)
        self.f = np.zeros((n, 3))
        self.energy = 0.0
        self.dissipated = 0.0  # power of damping, positive [W]
        self.M = np.repeat(masses, 3)
        self.K = np.zeros((3 * n, 3 * n))  # -df/dx, positive definite
        self.D = np.zeros((3 * n, 3 * n))  # -df/dv

    def A(self, h: float) -> np.ndarray:
        return np.diag(self.M) + h * self.D + h**2 * self.K

    def add_stretch(self, sheet: Sheet, k: Sequence[float], b: Sequence[float], damping: float) -> None:
        """Along warp and weft; `damping` is k_d/k [s]."""
        for corners, uv in zip(sheet.triangles, sheet.uv, strict=True):
            for axis in (0, 1):
                C = stretch(uv, axis, b[axis])
                s = self._add_condition(C, corners, k[axis], damping * k[axis]) / np.sqrt(uv_area(uv))
                H = stretch_hessian(deformation(uv, self.x[corners]), axis, k[axis], np.array(s))
                self._add_block(self.K, corners, at_corners(self.project(H), uv))

    def add_shear(self, sheet: Sheet, k: float, damping: float) -> None:
        for corners, uv in zip(sheet.triangles, sheet.uv, strict=True):
            s = self._add_condition(shear(uv), corners, k, damping * k) / np.sqrt(uv_area(uv))
            H = shear_hessian(deformation(uv, self.x[corners]), k, np.array(s))
            self._add_block(self.K, corners, at_corners(self.project(H), uv))

    def add_bend(self, sheet: Sheet, D_warp: float, D_weft: float, damping: float) -> None:
        """An edge along u folds the weft, one along v the warp."""
        for points, edge, area in sheet.hinges():
            share_u = edge[0] ** 2 / (edge @ edge)
            D = D_weft * share_u + D_warp * (1.0 - share_u)
            C = bend(float(np.linalg.norm(edge)), area)
            self._add_condition(C, points, D, damping * D)
            slope = gradient(C, self.x[points]).ravel()
            self._add_block(self.K, points, D * np.outer(slope, slope))

    def add_bend_mode(self, sheet: Sheet, D_warp: float, D_weft: float, damping: float, theta0: float = 0.0) -> None:
        """[BMF03] sec. 4 as printed, with k_e = 4 D and |N| twice the rest area; damping as for bend_angle when
        flat."""
        for points, edge, area in sheet.hinges():
            share_u = edge[0] ** 2 / (edge @ edge)
            c = 4.0 * (D_weft * share_u + D_warp * (1.0 - share_u)) * float(edge @ edge) / (2.0 * area)
            theta, slope = float(angle(self.x[points]).real), gradient(angle, self.x[points])
            rate = float(np.sum(slope * self.v[points]))
            self.f[points] -= (c * (np.sin(theta / 2) - np.sin(theta0 / 2)) + 0.5 * damping * c * rate) * slope
            at_rest = -2.0 * np.cos(theta0 / 2) - theta0 * np.sin(theta0 / 2)
            self.energy += c * (-2.0 * np.cos(theta / 2) - theta * np.sin(theta0 / 2) - at_rest)
            self.dissipated += 0.5 * damping * c * rate**2
            squared = np.outer(slope.ravel(), slope.ravel())
            self._add_block(self.K, points, 0.5 * c * np.cos(theta / 2) * squared)
            self._add_block(self.D, points, 0.5 * damping * c * squared)

    def add_gravity(self, g: np.ndarray) -> None:
        m = self.M[::3, None]
        self.f += m * g
        self.energy -= float(np.sum(m * g * self.x))

    def add_air(self, triangles: np.ndarray, u: np.ndarray, linear: float, quadratic: float) -> None:
        """Pressure (c + q |s|) s along the normal, where s is the normal velocity of the air relative to the
        triangle."""
        for corners in triangles:
            a, b, c = self.x[corners]
            normal = np.cross(b - a, c - a)
            area = 0.5 * np.linalg.norm(normal)
            n = normal / np.linalg.norm(normal)
            s = n @ (u - self.v[corners].mean(axis=0))
            self.f[corners] += area * (linear * s + quadratic * abs(s) * s) * n / 3.0
            slope = area * (linear + 2.0 * quadratic * abs(s)) / 9.0
            self._add_block(self.D, corners, np.kron(np.ones((3, 3)), slope * np.outer(n, n)))

    def add_pull(
        self, corners: np.ndarray, weights: np.ndarray, target: np.ndarray, velocity: np.ndarray, k: float, d: float
    ) -> None:
        """Spring k and damper d between a point of a triangle and a moving target."""
        offset = weights @ self.x[corners] - target
        self.f[corners] -= np.outer(weights, k * offset + d * (weights @ self.v[corners] - velocity))
        self.energy += 0.5 * k * float(offset @ offset)
        both = np.kron(np.outer(weights, weights), np.eye(3))
        self._add_block(self.K, corners, k * both)
        self._add_block(self.D, corners, d * both)

    def add_lines(self, pairs: np.ndarray, lengths: np.ndarray, k: np.ndarray, damping: float) -> None:
        """Springs between pairs of particles; the Hessian over their difference is clamped."""
        for ends, l0, stiffness in zip(pairs, lengths, k, strict=True):

            def C(x: np.ndarray, l0: float = float(l0)) -> np.ndarray:
                return np.sqrt(np.sum((x[1] - x[0]) ** 2)) - l0  # complex steps: no norm

            sigma = self._add_condition(C, ends, float(stiffness), damping * float(stiffness))
            d = self.x[ends[1]] - self.x[ends[0]]
            n = d / np.linalg.norm(d)
            H = stiffness * np.outer(n, n) + sigma / np.linalg.norm(d) * (np.eye(3) - np.outer(n, n))
            values, vectors = np.linalg.eigh(H)
            core = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
            self._add_block(self.K, ends, np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), core))

    def add_viscous(self, rate: float) -> None:
        self.f -= rate * self.M[::3, None] * self.v
        self.D += rate * np.diag(self.M)

    def add_air_at_particles(self, triangles: np.ndarray, areas: np.ndarray, u: np.ndarray, linear: float) -> None:
        """Pressure c s along the normal at each particle, where s is the normal velocity of the air relative to it."""
        for i in range(len(self.x)):
            own = np.flatnonzero((triangles == i).any(axis=1))
            a, b, c = (self.x[triangles[own, k]] for k in range(3))
            n = np.cross(b - a, c - a).sum(axis=0)
            n /= np.linalg.norm(n)
            C = linear * areas[own].sum() / 3.0
            self.f[i] += C * (n @ (u - self.v[i])) * n
            self._add_block(self.D, [i], C * np.outer(n, n))

    def add_springs(self, springs: Sequence[Spring]) -> None:
        """Spring k, damper d along n and damper c across it, between the weighted means of four particles."""
        for s in springs:
            across = np.outer(s.n, s.n)
            overlap = s.length - s.n @ (s.w @ self.x[s.particles])
            D = s.d * across + s.c * (np.eye(3) - across)
            force = s.k * overlap * s.n - D @ (s.w @ self.v[s.particles])
            np.add.at(self.f, s.particles, np.outer(s.w, force))
            self.energy += 0.5 * s.k * overlap**2
            self._add_block(self.K, s.particles, np.kron(np.outer(s.w, s.w), s.k * across))
            self._add_block(self.D, s.particles, np.kron(np.outer(s.w, s.w), D))

    def add_buckling(self, ends: np.ndarray, L: np.ndarray, k_b: np.ndarray, c: np.ndarray, damping: float) -> None:
        """Threads that buckle into arcs. The force is linear before that, with slope c, and continuous."""
        for p, l0, k, slope in zip(ends, L, k_b, c, strict=True):
            d = self.x[p[1]] - self.x[p[0]]
            length = float(np.linalg.norm(d))
            if length >= l0:
                continue
            above = partial(_line_above_arc, L=l0, k_b=k, c=slope)
            onset = brentq(above, 1e-3, np.pi, xtol=1e-16, rtol=1e-15) if above(np.pi) > 0.0 else np.pi
            contacts, before = arc_length(onset, l0), 0.5 * slope * (l0 - arc_length(onset, l0)) ** 2
            stiffness, k_d, f = slope, 0.0, slope * (length - l0)
            stored = 0.5 * slope * (length - l0) ** 2
            if length < contacts:
                q = brentq(partial(_longer, L=l0, length=length), 1e-3, np.pi, xtol=1e-16, rtol=1e-15)
                f, stored = arc_force(q, l0, k), before + 2.0 * k * (q**2 - onset**2) / l0
                step = 1e-20j  # the derivative of an analytic function, without differences
                stiffness = np.imag(arc_force(q + step, l0, k)) / np.imag(arc_length(q + step, l0))
                k_d = damping * stiffness
            n = d / length
            rate = float(n @ (self.v[p[1]] - self.v[p[0]]))
            along = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.outer(n, n))
            self.f[p] += (f + k_d * rate) * np.array([n, -n])
            self.energy += stored
            self.dissipated += k_d * rate**2
            self._add_block(self.K, p, stiffness * along)
            self._add_block(self.D, p, k_d * along)

    def _add_condition(self, C: Condition, points: Sequence[int] | np.ndarray, k: float, k_d: float) -> float:
        """Force, energy and damping matrix of E = k C^2/2; returns sigma = k C + k_d dC/dt."""
        slope = gradient(C, self.x[points])
        value = float(np.real(C(self.x[points])))
        rate = float(np.sum(slope * self.v[points]))
        self.f[points] -= (k * value + k_d * rate) * slope
        self.energy += 0.5 * k * value**2
        self.dissipated += k_d * rate**2
        self._add_block(self.D, points, k_d * np.outer(slope.ravel(), slope.ravel()))
        return k * value + k_d * rate

    def _add_block(self, to: np.ndarray, points: Sequence[int] | np.ndarray, block: np.ndarray) -> None:
        rows = (3 * np.asarray(points)[:, None] + np.arange(3)).ravel()
        to[np.ix_(rows, rows)] += block


def arc_length(q: Any, L: float) -> Any:
    """Distance between the ends of an arc of length L that turns by 2 q."""
    return L * np.sin(q) / q


def arc_force(q: Any, L: float, k_b: float) -> Any:
    """Force between the ends of such an arc, negative in compression: k_b kappa^2/(cos q - sinc q)."""
    kappa = 2.0 * q / L
    return k_b * kappa**2 / (np.cos(q) - np.sin(q) / q)


def _longer(q: float, L: float, length: float) -> float:
    return float(arc_length(q, L) - length)


def _line_above_arc(q: float, L: float, k_b: float, c: float) -> float:
    return float(c * (L - arc_length(q, L)) + arc_force(q, L, k_b))
