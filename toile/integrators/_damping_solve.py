"""Velocities that are implicit in the damping only: matrix-free conjugate gradients on the damping forces.

    (P + tau D) dv = r0,    D = -df/dv,    P = M + tau_f drag,    filtered by the constraints S

No matrix is assembled; a product with D is one kernel per energy. P is the mass of each particle plus the friction of
particles that slide on solids: 3x3 blocks, inverted directly.

Source      [BMF03] sec. 3 (the solve), [BW98] sec. 5.3 (the filter)
Symbols     tau  half a step [s]     S  free directions     r  residual [kg m/s]     c  search direction
Deviations  Directions are scaled by P, which costs nothing. Each of them then has no momentum, because damping forces
            have none: momentum is conserved wherever the iteration stops. The residual is measured by r P^-1 r:
            speeds, weighted by mass. The scene's tolerance applies to damping alone, and is as loose as for a whole
            step of an implicit integrator: without damping there is nothing to solve.
"""

import numpy as np
import warp as wp

from toile.contact.solid.friction import SlidingFriction
from toile.device.launcher import Launcher
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, precision, real, vec3
from toile.model.constraint_state import ConstraintState
from toile.system.system import System

# Indices of the device scalars: r P^-1 r now and one iteration ago, c q, and m v v of the initial velocity.
R_R, R_R_OLD, C_Q, WHOLE, SCALARS = (wp.constant(place) for place in range(5))
# A residual below this fraction of the speed is rounding.
ROUNDING = 1e-14 if precision == "double" else 1e-6


class DampingSolve:
    """The solver with its vectors, made once."""

    def __init__(
        self,
        system: System,
        constraints: ConstraintState,
        friction: SlidingFriction,
        tolerance: float,
        max_iterations: int,
    ):
        self.system, self.constraints, self.friction = system, constraints, friction
        self.tolerance, self.max_iterations = tolerance, max_iterations
        n, device = system.model.particle_count, system.device
        self.r, self.c, self.q = (wp.zeros(n, dtype=vec3, device=device) for _ in range(3))
        self.scalars = wp.zeros(SCALARS, dtype=wp.float64, device=device)
        self._launch = Launcher(device)
        # On a GPU every readback of the residual waits for the device; on the CPU it is free.
        self._check_every = 1 if wp.get_device(device).is_cpu else 4

    def solve(self, x: wp.array, v_at: wp.array, tau: float, tau_friction: float, e: wp.array, v: wp.array) -> Solution:
        """Improves v, which already includes everything but tau (D v + e). D is evaluated at x and v_at."""
        n, launch, scalars = len(v), self._launch, self.scalars
        constraints, P = self.constraints, [self.system.masses, self.friction, tau_friction]
        scalars.zero_()
        self.system.damping(x, v_at, v, self.q)
        launch(start, n, [*P, constraints.S, tau, self.q, e, v, self.r, scalars])
        r_r, whole = (float(scalars.numpy()[place]) for place in (R_R, WHOLE))
        if not np.isfinite(r_r + whole):
            return Solution(0, np.nan, False)  # a force is not a finite number, or its speed is not
        # A thousandth of the damping force is accurate enough. Where damping is so strong that a thousandth of it still
        # matters, a thousandth of the speed is: the error of v is at most the residual, because A >= P.
        at_start, limit = r_r, max(self.tolerance**2 * min(r_r, whole), ROUNDING**2 * whole)
        iterations = 0
        while r_r > limit and iterations < self.max_iterations:
            launch(direction, n, [*P, constraints.S, self.r, scalars, self.c])
            self.system.damping(x, v_at, self.c, self.q)
            launch(next_iteration, 1, [scalars])
            launch(multiply, n, [*P, constraints.S, tau, self.c, self.q, scalars])
            launch(advance, n, [*P, self.c, self.q, v, self.r, scalars])
            iterations += 1
            if iterations % self._check_every == 0 or iterations == self.max_iterations:
                r_r = float(scalars.numpy()[R_R])
        residual = float(np.sqrt(r_r / at_start)) if at_start > 0.0 else 0.0
        return Solution(iterations, residual, bool(r_r <= limit))  # False for NaN as well


@wp.func
def inertia(masses: wp.array(dtype=real), friction: SlidingFriction, tau: real, i: wp.int32) -> mat33:
    """Returns P of a particle."""
    P = masses[i] * identity()
    if friction.in_contact[i] != 0:
        P += tau * friction.drag[i]
    return P


@wp.func
def divided(masses: wp.array(dtype=real), friction: SlidingFriction, tau: real, i: wp.int32, r: vec3) -> vec3:
    """Returns P^-1 r."""
    if friction.in_contact[i] == 0:
        return r / masses[i]
    return wp.inverse(inertia(masses, friction, tau, i)) * r


@wp.kernel
def start(
    # model
    masses: wp.array(dtype=real),
    # in
    friction: SlidingFriction, tau_friction: real, S: wp.array(dtype=mat33),
    tau: real, Dv: wp.array(dtype=vec3), e: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # out
    r_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    i = wp.tid()
    # The filter is applied twice: the second time removes what rounding left of a large force in a held direction.
    r = -tau * (S[i] * (S[i] * (Dv[i] + e[i])))
    r_out[i] = r
    s = divided(masses, friction, tau_friction, i, r)
    wp.atomic_add(scalars_out, R_R, wp.float64(wp.dot(r, s)))
    wp.atomic_add(scalars_out, WHOLE, wp.float64(masses[i] * wp.dot(v[i], v[i])))


@wp.kernel
def direction(
    # model
    masses: wp.array(dtype=real),
    # in
    friction: SlidingFriction, tau_friction: real, S: wp.array(dtype=mat33),
    r: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
    # in and out
    c_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    c = divided(masses, friction, tau_friction, i, r[i])
    if scalars[R_R_OLD] > wp.float64(0.0):  # the first direction has no predecessor, whatever c_out holds
        c += real(scalars[R_R] / scalars[R_R_OLD]) * c_out[i]
    c_out[i] = S[i] * c


@wp.kernel
def next_iteration(scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[R_R_OLD] = scalars_out[R_R]
    scalars_out[R_R] = wp.float64(0.0)
    scalars_out[C_Q] = wp.float64(0.0)


@wp.kernel
def multiply(
    # model
    masses: wp.array(dtype=real),
    # in
    friction: SlidingFriction, tau_friction: real, S: wp.array(dtype=mat33),
    tau: real, c: wp.array(dtype=vec3),
    # in and out
    q_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    i = wp.tid()
    q = S[i] * (inertia(masses, friction, tau_friction, i) * c[i] + tau * q_out[i])
    q_out[i] = q
    wp.atomic_add(scalars_out, C_Q, wp.float64(wp.dot(c[i], q)))


@wp.kernel
def advance(
    # model
    masses: wp.array(dtype=real),
    # in
    friction: SlidingFriction, tau_friction: real, c: wp.array(dtype=vec3),
    q: wp.array(dtype=vec3),
    # in and out
    v_out: wp.array(dtype=vec3), r_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    i = wp.tid()
    alpha = real(0.0)
    if scalars_out[C_Q] > wp.float64(0.0):
        alpha = real(scalars_out[R_R_OLD] / scalars_out[C_Q])
    v_out[i] = v_out[i] + alpha * c[i]
    r = r_out[i] - alpha * q[i]
    r_out[i] = r
    wp.atomic_add(scalars_out, R_R, wp.float64(wp.dot(r, divided(masses, friction, tau_friction, i, r))))
