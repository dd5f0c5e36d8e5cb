"""Bending at a hinge along its bending mode, towards any rest angle.

    W(theta) = 2 k [-2 cos(theta/2) - theta sin(theta0/2)] + constant,    k = D |e|^2 / (A0 + A1)
    f = -(W' + k_d dtheta/dt) dtheta/dx,    W' = 2 k (sin(theta/2) - sin(theta0/2)),    W'' = k cos(theta/2)

It is the only one of a hinge's twelve modes that neither moves it as a whole nor deforms its triangles.

Source      [BMF03] sec. 4, with k_e = 4 D; its |N1| + |N2| is 2 (A0 + A1)
Symbols     theta  angle, 0 when flat, positive where the front is convex [rad]     theta0  at rest [rad]
            e  shared edge at rest [m]     A0, A1  rest areas [m^2]     D  bending rigidity of this edge [N m]
            k_d  damping, k times the damping time [N m s]
Deviations  The mesh factor is that of the rest shape: with the current one the force has no energy. The paper's u is
            -dtheta/dx and its dtheta/dt has the wrong sign; the damping here dissipates. Damping has the factor of the
            elastic force in place of |E|, with which it would vanish as the mesh is refined. The matrix omits the
            second derivative of theta and is then positive definite; the force is exact.

W' increases from one full fold at -180 degrees to the other at 180, so that a hinge returns to theta0 from every angle
that cloth can reach. It increases like the sine of half the angle: k is the stiffness when flat, of which cos(theta/2)
is left at theta, 9 % at 170 degrees. Beyond a full fold, which only cloth that has passed through itself can reach, a
hinge is treated as folded to the other side, and moves to theta0 from there.
"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import warp as wp
from pydantic import PrivateAttr, field_validator

from toile.energies._hinges import HingeEnergy
from toile.energies.base import Elements, Formulas, NoUniform
from toile.math.dihedral import angles, dihedral
from toile.math.types import mat33, mat43, real, vec3
from toile.model.mesh import Mesh
from toile.model.mesh_files.scene_path import resolve_scene_path
from toile.model.model import Model
from toile.model.rest_shape import read_rest_shape
from toile.plugins import quantity


@wp.struct
class Rest:
    theta0: real
    k: real  # [N m]  W'' when flat
    k_d: real


@wp.struct
class Local:
    rest: Rest
    theta: real
    stiffness: real  # W''
    scalar_force: real  # W' + k_d dtheta/dt at velocity v_at: the magnitude of the force
    gradient: mat43


@wp.func
def prepare(rest: Rest, uniform: NoUniform, x: mat43, x_tension: mat43, v: mat43, v_at: mat43) -> Local:
    hinge = dihedral(x)
    theta, theta0, four = hinge.theta, rest.theta0, real(4.0)
    theta_dot = real(0.0)
    for a in range(4):
        theta_dot += wp.dot(hinge.gradient[a], v_at[a])
    # The difference of sines as a product, because near rest the difference would be mostly rounding.
    slope = four * rest.k * wp.cos((theta + theta0) / four) * wp.sin((theta - theta0) / four)
    local = Local()
    local.rest = rest
    local.theta = theta
    local.stiffness = rest.k * wp.max(wp.cos(theta / real(2.0)), real(0.0))
    local.scalar_force = slope + rest.k_d * theta_dot
    local.gradient = hinge.gradient
    return local


@wp.func
def energy(local: Local) -> real:
    # W minus its value at rest, again without differences of nearly equal values.
    two = real(2.0)
    half = local.rest.theta0 / two
    away = (local.theta - local.rest.theta0) / two
    sine = wp.sin(away / two)
    return two * two * local.rest.k * (two * wp.cos(half) * sine * sine + wp.sin(half) * (wp.sin(away) - away))


@wp.func
def force(local: Local, a: int) -> vec3:
    return -local.scalar_force * local.gradient[a]


@wp.func
def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    return (alpha_x * local.stiffness + alpha_v * local.rest.k_d) * wp.outer(local.gradient[a], local.gradient[b])


class BendMode(HingeEnergy):
    """Resistance to bending, with rest angles."""

    formulas: ClassVar[Formulas] = Formulas(4, Rest, NoUniform, Local, prepare, energy, force, block, external=False)
    file_field: ClassVar[str | None] = "rest_angle"

    rest_angle: float | str = quantity(
        "flat",
        unit="deg",
        doc='of every hinge, > 0 if the front is convex: "flat", "shape" as generated, a number, or a mesh file',
    )

    _sculpted: np.ndarray | None = PrivateAttr(None)  # (vertices, 3), from the file

    @field_validator("rest_angle", mode="before")
    @classmethod
    def _usable(cls, value: Any) -> float | str:
        try:
            if isinstance(value, bool):
                raise TypeError  # float(True) is 1.0
            degrees = float(value)  # also 3e1, which YAML reads as text
        except (TypeError, ValueError):
            if isinstance(value, str) and (value in ("flat", "shape") or Path(value).suffix):
                return value
            raise ValueError('must be "flat", "shape", a number of degrees, or the path of a mesh file.') from None
        if not -180.0 < degrees < 180.0:
            raise ValueError(f"{degrees:g} must be between -180 and 180 [deg].")
        return degrees

    def read(self, mesh: Mesh, folder: Path, allow_outside: bool) -> "BendMode":
        if not isinstance(self.rest_angle, str) or self.rest_angle in ("flat", "shape"):
            return self
        found = self.model_copy()
        found._sculpted = read_rest_shape(resolve_scene_path(folder, self.rest_angle, allow_outside), mesh)
        return found

    def content(self) -> tuple[np.ndarray, ...]:
        return () if self._sculpted is None else (self._sculpted,)

    def elements(self, model: Model, part: int | None) -> Elements:
        hinges = self.hinges(model, part)
        rest = np.zeros(len(hinges.particles), Rest.numpy_dtype())
        rest["theta0"] = self._rest_angles(model, part)
        rest["k"] = hinges.weight * hinges.rigidity
        rest["k_d"] = rest["k"] * hinges.damping
        return Elements(hinges.particles, rest)

    def _rest_angles(self, model: Model, part: int | None) -> float | np.ndarray:
        cloth = model.parts[part]
        if self.rest_angle == "flat":
            return 0.0
        if isinstance(self.rest_angle, float):
            return float(np.radians(self.rest_angle))
        positions = cloth.mesh.positions if self._sculpted is None else self._sculpted
        return angles(positions[model.hinges[cloth.hinges] - cloth.particles.start])
