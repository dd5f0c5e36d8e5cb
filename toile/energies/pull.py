"""A spring and damper from a point of the cloth to a point in space: the mouse force of interactive dragging.

    f_a = -w_a (k (p - target) + d (dp/dt - dtarget/dt)),    p = sum_a w_a x_a

Source      [BW98] sec. 4.4
Symbols     w_a  barycentric weights of the grabbed point [-]     k  stiffness [N/m]     d  damping [N s/m]
Deviations  none
"""

from typing import ClassVar

import numpy as np
import warp as wp
from pydantic import model_validator

from toile.energies.base import Elements, Energy, Formulas, Scope, Struct
from toile.math.types import identity, mat33, real, vec3
from toile.model.model import Model
from toile.model.motion import Motion, Vector
from toile.model.time_window import holds_in_step_to, require_window
from toile.plugins import quantity


@wp.struct
class Rest:
    weights: vec3
    k: real
    d: real


@wp.struct
class PullTarget:
    position: vec3
    velocity: vec3
    active: real  # 1 while it pulls, 0 otherwise


@wp.struct
class Local:
    rest: Rest
    active: real
    f: vec3
    E: real


@wp.func
def prepare(rest: Rest, target: PullTarget, x: mat33, x_tension: mat33, v: mat33, v_at: mat33) -> Local:
    w = rest.weights
    offset = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] - target.position
    speed = w[0] * v_at[0] + w[1] * v_at[1] + w[2] * v_at[2] - target.velocity
    local = Local()
    local.rest = rest
    local.active = target.active
    local.f = -target.active * (rest.k * offset + rest.d * speed)
    local.E = target.active * real(0.5) * rest.k * wp.dot(offset, offset)
    return local


@wp.func
def energy(local: Local) -> real:
    return local.E


@wp.func
def force(local: Local, a: int) -> vec3:
    return local.rest.weights[a] * local.f


@wp.func
def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    strength = local.active * (alpha_x * local.rest.k + alpha_v * local.rest.d)
    return strength * local.rest.weights[a] * local.rest.weights[b] * identity()


class Pull(Energy):
    """Pulls one point of a cloth towards a point that may move."""

    scope: ClassVar[Scope] = "scene"
    changes_in_time: ClassVar[bool] = True
    formulas: ClassVar[Formulas] = Formulas(3, Rest, PullTarget, Local, prepare, energy, force, block)

    cloth: str | None = quantity(None, doc="name of the cloth; optional if there is only one")
    triangle: int = quantity(0, doc="triangle of the grabbed point, counted from 0 within the cloth", ge=0)
    weights: Vector = quantity((1.0, 0.0, 0.0), doc="barycentric weights in that triangle, summing to 1")
    target: Vector = quantity(unit="m", doc="target position, before its motion")
    motion: Motion | None = quantity(None, doc="keyframes that move the target")
    stiffness: float = quantity(50.0, unit="N/m", doc="stiffness of the spring", ge=0)
    damping: float = quantity(0.5, unit="N s/m", doc="damping coefficient of the spring", ge=0)
    start: float = quantity(0.0, unit="s", doc="time at which it starts to pull")
    end: float | None = quantity(None, unit="s", doc="time at which it releases; by default never")

    @model_validator(mode="after")
    def _usable(self) -> "Pull":
        if abs(sum(self.weights) - 1.0) > 1e-6:
            raise ValueError(f"weights sum to {sum(self.weights):g}; they must sum to 1.")
        require_window(self.start, self.end)
        return self

    def elements(self, model: Model, part: int | None) -> Elements:
        cloth = model.part_named(self.cloth)
        rest = np.zeros(1, Rest.numpy_dtype())
        rest["weights"], rest["k"], rest["d"] = self.weights, self.stiffness, self.damping
        return Elements(model.triangles[cloth.triangles][self.triangle : self.triangle + 1], rest)

    def uniform_at(self, time: float, seed: int) -> Struct:
        position, velocity = np.array([self.target]), np.zeros((1, 3))
        if self.motion is not None:
            position, velocity = self.motion.move(position, time)
        target = PullTarget()
        target.position, target.velocity = vec3(*position[0]), vec3(*velocity[0])
        target.active = real(1.0 if holds_in_step_to(time, self.start, self.end) else 0.0)
        return target
