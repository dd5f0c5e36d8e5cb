"""Variable-step BDF2: second order, stable at any step; the default.

    x1 = ((1 + r)^2 x_n - r^2 x_(n-1)) / (1 + 2 r) + b h v1,    v1 likewise with f/m,    b = (1 + r)/(1 + 2 r)

with r = h / (previous h). The first step, the first after a jump, and one much longer than the step before have r = 0,
which is backward Euler. So have three steps after an impact in which contacts between cloths took much of the kinetic
energy: the motion before it would continue as a rebound, and stretch that the impact left would return as motion. There
forces are linearized at the start of the step, because velocities that have just changed at once lead to stretched
cloth.

Source      the linear systems are those of [BW98] eq. (18) with b h for h; the solve is in toile/integrators/newton.py
Symbols     r  ratio of steps [-]     h  step [s]
Deviations  [BW98] uses backward Euler linearized at the start of the step, which makes cloth swing in slow motion. Here
            forces are linearized where the present velocity leads.
"""

import warp as wp

from toile.device.launcher import Launcher
from toile.integrators.base import Integrator, IntegratorContext, Stepper
from toile.integrators.newton import NewtonStep, from_start, from_velocity
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, real, vec3
from toile.model.corrections import DISCONTINUOUS, DISCONTINUOUS_WHERE_HELD
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import quantity

# Steps may grow by this much; beyond 1 + sqrt(2) BDF2 is not stable, and a step starts afresh with backward Euler.
LARGEST_RATIO = 2.4
# Steps after an impact that are backward Euler: the stretch that it left would return as motion.
SETTLING = 3


class ImplicitBdf2(Integrator):
    """Second order at variable steps."""

    newton_iterations: int = quantity(1, doc="linearizations per step", ge=1, le=50)

    def start(self, context: IntegratorContext) -> Stepper:
        return Bdf2Stepper(NewtonStep(context, from_velocity, self.newton_iterations), context)


class Bdf2Stepper(Stepper):
    def __init__(self, newton: NewtonStep, context: IntegratorContext):
        self.newton, self.context = newton, context
        self.constraint_forces = newton.force
        n, device = context.system.model.particle_count, context.system.device
        self.x_before = wp.zeros(n, dtype=vec3, device=device)
        self.v_before = wp.zeros(n, dtype=vec3, device=device)
        self.h_before: float | None = None
        self._unsettled = 0
        self._launch = Launcher(device)

    def step(self, state: State, state_out: State, h: float) -> Solution:
        r = self._ratio(h)
        self.newton.first_guess = from_start if self._unsettled else from_velocity
        history = [state.x, state.v, self.x_before, self.v_before, r]
        self._launch(reference, len(state.x), [*history, self.newton.x_ref, self.newton.v_ref])
        return self.newton.solve(state, state_out, h * (1.0 + r) / (1.0 + 2.0 * r))

    def _ratio(self, h: float) -> float:
        r = 0.0 if self.h_before is None else h / self.h_before
        return 0.0 if r > LARGEST_RATIO else r

    def accept(self, state: State, state_out: State, h: float) -> None:
        states = [state.x, state.v, state_out.x, state_out.v]
        constraints, corrections = self.context.constraints, self.context.corrections
        changes = [constraints.S, constraints.S_user, corrections.discontinuous, corrections.dx, corrections.dv]
        self._launch(keep_history, len(state.x), [*states, *changes, h, self.x_before, self.v_before])
        if self.context.system.alters_positions:
            # Position alteration is no motion: the history moves along.
            self._launch(shift, len(state.x), [self.newton.y, self.x_before])
        self._unsettled = SETTLING if corrections.impact else max(self._unsettled - 1, 0)
        self.h_before = None if self._unsettled else h

    def restart(self) -> None:
        self.h_before = None

    def state_dict(self) -> StateDict:
        state_dict = dict(self.newton.solver.state_dict()) | {"unsettled": self._unsettled}
        if self.h_before is not None:
            state_dict |= {"h": self.h_before, "x": self.x_before.numpy(), "v": self.v_before.numpy()}
        return state_dict

    def load_state_dict(self, state_dict: StateDict) -> None:
        self.newton.solver.load_state_dict(state_dict)
        self._unsettled = int(state_dict["unsettled"])
        if "h" in state_dict:
            self.h_before = float(state_dict["h"])
            self.x_before.assign(state_dict["x"])
            self.v_before.assign(state_dict["v"])


@wp.kernel
def reference(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    x_before: wp.array(dtype=vec3), v_before: wp.array(dtype=vec3), r: real,
    # out
    x_ref_out: wp.array(dtype=vec3), v_ref_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    # ((1 + r)^2 x - r^2 x_before)/(1 + 2 r), written so that what does not move stays where it is to the last bit.
    past = r * r / (real(1.0) + real(2.0) * r)
    x_ref_out[i] = x[i] + past * (x[i] - x_before[i])
    v_ref_out[i] = v[i] + past * (v[i] - v_before[i])


@wp.kernel
def shift(y: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3)):
    i = wp.tid()
    x_out[i] = x_out[i] + y[i]


@wp.kernel
def keep_history(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    S: wp.array(dtype=mat33), S_user: wp.array(dtype=mat33), discontinuous: wp.array(dtype=wp.int32),
    dx: wp.array(dtype=vec3), dv: wp.array(dtype=vec3), h: real,
    # out
    x_before_out: wp.array(dtype=vec3), v_before_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    # Where a contact changed the motion of a particle at once, its history is replaced: as if it had always moved as it
    # does now. The motion before it landed, or before it was projected, would continue as a rebound.
    C = mat33()
    if discontinuous[i] == DISCONTINUOUS_WHERE_HELD:
        C = S_user[i] - S[i]
    if discontinuous[i] == DISCONTINUOUS:
        C = identity()
    # Corrections that conserve momentum are removed from the history, and no more: momentum stays conserved.
    x_past, v_past = x[i] + dx[i] - h * dv[i], v[i] + dv[i]
    x_before_out[i] = x_past + C * (x_end[i] - h * v_end[i] - x_past)
    v_before_out[i] = v_past + C * (v_end[i] - v_past)
