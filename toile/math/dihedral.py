r"""Dihedral angle of a hinge and its gradient.

theta rotates the normal of the triangle of x0 into that of x1: it is positive where the cloth is convex on its front,
the side from which triangles are counterclockwise, and lies between -180 and 180 degrees. A fully folded hinge has
either sign: beyond it, cloth has passed through itself and counts as folded to the other side.

    #        x3
    #      / | \
    #    x0  |  x1        hinge: flaps x0, x1; shared edge x2-x3   ([BMF03] fig. 1, counted from 0)
    #      \ | /
    #        x2

Source      [BW98] sec. 4.3 (sin, cos of theta), [BMF03] sec. 4 (the bending mode)
Symbols     N0, N1  area-weighted normals [m^2]     E  shared edge [m]     theta  angle, 0 when flat [rad]
Deviations  [BMF03]'s u is -d theta/dx with its own sign of theta; the gradient here is the true one.
"""

import numpy as np
import warp as wp

from toile.math.types import TINY, mat43, real


@wp.struct
class Hinge:
    theta: real
    gradient: mat43  # d theta / d x_a, one row per point


@wp.func
def dihedral(x: mat43) -> Hinge:
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    N0 = wp.cross(x0 - x2, x0 - x3)
    N1 = wp.cross(x1 - x3, x1 - x2)
    E = x3 - x2
    length = wp.length(E)
    e = E / wp.max(length, TINY)
    # atan2, not acos: near flat the derivative of acos is unbounded and rounding becomes force. The normals need not
    # be unit vectors: both arguments carry the same positive factor |N0| |N1|.
    hinge = Hinge()
    hinge.theta = wp.atan2(wp.dot(wp.cross(N0, N1), e), wp.dot(N0, N1))
    # A collapsed flap has no normal: its force is zero, rather than a division by zero.
    a0 = N0 / wp.max(wp.dot(N0, N0), TINY)
    a1 = N1 / wp.max(wp.dot(N1, N1), TINY)
    g0 = -length * a0
    g1 = -length * a1
    g2 = -(wp.dot(x0 - x3, e) * a0 + wp.dot(x1 - x3, e) * a1)
    g3 = wp.dot(x0 - x2, e) * a0 + wp.dot(x1 - x2, e) * a1
    hinge.gradient = mat43(g0[0], g0[1], g0[2], g1[0], g1[1], g1[2], g2[0], g2[1], g2[2], g3[0], g3[1], g3[2])
    return hinge


@wp.kernel
def measure_angles(x: wp.array(dtype=mat43), theta_out: wp.array(dtype=real)):
    h = wp.tid()
    theta_out[h] = dihedral(x[h]).theta


def angles(corners: np.ndarray) -> np.ndarray:
    """Returns theta of hinges (hinges, 4, 3) on the host [rad], bitwise equal to that in kernels."""
    theta = wp.zeros(len(corners), dtype=real, device="cpu")
    wp.launch(measure_angles, len(corners), [wp.array(corners, dtype=mat43, device="cpu"), theta], device="cpu")
    return theta.numpy().astype(float)
