"""The matrix of impulses along threads: the effect of a unit impulse in one thread on the rates of all others.

    A = J W J^T + diag(c),    W_i = C_i/m_i,    A_pq = sum_a w_pa w_qa (d_p . W_a d_q)

Row p of J gives the rate of one length: the image w = sum_a w_pa x_a of a direction in the cloth grows by d_p . w. For
a spring the weights are -1 and 1 and d_p is its direction, and A is that of the paper: a spring's row has entries for
itself and those that share a particle with it, seven in a sheet of quadrilaterals.

Source      [Ye08] secs. 4-6, eqs. (9), (10)
Symbols     d  direction of a row [-]     w_pa  its weights     C_i  directions in which a particle is free
            c  compliance of a row [1/kg]: 0, or how far it gives way to an impulse
Deviations  One of the two denominators in eq. (10) is printed as m_i: both are the mass of the shared particle. The
            paper deletes rows of springs with both ends held. Here they get a compliance and nothing to correct: the
            solution is the same, and the pattern does not change when particles are held or released.
"""

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.direct.ldlt import Ldlt
from toile.math.types import mat33, real, vec3


class ImpulseMatrix:
    """A on a fixed pattern, with its factor."""

    def __init__(self, particles: np.ndarray, weights: np.ndarray, masses: wp.array):
        """Particles of each row (rows, 3) and their weights; those of weight 0 take no part."""
        self.masses, self.row_count = masses, len(particles)
        device = str(masses.device)
        term = np.flatnonzero(weights.ravel())
        row, at, weight = term // weights.shape[1], particles.ravel()[term], weights.ravel()[term]
        by_particle = np.lexsort((row, at))
        row, at, weight = row[by_particle], at[by_particle], weight[by_particle]
        one, other = _pairs(at)
        upper = row[one] <= row[other]
        one, other = one[upper], other[upper]
        keys, slot = np.unique(row[other] * np.int64(self.row_count) + row[one], return_inverse=True)
        columns, rows = keys // self.row_count, keys % self.row_count
        # The upper triangle of A in compressed columns; its entries are those that `assemble` returns.
        self.offsets, self.rows = np.searchsorted(columns, np.arange(self.row_count + 1)), rows
        order = np.argsort(slot, kind="stable")
        self.factor = Ldlt(self.offsets, self.rows)

        def on_device(array: np.ndarray, dtype: type = wp.int32) -> wp.array:
            return wp.array(array, dtype=dtype, device=device)

        # Each entry of A is a sum over particles that its two rows share; each particle has its rows.
        self._entries = [
            on_device(np.stack([rows, columns], axis=1), wp.vec2i),
            on_device(np.searchsorted(slot[order], np.arange(len(keys) + 1))),
            on_device(at[one][order]),
            on_device((weight[one] * weight[other])[order], wp.float64),
        ]
        self._of_particles = [
            on_device(np.searchsorted(at, np.arange(len(masses) + 1))),
            on_device(row),
            on_device(weight, real),
        ]
        self._values = wp.zeros(len(keys), dtype=wp.float64, device=device)
        self._s = wp.zeros(self.row_count, dtype=wp.float64, device=device)
        self.dv = wp.zeros(len(masses), dtype=vec3, device=device)
        self.reaction = wp.zeros(len(masses), dtype=vec3, device=device)  # [N s]  by constraints
        self._launch = Launcher(device)

    def assemble(self, C: wp.array, d: wp.array, c: wp.array) -> np.ndarray:
        """Returns the entries of A, in the order of its factor."""
        self._launch(fill, len(self._values), [*self._entries, self.masses, C, d, c, self._values])
        self.factor.values[:] = self._values.numpy()
        return self.factor.values

    def solve(self, b: wp.array, C: wp.array, d: wp.array) -> np.ndarray:
        """Returns the impulses s with A s = b, by the present factor. `dv` is their effect: it reduces the rates by b.
        `reaction` is the impulse of the constraints in held directions.
        """
        s = self.factor.solve(b.numpy())
        self._s.assign(s)
        found = [self.dv, self.reaction]
        self._launch(find_changes, len(self.dv), [*self._of_particles, self.masses, C, d, self._s, *found])
        return s


def _pairs(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns all pairs of equal entries; `at` is sorted."""
    count = np.bincount(at)[at]
    one = np.repeat(np.arange(len(at)), count)
    place = np.arange(len(one)) - np.repeat(np.cumsum(count) - count, count)
    return one, np.searchsorted(at, at)[one] + place


@wp.kernel
def fill(
    # model
    entries: wp.array(dtype=wp.vec2i), first: wp.array(dtype=wp.int32), shared: wp.array(dtype=wp.int32),
    weights: wp.array(dtype=wp.float64), masses: wp.array(dtype=real),
    # in
    C: wp.array(dtype=mat33), d: wp.array(dtype=vec3), c: wp.array(dtype=wp.float64),
    # out
    A_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    k = wp.tid()
    p, q = entries[k][0], entries[k][1]
    A = wp.float64(0.0)
    for t in range(first[k], first[k + 1]):
        a = shared[t]
        A += weights[t] * wp.float64(wp.dot(d[p], C[a] * d[q])) / wp.float64(masses[a])
    if p == q:
        A += c[p]
    A_out[k] = A


@wp.kernel
def find_changes(
    # model
    first: wp.array(dtype=wp.int32), rows: wp.array(dtype=wp.int32), weights: wp.array(dtype=real),
    masses: wp.array(dtype=real),
    # in
    C: wp.array(dtype=mat33), d: wp.array(dtype=vec3), s: wp.array(dtype=wp.float64),
    # out
    dv_out: wp.array(dtype=vec3), reaction_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    impulse = vec3()
    for t in range(first[i], first[i + 1]):
        p = rows[t]
        impulse += weights[t] * real(s[p]) * d[p]
    dv_out[i] = -(C[i] * impulse) / masses[i]
    reaction_out[i] = impulse - C[i] * impulse
