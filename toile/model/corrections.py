"""Corrections of a step: how filters and contacts changed its end after the integrator.

Integrators that remember earlier steps need them: a velocity that changed at once is not the derivative of a smooth
motion.
"""

import warp as wp

from toile.math.types import vec3

# Values of `Corrections.discontinuous`: the motion of a particle is not smooth in the directions that contacts hold in
# this step, or in all directions.
DISCONTINUOUS_WHERE_HELD, DISCONTINUOUS = wp.constant(1), wp.constant(2)


class Corrections:
    """Changes of position and velocity at the end of a step, for every particle."""

    def __init__(self, particle_count: int, device: str):
        # Filters that conserve momentum add what they change: position [m] and velocity [m/s].
        self.dx, self.dv = (wp.zeros(particle_count, dtype=vec3, device=device) for _ in range(2))
        # Zero where the motion is smooth.
        self.discontinuous = wp.zeros(particle_count, dtype=wp.int32, device=device)

    def begin_step(self) -> None:
        """Forgets everything: a new candidate is computed."""
        self.discontinuous.zero_()
        self.clear()

    def clear(self) -> None:
        """Forgets dx and dv: the end of the same candidate is corrected again."""
        self.dx.zero_()
        self.dv.zero_()
