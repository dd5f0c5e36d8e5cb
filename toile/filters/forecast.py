"""Interface forecasting: a point that would end the step inside a solid gets the velocity that avoids it.

    phi_new = phi + dt (v_p - v) . N                                     if phi_new < 0:
    v_pN <- v_N - phi/dtau,    v_T,rel <- max(0, 1 - mu |change of v_pN| / |v_T,rel|) v_T,rel

v_p is the mean velocity of the step, so that the corrected point ends where the forecast says.

The solve before it does not include the contact: cloth that hangs from a solid is held only because the solve pulls it
into the solid and the forecast puts it back. Cloth therefore stretches at the rim of a contact, more at larger steps.

Source      [BMF03] sec. 5.2
Symbols     phi  distance less the thickness [m]     N  outward normal     v  velocity of the solid there [m/s]
            dt  the step [s]     dtau  time in which the surface is reached [s]     mu  friction
Deviations  The paper also writes v_pN - phi_new/dtau, which is the same only when dtau = dt. Only the formula above
            leads to the surface after dtau, as the text demands.
"""

from functools import cache
from typing import Any, ClassVar

import warp as wp

from toile.device.launcher import Launcher
from toile.filters.base import Correction, Filter, FilterContext
from toile.math.solid import ANYWHERE, Pose, end_world, start_frame
from toile.math.types import TINY, mat33, real, vec3
from toile.model.corrections import DISCONTINUOUS
from toile.model.model import Model
from toile.model.state import State
from toile.plugins import quantity

# Cloth hung over a ball stretches by 5 % where it leaves the ball at steps of 1/120 s and by 2.5 % at 1/240 s, on any
# mesh; over a sharp rim by several times as much (docs/solids.md). Steps above LARGEST_STEP [s] give a warning.
LARGEST_STEP, STRETCH = 1.0 / 240.0, 0.025
# Scene files write 1/240 with a few digits.
ROUNDED = 1e-3


class Forecast(Filter):
    """Contact with solids by velocities; it takes the place of solid_contact unless both are listed."""

    keeps_out_of_solids: ClassVar[bool] = True
    needs_solids: ClassVar[bool] = True

    thickness: float = quantity(1e-3, unit="m", doc="distance at which cloth is kept in front of a solid", ge=0)
    relaxation: float | None = quantity(
        None, unit="s", doc="time in which a point reaches the surface; the step when not given", gt=0
    )

    deepest_start: float = quantity(
        0.1, unit="m", doc="cloth that starts deeper than this inside a solid is an error", ge=0
    )

    def start(self, context: FilterContext) -> Correction:
        return ForecastCorrection(self, context)

    def recovery(self) -> str:
        """Describes how cloth comes out of a solid, for a message."""
        if self.relaxation is None:
            return "They are thrown out in one step, however short: set relaxation of forecast, or use solid_contact."
        return f"They are pushed out within some {self.relaxation:g} s, and keep the speed of that."

    def advice(self, model: Model, max_step: float | None) -> list[str]:
        """Warns of steps so large that cloth stretches."""
        if max_step is None or max_step <= LARGEST_STEP * (1.0 + ROUNDED):
            return []
        strain = STRETCH * max_step / LARGEST_STEP
        return [
            "filters: forecast does not hold cloth during the solve, so that it stretches where it leaves a solid, by "
            f"some {100.0 * strain:.0f} % at steps of 1/{1.0 / max_step:.0f} s. Set time.max_step to "
            f"1/{1.0 / LARGEST_STEP:.0f} s or less, or leave contact to solid_contact."
        ]


class ForecastCorrection(Correction):
    """Applies the forecast to every particle and solid."""

    def __init__(self, settings: Forecast, context: FilterContext):
        self.settings, self.context = settings, context
        self._kernels = [forecast_kernel(solid.functions) for solid in context.solids]
        self._launch = Launcher(context.solids.device)

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        constraints, dtau = self.context.constraints, self.settings.relaxation or h
        for s, (solid, kernel) in enumerate(zip(self.context.solids, self._kernels, strict=True)):
            friction, thickness = float(solid.settings.friction), self.settings.thickness
            of_solid = [solid.shape, self.context.solids.poses, s, friction, thickness]
            inputs = [*of_solid, h, dtau, state.x, constraints.S_user, state_out.x, state_out.v]
            inputs.append(self.context.corrections.discontinuous)
            self._launch(kernel, len(state.x), inputs)
        return None


@wp.func
def respond(v_p: vec3, v: vec3, N: vec3, phi: real, mu: real, dt: real, dtau: real) -> vec3:
    """Returns the velocity of a point after the forecast; unchanged if the point stays outside."""
    phi_new = phi + dt * wp.dot(v_p - v, N)
    if phi_new >= real(0.0):
        return v_p
    v_pN, v_N = wp.dot(v_p, N), wp.dot(v, N)
    v_pN_new = v_N - phi / dtau
    slip = (v_p - v_pN * N) - (v - v_N * N)
    speed = wp.length(slip)
    kept = real(0.0)
    if speed > TINY:
        kept = wp.max(real(0.0), real(1.0) - mu * wp.abs(v_pN_new - v_pN) / speed)
    return v_pN_new * N + (v - v_N * N) + kept * slip


@cache
def forecast_kernel(functions: Any) -> wp.Kernel:
    """Makes the kernel for one kind of collider."""
    shape_type, closest = functions.shape, functions.closest

    def forecast(
        # solid
        shape: shape_type, poses: wp.array(dtype=Pose), solid: wp.int32, mu: real, thickness: real,
        # in
        dt: real, dtau: real, x: wp.array(dtype=vec3), S_user: wp.array(dtype=mat33),
        # in and out
        x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3), discontinuous_out: wp.array(dtype=wp.int32),
    ):  # fmt: skip
        i = wp.tid()
        pose = poses[solid]
        p = start_frame(pose, x[i])
        v_p = (x_out[i] - x[i]) / dt
        found = closest(shape, p, ANYWHERE)
        if wp.length_sq(found.velocity) > real(0.0):
            # The shape is that of the end of the step: the point moves along with it, to the distance it has now.
            p += dt * found.velocity
            found = closest(shape, p, ANYWHERE)
        v = (end_world(pose, p) - x[i]) / dt
        # The normal is that of the end of the step, because a solid that turns moves its surface.
        v_new = respond(v_p, v, pose.R * found.normal, found.distance - thickness, mu, dt, dtau)
        change = S_user[i] * (v_new - v_p)
        if wp.length_sq(change) > real(0.0):
            # Second-order schemes end with another velocity than the mean; a stopped point continues with this one.
            x_out[i] = x_out[i] + dt * change
            v_out[i] = v_out[i] + S_user[i] * (v_new - v_out[i])
            discontinuous_out[i] = DISCONTINUOUS

    return wp.Kernel(forecast, module=wp.get_module(f"toile.forecast.{functions.kind}"))
