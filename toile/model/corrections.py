"""How the end of a step was changed beside what the integrator did.

Integrators that remember earlier steps have to know: a velocity that changed at once is not the derivative of a smooth
motion.
"""

import warp as wp

# Where the motion of a particle is not smooth: in the directions that contacts hold in this step, or in all.
JUMPED_WHERE_HELD, JUMPED = wp.constant(1), wp.constant(2)
