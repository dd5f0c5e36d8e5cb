"""Pinched particles that stay off the surface of minima where cloth would have to stretch to reach it.

    x = place + t u,    |t| the smallest with |x - x_j| <= (1 + EASED) L_j for all neighbors j, and x behind both faces

Where two solids overlap deeply, the surface of minima ends with a step at their rims: cloth beside them is in front of
one of them. A pinched particle may then be anywhere between the two faces, on the line across them.

Source      none
Symbols     u  direction across the faces, from b to a     t  distance from the surface of minima [m]
            L  rest length of an edge [m]
Deviations  [BMF03] sec. 5.1 holds points on the surface of minima, whatever that stretches.
"""

import numpy as np
import warp as wp

from toile.contact.solid.contact_arrays import MAX_CONTACTS, PINCHED, SolidContactArrays
from toile.contact.solid.faces import meet
from toile.device.launcher import Launcher
from toile.math.types import TINY, numpy_real, real, vec3

# Strain of an edge from which on pinched particles give way, a judgment; and the fraction of the way back to the
# surface of minima that they try in each step.
EASED, BACK = wp.constant(real(0.08)), wp.constant(real(0.1))
# An edge along the surface of minima that is only drawn across by a step of it reaches EASED at this sine of its slope:
# others are too long because cloth is sheared, which nothing across them cures.
ACROSS = wp.constant(real(0.35))
SWEEPS = 8  # over all pinched particles in a step


@wp.struct
class Neighbors:
    """Neighbors of each particle along edges: entries offsets[i] to offsets[i + 1] belong to particle i."""

    offsets: wp.array(dtype=wp.int32)
    particle: wp.array(dtype=wp.int32)
    length: wp.array(dtype=real)  # [m]  at rest


def make_neighbors(edges: np.ndarray, lengths: np.ndarray, particle_count: int, device: str) -> Neighbors:
    """Sorts the edges by particle."""
    ends = np.concatenate([edges, edges[:, ::-1]]).reshape(-1, 2)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    counts = np.bincount(ends[:, 0], minlength=particle_count)
    neighbors = Neighbors()
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    neighbors.offsets = wp.array(offsets, dtype=wp.int32, device=device)
    neighbors.particle = wp.array(ends[order, 1].astype(np.int32), dtype=wp.int32, device=device)
    neighbors.length = wp.array(np.tile(lengths, 2)[order].astype(numpy_real), dtype=real, device=device)
    return neighbors


class Easing:
    """Moves pinched particles off the surface of minima where edges would be too long."""

    def __init__(self, edges: np.ndarray, lengths: np.ndarray, particle_count: int, device: str):
        self._neighbors = make_neighbors(edges, lengths, particle_count, device)
        self._count = particle_count
        self._t, self._t_start = (wp.zeros(particle_count, dtype=real, device=device) for _ in range(2))
        self._launch = Launcher(device)

    def ease(
        self, x: wp.array, v: wp.array, h: float, max_recovery: float, before: SolidContactArrays,
        now: SolidContactArrays,
    ) -> None:  # fmt: skip
        """Moves the places at which particles are held in the step of h from x and v, by at most `max_recovery` [m]."""
        self._launch.split(begin_easing, self._count, [max_recovery, before, now, self._t_start])
        for _ in range(SWEEPS):
            inputs = [self._neighbors, x, v, h, max_recovery, self._t_start, now, self._t]
            self._launch.split(find_eased, self._count, inputs)
            self._launch.split(move_eased, self._count, [self._t, now])


@wp.func
def across_faces(contacts: SolidContactArrays, i: wp.int32) -> vec3:
    """Returns the direction across the two faces of a pinched particle."""
    a = MAX_CONTACTS * i
    return wp.normalize(contacts.normal[a] - contacts.normal[a + 1])


@wp.func
def between_faces(contacts: SolidContactArrays, i: wp.int32, u: vec3, t: real) -> real:
    """Returns t, limited so that the particle stays behind both faces."""
    a = MAX_CONTACTS * i
    p = contacts.stick[a] - contacts.eased[i]
    n, m = contacts.normal[a], contacts.normal[a + 1]
    depth_a = -(contacts.target[a] + wp.dot(n, p - contacts.plane[a]))
    depth_b = -(contacts.target[a + 1] + wp.dot(m, p - contacts.plane[a + 1]))
    most = wp.max(depth_a, real(0.0)) / wp.max(wp.dot(n, u), TINY)
    least = -wp.max(depth_b, real(0.0)) / wp.max(-wp.dot(m, u), TINY)
    return wp.clamp(t, least, most)


