"""Number types of all kernels: double precision, or single if the process was started with it.

`real` is chosen once, at the first import of this module, from the environment variable TOILE_PRECISION. Kernels are
compiled for the types they were defined with, so it cannot change afterwards.
"""

import os
import sys
import tempfile

import numpy as np
import warp as wp

from toile.errors import InputError

# Warp's own progress messages would mix with the output of commands, and with their JSON.
wp.config.log_level = wp.LOG_WARNING
# No backward kernels: nothing is differentiated, and they would double the compile time.
wp.config.enable_backward = False


def _start_warp() -> None:
    """Initializes Warp without its warning about a missing CUDA driver: most machines have none, and need none."""
    try:
        stderr = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # stderr was replaced by something that is not a file
        wp.init()
        return
    sys.stderr.flush()
    kept = os.dup(stderr)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), stderr)  # the message comes from native code, which bypasses sys.stderr
        try:
            wp.init()
        finally:
            os.dup2(kept, stderr)
            os.close(kept)
        messages.seek(0)
        rest = [line for line in messages.read().splitlines(keepends=True) if b"NVIDIA CUDA driver" not in line]
        os.write(stderr, b"".join(rest))


_start_warp()

precision = os.environ.get("TOILE_PRECISION", "double")
if precision not in ("double", "single"):
    raise InputError(f'TOILE_PRECISION = "{precision}": must be "double" or "single".')

real = wp.float64 if precision == "double" else wp.float32
vec3 = wp.types.vector(length=3, dtype=real)
vec4 = wp.types.vector(length=4, dtype=real)
mat33 = wp.types.matrix(shape=(3, 3), dtype=real)
mat43 = wp.types.matrix(shape=(4, 3), dtype=real)  # four points, one per row
numpy_real = np.float64 if precision == "double" else np.float32

# Lower limit of divisors (lengths, their squares and fourth powers): far below those of any cloth.
TINY = wp.constant(real(1e-60 if precision == "double" else 1e-36))


@wp.func
def double(p: vec3) -> wp.vec3d:
    """Returns the same vector in double precision, whatever `real` is."""
    return wp.vec3d(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2]))


@wp.func
def identity() -> mat33:
    one, zero = real(1.0), real(0.0)
    return mat33(one, zero, zero, zero, one, zero, zero, zero, one)
