"""A custom force.

An energy is a class with its settings as fields, and a few Warp functions: the energy of one element, its force, and
its block of the matrix. Here a spring pulls every particle to a point, in proportion to its mass:

    E = m k |x - c|^2 / 2,    f = -m k (x - c),    -df/dx = m k

Free cloth then oscillates through the point with a period of 2 pi / sqrt(k), whatever its fabric.
"""

# %%
import os
from typing import ClassVar

import numpy as np
import warp as wp

import toile
from toile.energies.base import Elements, Energy, Formulas, NoUniform
from toile.math.types import identity, mat33, real, vec3
from toile.model.model import Model
from toile.plugins import quantity

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"

# %% [markdown] The formulas of one element, which is one particle here. `Rest` has the constants of an element, and
# `Local` the values that the other three functions share. Numbers in kernels are `real(0.5)`, because a bare 0.5 has
# single precision.

# %%
point = wp.types.matrix(shape=(1, 3), dtype=real)


@wp.struct
class Rest:
    k: real  # mass times k [N/m]
    center: vec3


@wp.struct
class Local:
    k: real
    away: vec3


@wp.func
def prepare(rest: Rest, uniform: NoUniform, x: point, x_tension: point, v: point, v_at: point) -> Local:
    local = Local()
    local.k = rest.k
    local.away = x[0] - rest.center
    return local


@wp.func
def energy(local: Local) -> real:
    return real(0.5) * local.k * wp.dot(local.away, local.away)


@wp.func
def force(local: Local, a: int) -> vec3:
    return -local.k * local.away


@wp.func
def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    return alpha_x * local.k * identity()


# %% [markdown]
# The class has fields with units and limits, which are checked like those of any scene, and the elements it acts on.


# %%
class DrawIn(Energy):
    scope: ClassVar[str] = "scene"  # it acts on all cloths
    formulas: ClassVar[Formulas] = Formulas(1, Rest, NoUniform, Local, prepare, energy, force, block)

    k: float = quantity(unit="1/s^2", doc="acceleration per distance", ge=0)
    center: tuple[float, float, float] = quantity((0.0, 0.0, 0.0), unit="m", doc="where it draws to")

    @classmethod
    def type_name(cls) -> str:
        """Its name in the certificate. In a file draw_in.py it would be that of the file."""
        return "draw_in"

    def elements(self, model: Model, part: int | None) -> Elements:
        rest = np.zeros(model.particle_count, Rest.numpy_dtype())
        rest["k"] = self.k * model.masses
        rest["center"] = self.center
        return Elements(np.arange(model.particle_count, dtype=np.int32)[:, None], rest)


# %% [markdown] An object can be used in place of a name, and needs no registration. To use it in scene files too, put
# it into a package with an entry point in the group `toile.energies` ([adding a type](../scenes.md#adding-a-type)).

# %%
k = 40.0  # [1/s^2]
n = 7 if SMALL else 21
scene = toile.Scene(
    name="drawn",
    time={"frames": 90, "fps": 60, "max_step": 1 / 240},
    gravity=(0, 0, 0),
    cloth=[{"shape": {"type": "grid", "size": (0.2, 0.2), "resolution": (n, n)}, "translation": (0.5, 0, 0)}],
    forces=[DrawIn(k=k)],
)
frames = list(toile.Simulation(scene).run())

# %% [markdown]
# The center of the cloth first passes the point after a quarter of the period.

# %%
x = np.array([frame.positions[:, 0].mean() for frame in frames])
times = np.array([frame.time for frame in frames])
i = int(np.flatnonzero(x <= 0)[0])
passed = times[i - 1] + (times[i] - times[i - 1]) * x[i - 1] / (x[i - 1] - x[i])
print(f"period {4 * passed:.3f} s, expected {2 * np.pi / np.sqrt(k):.3f} s")
print("energies at the end [J]:", {name: round(value, 5) for name, value in frames[-1].certificate["energy"].items()})
