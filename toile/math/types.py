"""The number types of every kernel: double precision, or single when the process was started so.

`real` is chosen once, when this module is first imported, from the environment variable TOILE_PRECISION. Kernels are
compiled for the types they were defined with, so it cannot change afterwards.
"""

import os

import numpy as np
import warp as wp

from toile.errors import InputError

wp.config.quiet = True
# No backward kernels: nothing is differentiated, and they would double the time to compile.
wp.config.enable_backward = False

precision = os.environ.get("TOILE_PRECISION", "double")
if precision not in ("double", "single"):
    raise InputError(f'TOILE_PRECISION = "{precision}": must be "double" or "single".')

real = wp.float64 if precision == "double" else wp.float32
vec2 = wp.types.vector(length=2, dtype=real)
vec3 = wp.types.vector(length=3, dtype=real)
mat33 = wp.types.matrix(shape=(3, 3), dtype=real)
mat43 = wp.types.matrix(shape=(4, 3), dtype=real)  # four points, one per row
numpy_real = np.float64 if precision == "double" else np.float32

# Lengths and such are never divided by when below this; far below any physical size in either precision.
TINY = wp.constant(real(1e-30 if precision == "double" else 1e-18))


@wp.func
def identity() -> mat33:
    one, zero = real(1.0), real(0.0)
    return mat33(one, zero, zero, zero, one, zero, zero, zero, one)
