"""The fail-safe: vertices that still collide move as one rigid zone, and zones that collide are merged.

    d_i = a + b x (x_i - x_c)    for all vertices of a zone, with a and b that keep its momentum and angular momentum

At time t of the step the zone is x_c + t a + (1 + t [b]) (x_i - x_c). The matrix 1 + t [b] has singular values of 1 and
sqrt(1 + t^2 |b|^2), so the zone is mapped one to one and no distance in it gets shorter: nothing in it can collide.
Vertices that it collides with join it. In the worst case all connected vertices are one zone, so this ends; unless held
vertices of a zone do not move like a rigid body, and then the step must be shorter.

Source      [BFA02] sec. 7.5, after Provot 1997
Symbols     d  displacement [m]     x_c  center of mass [m]     [b]  b x
Deviations  The paper moves zones by a rotation, which is not rigid along straight paths. This map is safe.
"""

import numpy as np

# Largest misfit between a rigid motion and the held displacements, as a fraction of the size of the zone.
MAX_MISFIT = 1e-9


class ImpactZones:
    """Zones of one step, as a union-find over vertices; they only grow."""

    def __init__(self, count: int):
        self._root = np.arange(count)
        self._in = np.zeros(count, bool)

    def join(self, groups: np.ndarray) -> None:
        """Merges each row of vertices, with the zones that they are in, into one zone."""
        for group in groups:
            roots = {self._find(int(i)) for i in group}
            low = min(roots)
            for root in roots:
                self._root[root] = low
        self._in[groups.ravel()] = True

    def zones(self) -> list[np.ndarray]:
        """The vertices of each zone."""
        inside = np.flatnonzero(self._in)
        roots = np.array([self._find(int(i)) for i in inside], int)
        order = np.argsort(roots, kind="stable")
        return np.split(inside[order], np.flatnonzero(np.diff(roots[order])) + 1) if len(inside) else []

    def _find(self, i: int) -> int:
        while self._root[i] != i:
            self._root[i] = self._root[self._root[i]]
            i = int(self._root[i])
        return i


def rigid_motion(x: np.ndarray, d: np.ndarray, masses: np.ndarray, held: np.ndarray) -> np.ndarray | None:
    """Displacements of a zone that moves as a rigid body; None if its held vertices do not.

    `held` (n, 3, 3) projects on the directions of each vertex that must keep their displacement; vertices of solids,
    whose mass is 0 here, keep all of it.
    """
    fixed = np.einsum("nii->n", held) > 0.5  # at least one direction
    weights = masses if masses.sum() > 0.0 else np.ones(len(x))
    center = weights @ x / weights.sum()
    r = x - center
    # d_i = J_i (a, b),  J_i = [1, -[r_i]]
    J = np.zeros((len(x), 3, 6))
    J[:, range(3), range(3)] = 1.0
    J[:, [0, 1, 2, 0, 1, 2], [4, 5, 3, 5, 3, 4]] = np.stack(
        [r[:, 2], r[:, 0], r[:, 1], -r[:, 1], -r[:, 2], -r[:, 0]], axis=1
    )
    size = np.sqrt((r**2).sum(axis=1).max())
    scale = np.array([1.0] * 3 + [1.0 / max(size, 1e-30)] * 3)  # makes all unknowns lengths
    J *= scale
    # The least squares change of the displacements, weighted by mass, keeps momentum and angular momentum.
    normal = np.einsum("n,nij,nik->jk", weights, J, J)
    right = np.einsum("n,nij,ni->j", weights, J, d)
    if not fixed.any():
        motion = np.linalg.lstsq(normal, right, rcond=1e-12)[0]
        return J @ motion
    H = np.einsum("nij,njk->nik", held[fixed], J[fixed]).reshape(-1, 6)
    wanted = np.einsum("nij,nj->ni", held[fixed], d[fixed]).ravel()
    base, _, rank, _ = np.linalg.lstsq(H, wanted, rcond=1e-10)
    if np.abs(H @ base - wanted).max() > MAX_MISFIT * max(size, np.abs(wanted).max()):
        return None
    _, _, Vt = np.linalg.svd(H)
    free = Vt[rank:].T  # motions that leave the held directions alone
    motion = base
    if free.shape[1]:
        inner = free.T @ normal @ free
        motion = base + free @ np.linalg.lstsq(inner, free.T @ (right - normal @ base), rcond=1e-12)[0]
    displaced = J @ motion
    displaced[fixed] += np.einsum("nij,nj->ni", held[fixed], d[fixed] - displaced[fixed])  # exact to the last digit
    return displaced
