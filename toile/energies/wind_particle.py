"""Wind on each particle, along the normal of the cloth there.

    F = C_vi (n . (u - v)) n,    C_vi = c A

Source      [Pro95] sec. 2.2
Symbols     n  unit normal at the particle: the area-weighted mean of its triangles' normals [-]
            u  velocity of the air [m/s]     v  velocity of the particle [m/s]
            c  coefficient [N s/m^3]     A  rest area of the particle [m^2]
Deviations  The paper gives C_vi [N s/m] itself, the same for all particles of a grid; times an area it does not depend
            on the mesh. `wind` has the same law per triangle, with its current area, and a quadratic term.
            The matrix contains df/dv; df/dx, which is not symmetric, is left out.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.energies.base import Energy, Scope
from toile.linear.block_matrix import BlockMatrix, add_external_block
from toile.math.types import TINY, mat33, numpy_real, real, vec3
from toile.model.model import Model
from toile.model.motion import Vector
from toile.plugins import quantity

if TYPE_CHECKING:
    from toile.system.terms import ForceTerm, Linearization


class WindParticle(Energy):
    """A steady wind that acts on particles by their velocities and normals."""

    scope: ClassVar[Scope] = "scene"
    resists_air: ClassVar[bool] = True
    moves_air: ClassVar[bool] = True

    velocity: Vector = quantity(unit="m/s", doc="velocity of the air")
    linear: float = quantity(unit="N s/m^3", doc="pressure per normal speed ([Pro95] C_vi per area)", ge=0)

    def make_force_term(self, model: Model, device: str) -> "ForceTerm":
        return WindOnParticles(self, model, device)


class WindOnParticles:
    """Wind force on the particles (ForceTerm in toile/system/terms.py): a normal depends on all triangles around."""

    name: ClassVar[str] = "wind_particle"
    is_contact: ClassVar[bool] = False

    def __init__(self, settings: WindParticle, model: Model, device: str):
        n = model.particle_count
        areas = np.bincount(model.triangles.ravel(), np.repeat(model.areas / 3.0, 3), n)
        self.u = vec3(*settings.velocity)
        self._C = wp.array((settings.linear * areas).astype(numpy_real), dtype=real, device=device)
        self._triangles = wp.array(model.triangles, dtype=wp.vec3i, device=device)
        self._normals = wp.zeros(n, dtype=vec3, device=device)
        self._launch = Launcher(device)

    def linearize(self, at: "Linearization", f_out: wp.array, A_out: BlockMatrix) -> None:
        self._find_normals(at.x)
        inputs = [self._C, self._normals, self.u, at.v_at, at.h, A_out.diagonal, f_out, A_out.values, A_out.row_sum]
        self._launch(linearize_wind, len(at.x), inputs)

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None:
        self._find_normals(x)
        self._launch(add_wind_force, len(x), [self._C, self._normals, self.u, v, f_out])

    def activate(self, x: wp.array, v: wp.array) -> None:
        self._find_normals(x)

    def add_damping(self, u: wp.array, y_out: wp.array) -> None:
        """Adds -df/dv u to y, with the normals found last."""
        self._launch(add_wind_damping, len(u), [self._C, self._normals, u, y_out])

    def largest_rates(self, masses: np.ndarray) -> tuple[float, float]:
        """Returns zeros: the matrix already contains its damping."""
        return 0.0, 0.0

    def _find_normals(self, x: wp.array) -> None:
        self._normals.zero_()
        self._launch(add_normals, len(self._triangles), [self._triangles, x, self._normals])

    def measure(self, x: wp.array, v: wp.array) -> float:
        """Returns 0: the wind stores no energy."""
        return 0.0

    def move(self, time: float) -> None:
        """Does nothing: the wind is steady."""


@wp.kernel
def add_normals(
    # model
    triangles: wp.array(dtype=wp.vec3i),
    # in
    x: wp.array(dtype=vec3),
    # out
    normals_out: wp.array(dtype=vec3),
):
    corners = triangles[wp.tid()]
    x0 = x[corners[0]]
    normal = wp.cross(x[corners[1]] - x0, x[corners[2]] - x0)
    for a in range(3):
        wp.atomic_add(normals_out, corners[a], normal)


@wp.func
def unit(normal: vec3) -> vec3:
    return normal / wp.max(wp.length(normal), TINY)


@wp.kernel
def add_wind_force(
    # model
    C: wp.array(dtype=real),
    # in
    normals: wp.array(dtype=vec3), u: vec3, v: wp.array(dtype=vec3),
    # in and out
    f_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    n = unit(normals[i])
    f_out[i] = f_out[i] + C[i] * wp.dot(n, u - v[i]) * n


@wp.kernel
def add_wind_damping(
    # model
    C: wp.array(dtype=real),
    # in
    normals: wp.array(dtype=vec3), u: wp.array(dtype=vec3),
    # in and out
    y_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    n = unit(normals[i])
    y_out[i] = y_out[i] + C[i] * wp.dot(n, u[i]) * n


@wp.kernel
def linearize_wind(
    # model
    C: wp.array(dtype=real),
    # in
    normals: wp.array(dtype=vec3), u: vec3, v: wp.array(dtype=vec3), h: real, diagonal: wp.array(dtype=wp.int32),
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33), row_sum_out: wp.array(dtype=mat33),
):  # fmt: skip
    i = wp.tid()
    n = unit(normals[i])
    f_out[i] = f_out[i] + C[i] * wp.dot(n, u - v[i]) * n
    add_external_block(diagonal, i, h * C[i] * wp.outer(n, n), A_out, row_sum_out)
