"""Velocities of which only the damping is implicit: conjugate gradients whose products are calls of the damping forces.

    (P + tau D) dv = r0,    D = -df/dv,    P = M + tau_f drag,    filtered by the constraints S

No matrix is made; a product with D is one kernel per energy. P is the mass of each particle, and the friction of those
that slide on a solid: 3x3, and solved as it stands.

Source      [BMF03] sec. 3 (the solve), [BW98] sec. 5.3 (the filter)
Symbols     tau  half a step [s]     S  free directions     r  residual [kg m/s]     c  search direction
Deviations  Directions are scaled by P, which is free. Each of them then has no momentum, because damping forces have
            none: momentum is kept wherever the iteration stops. The residual is measured by r P^-1 r: speeds, weighted
            by mass. The scene's tolerance is that of damping alone, and as loose as it is for a whole step of an
            implicit integrator: without damping there is nothing to solve.
"""

import numpy as np
import warp as wp

from toile.constraints.state import ConstraintState
from toile.device.launcher import Launcher
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, precision, real, vec3
from toile.system.system import System

# Places of the device scalars: r P^-1 r now and one iteration ago, c q, and m v v of the velocity to begin with.
R_R, R_R_OLD, C_Q, WHOLE, SCALARS = (wp.constant(place) for place in range(5))
# Of the speed: a residual below this is rounding.
ROUNDING = 1e-14 if precision == "double" else 1e-6


class DampingSolve:
    """The solver with its vectors, made once."""

    def __init__(self, system: System, constraints: ConstraintState, tolerance: float, max_iterations: int):
        self.system, self.constraints = system, constraints
        self.tolerance, self.max_iterations = tolerance, max_iterations
        n, device = system.model.particle_count, system.device
        self.r, self.c, self.q = (wp.zeros(n, dtype=vec3, device=device) for _ in range(3))
        self.scalars = wp.zeros(SCALARS, dtype=wp.float64, device=device)
        self._launch = Launcher(device)
        # On a GPU every look at the residual waits for the device; on the CPU it is free.
        self._check_every = 1 if wp.get_device(device).is_cpu else 4

    def solve(self, x: wp.array, v_at: wp.array, tau: float, tau_friction: float, e: wp.array, v: wp.array) -> Solution:
        """Improves v, which has all but tau (D v + e) in it already. D is taken at x and v_at."""
        n, launch, scalars = len(v), self._launch, self.scalars
        masses, constraints = self.system.masses, self.constraints
        P = [masses, constraints.in_contact, constraints.drag, tau_friction]
        scalars.zero_()
        self.system.damping(x, v_at, v, self.q)
        launch(start, n, [*P, constraints.S, tau, self.q, e, v, self.r, scalars])
        r_r, whole = (float(scalars.numpy()[place]) for place in (R_R, WHOLE))
        if not np.isfinite(r_r + whole):
            return Solution(0, np.nan, False)  # a force is not a finite number, or its speed is not
        # A thousandth of the damping force is enough; where that is so strong that a thousandth of it would still be
        # felt, a thousandth of the speed: an error of v is at most the residual, because A >= P.
        at_start, limit = r_r, max(self.tolerance**2 * min(r_r, whole), ROUNDING**2 * whole)
        iterations = 0
        while r_r > limit and iterations < self.max_iterations:
            launch(direction, n, [*P, constraints.S, self.r, self.c, scalars])
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
def inertia(masses: wp.array(dtype=real), in_contact: wp.array(dtype=wp.int32), drag: wp.array(dtype=mat33), tau: real,
            i: wp.int32) -> mat33:  # fmt: skip
    """P of a particle."""
    P = masses[i] * identity()
    if in_contact[i] != 0:
        P += tau * drag[i]
    return P


@wp.func
def divided(masses: wp.array(dtype=real), in_contact: wp.array(dtype=wp.int32), drag: wp.array(dtype=mat33), tau: real,
            i: wp.int32, r: vec3) -> vec3:  # fmt: skip
    """P^-1 r."""
    if in_contact[i] == 0:
        return r / masses[i]
    return wp.inverse(inertia(masses, in_contact, drag, tau, i)) * r


@wp.kernel
def start(
    # model
    masses: wp.array(dtype=real),
    # in
    in_contact: wp.array(dtype=wp.int32), drag: wp.array(dtype=mat33), tau_friction: real, S: wp.array(dtype=mat33),
    tau: real, Dv: wp.array(dtype=vec3), e: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # out
    r_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    # Twice: what the filter leaves of a large force in a held direction by rounding, it takes out the second time.
    r = -tau * (S[i] * (S[i] * (Dv[i] + e[i])))
    r_out[i] = r
    s = divided(masses, in_contact, drag, tau_friction, i, r)
    wp.atomic_add(scalars_out, R_R, wp.float64(wp.dot(r, s)))
    wp.atomic_add(scalars_out, WHOLE, wp.float64(masses[i] * wp.dot(v[i], v[i])))


@wp.kernel
def direction(
    # model
    masses: wp.array(dtype=real),
    # in
    in_contact: wp.array(dtype=wp.int32), drag: wp.array(dtype=mat33), tau_friction: real, S: wp.array(dtype=mat33),
    r: wp.array(dtype=vec3),
    # in and out
    c_out: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    c = divided(masses, in_contact, drag, tau_friction, i, r[i])
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
    in_contact: wp.array(dtype=wp.int32), drag: wp.array(dtype=mat33), tau_friction: real, S: wp.array(dtype=mat33),
    tau: real, c: wp.array(dtype=vec3),
    # in and out
    q_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    q = S[i] * (inertia(masses, in_contact, drag, tau_friction, i) * c[i] + tau * q_out[i])
    q_out[i] = q
    wp.atomic_add(scalars_out, C_Q, wp.float64(wp.dot(c[i], q)))


@wp.kernel
def advance(
    # model
    masses: wp.array(dtype=real),
    # in
    in_contact: wp.array(dtype=wp.int32), drag: wp.array(dtype=mat33), tau_friction: real, c: wp.array(dtype=vec3),
    q: wp.array(dtype=vec3),
    # in and out
    v_out: wp.array(dtype=vec3), r_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    alpha = real(0.0)
    if scalars_out[C_Q] > wp.float64(0.0):
        alpha = real(scalars_out[R_R_OLD] / scalars_out[C_Q])
    v_out[i] = v_out[i] + alpha * c[i]
    r = r_out[i] - alpha * q[i]
    r_out[i] = r
    wp.atomic_add(scalars_out, R_R, wp.float64(wp.dot(r, divided(masses, in_contact, drag, tau_friction, i, r))))
