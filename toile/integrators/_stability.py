"""The largest stable step of a scheme that is explicit in the elastic forces.

    semi-implicit Euler   x_(n+1) - 2 x_n + x_(n-1) = -h^2 K x_n - h D (x_n - x_(n-1))
                          stable while  h^2 K + 2 h D <= 4
    mixed schemes         ... - h D (x_(n+1) - x_(n-1)) / 2
                          stable while  h^2 K <= 4,  whatever D

Both follow from the quadratic that an eigenvalue obeys with k = y K y and d = y D y of its own vector y. They are
sharp, because at the limit there is a vector that changes sign in every step; but for mixed_robust, which with damping
is stable while h^2 K <= 4 + 2 h D: there the second is on the safe side.

Source      [BMF03] sec. 3 gives the order O(dx sqrt(rho/k)) of the second. [Pro95] eq. (3) has T0 = pi sqrt(mu/K), of
            one mass and one spring: for a sheet that is 3 to 5 times too long.
Symbols     K, D  -df/dx and -df/dv at the start, divided by the masses, without what is held [1/s^2, 1/s]
Deviations  Fabrics that stiffen at their extension are taken stretched so far as well, from the longest that their rest
            stretch makes them. Penalty springs between cloths do not exist at the start: a bound of their stiffness is
            added.
"""

import numpy as np
import warp as wp
from scipy.sparse import bsr_array, eye_array, sparray
from scipy.sparse.linalg import eigsh

from toile.math.types import vec3
from toile.model.state import State
from toile.system.system import System
from toile.system.terms import Linearization

# Below this many unknowns all eigenvalues are found at once.
SMALL = 300
# Residual of an eigenvector, relative to its eigenvalue, which is then right to about a thousandth, and the step to
# half of that; and vectors that Lanczos' method keeps. High modes of a fine mesh lie close together: more would cost.
ACCURACY, VECTORS = 1e-2, 40
# The pair (h, vector at the limit) converges in a few iterations; a change of h by less than this ends them.
ITERATIONS, CHANGE = 20, 1e-4


def largest_step(system: System, state: State, S: wp.array, damping_limits: bool) -> float:
    """In seconds; infinite if nothing oscillates. S are the free directions of each particle."""
    if not system.model.particle_count:
        return np.inf
    free = S.numpy().astype(float)
    places = [state.x]
    extensions = system.model.extensions()
    if np.isfinite(extensions).any():
        longest = system.model.largest_rest_stretch() * (1.0 + float(np.max(extensions[np.isfinite(extensions)])))
        places.append(wp.array(longest * state.x.numpy(), dtype=vec3, device=system.device))
    return min(_largest_step(*_matrices(system, x, state, free), damping_limits) for x in places)


def _largest_step(K: sparray, D: sparray, damping_limits: bool) -> float:
    k, y = _largest(K)
    if not damping_limits:
        return 2.0 / np.sqrt(k) if k > 0.0 else np.inf
    # Any vector gives an upper bound, by its own k and d. The one that is worst at that bound gives a better one.
    h = min(_root(K, D, y), _root(K, D, _largest(D)[1]))
    for _ in range(ITERATIONS):
        if not np.isfinite(h):
            break
        before = h
        h = min(h, _root(K, D, _largest(h * h * K + 2.0 * h * D)[1]))
        if before - h < CHANGE * h:
            break
    return h


def _root(K: sparray, D: sparray, y: np.ndarray) -> float:
    """The h at which h^2 k + 2 h d = 4."""
    k, d = float(y @ (K @ y)), float(y @ (D @ y))
    return 4.0 / (d + np.sqrt(d * d + 4.0 * k)) if d > 0.0 or k > 0.0 else np.inf


def _matrices(system: System, x: wp.array, state: State, S: np.ndarray) -> tuple[sparray, sparray]:
    """K and D at x and the velocities of a state: from the matrix M - h df/dv - h^2 df/dx for h = 1 s and -1 s."""
    A = system.A
    values = []
    for h in (1.0, -1.0):
        system.linearize(Linearization(x, x_tension=x, v=state.v, v_at=state.v, h=h))
        values.append(A.values.numpy().astype(float))
    K, D = 0.5 * (values[0] + values[1]), 0.5 * (values[0] - values[1])
    masses = system.masses.numpy().astype(float)[:, None, None]
    K[A.diagonal.numpy()] -= masses * np.eye(3)
    free = S / np.sqrt(masses)
    shape = (3 * A.row_count, 3 * A.row_count)
    K, D = (
        bsr_array((free[A.rows] @ blocks @ free[A.columns], A.columns, A.offsets), shape=shape) for blocks in (K, D)
    )
    for force in system.custom_forces:
        k, d = force.largest_rates(masses.ravel())
        K, D = K + k * eye_array(shape[0]), D + d * eye_array(shape[0])
    return K, D


def _largest(matrix: sparray) -> tuple[float, np.ndarray]:
    """The largest eigenvalue of a symmetric matrix, and its vector."""
    n = matrix.shape[0]
    if n <= SMALL:
        eigenvalues, vectors = np.linalg.eigh(matrix.toarray())
        return float(eigenvalues[-1]), vectors[:, -1]
    begin = np.random.default_rng(0).normal(size=n)  # the same in every run
    if not np.any(matrix @ begin):
        return 0.0, begin / np.linalg.norm(begin)
    eigenvalues, vectors = eigsh(matrix, k=1, which="LA", v0=begin, tol=ACCURACY, ncv=VECTORS)
    return float(eigenvalues[0]), vectors[:, 0]
