"""Corrections of a step: changes that filters and contacts make to its end state after the integrator.

Multistep integrators need them: a velocity that changes abruptly is not the derivative of a smooth motion.
"""

import warp as wp

from toile.math.types import vec3

# Values of `Corrections.discontinuous`: the motion of a particle is not smooth in the directions that contacts hold in
# this step, or in all directions.
DISCONTINUOUS_WHERE_HELD, DISCONTINUOUS = wp.constant(1), wp.constant(2)


class Corrections:
    """Changes of position and velocity at the end of a step, for every particle."""

    def __init__(self, particle_count: int, device: str):
        # Filters that conserve momentum add their changes of position [m] and velocity [m/s] here.
        self.dx, self.dv = (wp.zeros(particle_count, dtype=vec3, device=device) for _ in range(2))
        # Zero where the motion is smooth.
        self.discontinuous = wp.zeros(particle_count, dtype=wp.int32, device=device)
        # Whether contacts between cloths took so much kinetic energy that no motion is smooth
        self.impact = False

    def begin_step(self) -> None:
        """Clears everything before a new candidate of the step is computed."""
        self.discontinuous.zero_()
        self.clear()

    def clear(self) -> None:
        """Clears what filters changed before the end state of the same candidate is corrected again."""
        self.dx.zero_()
        self.dv.zero_()
        self.impact = False