@wp.kernel
def begin_easing(
    # in
    first: wp.int32, max_recovery: real, before: SolidContactArrays,
    # in and out
    now_out: SolidContactArrays,
    # out
    t_start_out: wp.array(dtype=real),
):  # fmt: skip
    """Particles that were off the surface of minima begin there, a little nearer: as far off it as they still are,
    because contacts between layers may have moved them since."""
    i = first + wp.tid()
    t_start_out[i] = real(0.0)
    if now_out.mode[i] == PINCHED and before.mode[i] == PINCHED:
        a, u = MAX_CONTACTS * i, across_faces(now_out, i)
        found, eased = meet(now_out, a, a + 1), wp.dot(before.eased[i], u)
        least, most = wp.min(eased, real(0.0)), wp.max(eased, real(0.0))
        t = wp.clamp(wp.dot(found.carried - found.place, u), least, most)
        t_start_out[i] = t
        # Of that the particle has what it has not been drawn back to the surface.
        off = wp.clamp(wp.dot(now_out.stick[a] - found.place, u), wp.min(t, real(0.0)), wp.max(t, real(0.0)))
        now_out.stick[a] = now_out.stick[a] - off * u
        t = between_faces(now_out, i, u, t - wp.clamp(BACK * t, -max_recovery, max_recovery))
        now_out.eased[i] = t * u
        now_out.stick[a] = now_out.stick[a] + t * u


@wp.func
def longest_edge(
    neighbors: Neighbors, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, contacts: SolidContactArrays,
    i: wp.int32, p: vec3,
) -> real:  # fmt: skip
    """Returns the largest length of an edge relative to its rest length if particle i is at p."""
    longest = real(0.0)
    for k in range(neighbors.offsets[i], neighbors.offsets[i + 1]):
        j = neighbors.particle[k]
        q = x[j] + h * v[j]
        if contacts.mode[j] == PINCHED:
            q = contacts.stick[MAX_CONTACTS * j]
        longest = wp.max(longest, wp.length(p - q) / neighbors.length[k])
    return longest


@wp.kernel
def find_eased(
    # model
    first: wp.int32, neighbors: Neighbors,
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, max_recovery: real, t_start: wp.array(dtype=real),
    contacts: SolidContactArrays,
    # out
    t_out: wp.array(dtype=real),
):  # fmt: skip
    """The distance from the surface of minima at which the edges of a particle are no longer too long: a Jacobi sweep,
    in which two pinched ends share the way."""
    i = first + wp.tid()
    if contacts.mode[i] != PINCHED:
        return
    u = across_faces(contacts, i)
    p = contacts.stick[MAX_CONTACTS * i]
    sum, count = real(0.0), real(0.0)
    for k in range(neighbors.offsets[i], neighbors.offsets[i + 1]):
        j = neighbors.particle[k]
        q = x[j] + h * v[j]
        share = real(1.0)
        if contacts.mode[j] == PINCHED:
            q = contacts.stick[MAX_CONTACTS * j]
            share = real(0.5)
        arm = p - q
        length = wp.length(arm)
        over = length - (real(1.0) + EASED) * neighbors.length[k]
        along = wp.dot(arm, u)
        if over > real(0.0) and wp.abs(along) > ACROSS * length:
            sum -= share * wp.sign(along) * wp.min(over * length / wp.abs(along), wp.abs(along))
            count += real(1.0)
    t = wp.dot(contacts.eased[i], u)
    t_out[i] = t
    if count > real(0.0):
        moved = wp.clamp(t + sum / count, t_start[i] - max_recovery, t_start[i] + max_recovery)
        moved = between_faces(contacts, i, u, moved)
        longest = longest_edge(neighbors, x, v, h, contacts, i, p)
        if longest_edge(neighbors, x, v, h, contacts, i, p + (moved - t) * u) < longest:
            t_out[i] = moved


@wp.kernel
def move_eased(first: wp.int32, t: wp.array(dtype=real), contacts_out: SolidContactArrays):
    """Moves pinched particles to where `find_eased` found."""
    i = first + wp.tid()
    if contacts_out.mode[i] == PINCHED:
        moved = t[i] * across_faces(contacts_out, i)
        contacts_out.stick[MAX_CONTACTS * i] = contacts_out.stick[MAX_CONTACTS * i] + (moved - contacts_out.eased[i])
        contacts_out.eased[i] = moved
