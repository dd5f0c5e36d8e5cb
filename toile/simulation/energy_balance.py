"""Whether a step gained energy: kinetic, elastic and in the field of gravity, less the work of constraints.

    gain = K(u) + V(x_end) - K(v) - V(x) - sum of f . (x_end - x)

Steps in which cloth hardly moves are not judged. An implicit step that solves its equations gains none, whatever lands
in it. One linearization does not see how much threads stretch when contacts move particles across them: what it stops
of the motion, and far more, is then stored in the threads, and thrown back.

Source      none
Symbols     K  kinetic energy [J]     V  energy of all terms [J]     f  force of constraints and of solids [N]
Deviations  none
"""

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.device.reductions import ArraySums
from toile.math.types import real, vec3
from toile.model.state import State
from toile.step_limits import AT_REST, HELPED, MAX_ENERGY_GAIN
from toile.system.system import System


class EnergyBalance:
    """The energy of a step before and after."""

    def __init__(self, system: System):
        self._system = system
        n, device = system.model.particle_count, system.device
        self._sums = ArraySums([n, n, n], device)
        self._before: dict[str, float] | None = None  # energies where the step begins, once they are known
        self._gain_before = np.inf  # [J]
        thickest = max((force.thickest for force in system.contact_forces), default=0.0)
        self._least_motion = (AT_REST * thickest) ** 2 * float(np.sum(system.model.masses))
        self._launch = Launcher(device)

    def begin_step(self) -> None:
        """Another step begins."""
        self._before, self._gain_before = None, np.inf

    def gains(self, state: State, x: wp.array, u: wp.array, force: wp.array) -> bool:
        """Whether a step from `state` to x and u, with this force of constraints, gains more energy than is allowed,
        and less than at the call before."""
        motion = [self._system.masses, state.x, state.v, x, u, force]
        self._launch(measure_motion, len(x), [*motion, *self._sums.parts])
        kinetic, gain, squared_motion = self._sums()
        if squared_motion < self._least_motion:
            return False
        before = self._before = self._before or self._system.energies(state.x, state.v)
        after = self._system.energies(x, u)
        gain += sum(after.values()) - sum(before.values())
        stored = sum(value for name, value in before.items() if name != "gravity")
        helped, self._gain_before = gain < HELPED * self._gain_before, gain
        return helped and gain > MAX_ENERGY_GAIN * (kinetic + stored)


@wp.kernel
def measure_motion(
    # model
    masses: wp.array(dtype=real),
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), u: wp.array(dtype=vec3),
    force: wp.array(dtype=vec3),
    # out
    kinetic_out: wp.array(dtype=real), gain_out: wp.array(dtype=real), motion_out: wp.array(dtype=real),
):  # fmt: skip
    """The larger kinetic energy of each particle and what it gained less the work of constraints [J], and its squared
    motion times its mass [kg m^2]."""
    i = wp.tid()
    before, after = real(0.5) * masses[i] * wp.length_sq(v[i]), real(0.5) * masses[i] * wp.length_sq(u[i])
    kinetic_out[i] = wp.max(before, after)
    d = x_end[i] - x[i]
    gain_out[i] = after - before - wp.dot(force[i], d)
    motion_out[i] = masses[i] * wp.length_sq(d)
