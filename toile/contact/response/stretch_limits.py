"""Limits of stretch among the contact impulses: what parts layers does not tear at the cloth around them.

    n . sum of w_a d_a >= target        w_a = -L weight_a,    target = L (n . sum of weight_a x_a - longest)

A particle pushed out of contact by a millimeter stretches an edge of a centimeter by a tenth, and the impulses know
nothing of the threads. A thread of a triangle, or an edge, that they stretch beyond its limit is therefore one more
inequality on the displacements of the step, of the same form as a contact, and is solved with the contacts: its
impulses draw the neighbors along. They conserve momentum. An element no longer than its limit is so along any
direction: one that still is longer after it has turned is limited along its new direction as well, in up to
MAX_DIRECTIONS.

Threads are limited to MAX_OVERSTRETCH times the extension of their fabric, or of a filter that limits strain before the
contacts do, whichever is less; edges of cloths whose fabric has an extension to MAX_EDGE_STRAIN; and both to their
length before the step, if that is longer. In cloth that is in contact this holds for what the integrator did as well:
where a corner whips, the linear system may stretch a few triangles to twice their length, and the impulses take that
back without another solve for all the cloth. Where more than FEW_LIMITED of all elements are too long, solids or pins
draw the cloth out, and no impulse could shorten it: these elements have no limit in the step.

Source      none; Bridson et al. 2003 and Ye 2008 limit strain by impulses, but after those of contacts or before them
Symbols     n  direction of the stretched element [-]     L  makes the largest w_a 1 [m]     d  displacement [m]
            longest  its largest length, in units of its rest length [-]
Deviations  Directions are those at the end of the step where a limit is exceeded, and lengths along them. Cloths whose
            rest lengths change in time have no limits.
"""

import numpy as np
import warp as wp

from toile.contact.narrow_phase.closest_points import effective_inverse_mass
from toile.contact.narrow_phase.contact_set import ContactArrays, ContactSet
from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot, pair_key
from toile.device.growable import Growable
from toile.device.launcher import Launcher
from toile.math.types import TINY, mat33, numpy_real, real, vec3, vec4
from toile.model.model import Model
from toile.step_limits import FEW_LIMITED, MAX_EDGE_STRAIN, MAX_OVERSTRETCH

# The kinds of a limit among the contacts, beside vertex and triangle, and two edges: exceeded by impulses, or by the
# integrator.
STRETCH_LIMIT, SOLVE_LIMIT = wp.constant(2), wp.constant(3)
# Directions along which an element is limited in one step. A corner that whips turns by a right angle and more while it
# is shortened; each direction takes another pass of impulses.
MAX_DIRECTIONS = wp.constant(4)
# An element is limited along another direction if it exceeds its limit by this factor: sweeps leave as much.
EXCEEDED_AGAIN = wp.constant(real(1.005))


@wp.struct
class StretchElements(Growable):
    """Threads of triangles, and edges: their length in units of that at rest is |sum of weight_a x_a|."""

    vertices: wp.array(dtype=wp.vec3i)
    weights: wp.array(dtype=vec3)  # [1/m]
    longest: wp.array(dtype=real)
    directions: wp.array(dtype=wp.int32)  # along which it is limited in the step; MAX_DIRECTIONS if it has no limit


class StretchLimits:
    """Adds the elements that impulses stretch too far to the contacts of a step."""

    def __init__(self, model: Model, extensions: np.ndarray, device: str):
        """`extensions` are the strains that filters allow: warp and weft of every triangle, interleaved."""
        vertices, weights, longest = find_elements(model, extensions)
        limited = np.flatnonzero(np.isfinite(longest))
        self._element_count, self.device = len(limited), device
        self.elements = StretchElements()
        self.elements.vertices = wp.array(vertices[limited], dtype=wp.vec3i, device=device)
        self.elements.weights = wp.array(weights[limited].astype(numpy_real), dtype=vec3, device=device)
        self.elements.longest = wp.array(longest[limited].astype(numpy_real), dtype=real, device=device)
        self.elements.directions = wp.zeros(self._element_count, dtype=wp.int32, device=device)
        self.count, self._by_solve = 0, 0  # among the contacts of the step, and those that the integrator exceeded
        self._hits = AppendBuffer(wp.int32, 256, device, keyed=True)
        self._launch = Launcher(device)

    @property
    def any(self) -> bool:
        """Whether any element has a limit."""
        return self._element_count > 0

    def begin(self) -> None:
        """Starts a step."""
        if self._element_count:
            self.count, self._by_solve = 0, 0
            self.elements.directions.zero_()

    def add_to(self, contact_set: ContactSet, kind: int) -> int:
        """Adds limits of the elements that exceed them at the end of the step; returns their number."""
        if not self._element_count:
            return 0
        mesh, hits = contact_set.mesh, self._hits
        inputs = [self.elements, mesh.x, mesh.x_end]
        fill([hits], self._launch, find_exceeded, self._element_count, inputs)
        by_solve = int(kind) == int(SOLVE_LIMIT)
        if by_solve and hits.count > FEW_LIMITED * self._element_count:
            self._launch(ignore, hits.count, [hits.values, self.elements])
            return 0
        if hits.count:
            first = contact_set.reserve(hits.count)
            inputs = [first, int(kind), hits.values, hits.order(), mesh.x, mesh.x_end, mesh.inverse_mass]
            self._launch(make_limits, hits.count, [*inputs, self.elements, contact_set.contacts])
            contact_set.count.fill_(contact_set.contact_count)
            self._by_solve += hits.count if by_solve else 0
        self.count += hits.count
        return hits.count

    def slow_down(self, contact_set: ContactSet, h: float) -> None:
        """Takes back from the velocities what the integrator stretched too far: they would do it again."""
        if self._by_solve:
            mesh = contact_set.mesh
            inputs = [contact_set.contacts, mesh.inverse_mass, 1.0 / h, mesh.v_end]
            self._launch(add_velocities, contact_set.contact_count, inputs)


def find_elements(model: Model, extensions: np.ndarray | float = np.inf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns vertices and weights [1/m] of all threads and edges, and their largest lengths, infinite without one.
    `extensions` are the strains that filters allow: warp and weft of every triangle, interleaved."""
    threads = np.repeat(model.triangles, 2, axis=0)
    shape = (model.triangle_count, 2)
    rest, of_fabric = np.ones(shape), model.extensions().reshape(shape)
    of_filters = np.array(np.broadcast_to(extensions, 2 * model.triangle_count), float).reshape(shape)
    edges = np.asarray(model.edges).reshape(-1, 2)
    own, edge_limits = edges[:, 0], np.full(len(edges), np.inf)
    for number, part in enumerate(model.parts):
        if model.rest_stretch_changes(number):
            of_fabric[part.triangles] = of_filters[part.triangles] = np.inf
        for axis in (0, 1):
            rest[part.triangles, axis] = model.rest_stretch(number, axis, 0.0)
        # Filters limit threads and leave shear, which lengthens diagonals, to the energies.
        if np.isfinite(of_fabric[part.triangles]).any():
            of_part = (own >= part.particles.start) & (own < part.particles.stop)
            edge_limits[of_part] = 1.0 + MAX_EDGE_STRAIN
    # Filters do not know that threads may be longer or shorter at rest than in the pattern.
    longest = np.minimum(1.0 + MAX_OVERSTRETCH * of_fabric, (1.0 + MAX_OVERSTRETCH * of_filters) / rest)
    along = model.uv_weights.reshape(-1, 3) / rest.reshape(-1, 1)
    lengths = model.edge_lengths(0.0)
    across = np.stack([-1.0 / lengths, 1.0 / lengths, np.zeros(len(edges))], axis=1)
    vertices = np.concatenate([threads, edges[:, [0, 1, 0]]]).astype(np.int32)
    return vertices, np.concatenate([along, across]), np.concatenate([longest.ravel(), edge_limits])


@wp.func
def stretched(elements: StretchElements, k: wp.int32, x: wp.array(dtype=vec3)) -> vec3:
    """The image of an element that has length 1 at rest."""
    at, weights = elements.vertices[k], elements.weights[k]
    return weights[0] * x[at[0]] + weights[1] * x[at[1]] + weights[2] * x[at[2]]


@wp.func
def largest_length(elements: StretchElements, k: wp.int32, x: wp.array(dtype=vec3)) -> real:
    """Its limit, or its length before the step, if that is longer."""
    return wp.max(elements.longest[k], wp.length(stretched(elements, k, x)))


@wp.kernel
def find_exceeded(
    # model
    first: wp.int32, elements: StretchElements,
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    # out
    ranges_out: BufferRanges, hits_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Finds the elements that exceed their limits, also those that are limited along other directions."""
    k = first + wp.tid()
    length, directions = wp.length(stretched(elements, k, x_end)), elements.directions[k]
    if directions >= MAX_DIRECTIONS or length <= elements.longest[k]:
        return
    allowed = wp.where(directions > 0, EXCEEDED_AGAIN, real(1.0))
    if length <= allowed * largest_length(elements, k, x):
        return
    n = next_slot(ranges_out, first)
    if n >= 0:
        ranges_out.keys[n] = pair_key(0, wp.vec2i(k, 0))
        hits_out[n] = k


@wp.kernel
def ignore(hits: wp.array(dtype=wp.int32), elements_out: StretchElements):
    """Takes the limits of elements away for this step."""
    elements_out.directions[hits[wp.tid()]] = MAX_DIRECTIONS


@wp.kernel
def make_limits(
    # in
    begin: wp.int32, kind: wp.int32, hits: wp.array(dtype=wp.int32), order: wp.array(dtype=wp.int32),
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), inverse_mass: wp.array(dtype=mat33),
    # in and out
    elements_out: StretchElements,
    # out
    contacts_out: ContactArrays,
):  # fmt: skip
    """Writes the limits behind the contacts, in the order of their elements."""
    i = begin + wp.tid()
    k = hits[order[wp.tid()]]
    at, weights = elements_out.vertices[k], elements_out.weights[k]
    n = wp.normalize(stretched(elements_out, k, x_end))
    L = real(1.0) / wp.max(wp.max(wp.abs(weights[0]), wp.abs(weights[1])), wp.max(wp.abs(weights[2]), TINY))
    w = vec4(-L * weights[0], -L * weights[1], -L * weights[2], real(0.0))
    vertices = wp.vec4i(at[0], at[1], at[2], at[0])
    elements_out.directions[k] = elements_out.directions[k] + 1
    contacts_out.vertices[i] = vertices
    contacts_out.kind[i] = kind
    contacts_out.weights[i] = w
    contacts_out.normal[i] = n
    contacts_out.target[i] = L * (wp.dot(n, stretched(elements_out, k, x)) - largest_length(elements_out, k, x))
    contacts_out.mu[i] = real(0.0)
    contacts_out.thickness[i] = real(0.0)
    contacts_out.rebound[i] = real(0.0)
    contacts_out.normal_impulse[i] = real(0.0)
    contacts_out.friction_impulse[i] = vec3()
    contacts_out.effective_inverse_mass[i] = effective_inverse_mass(
        w, n, inverse_mass[vertices[0]], inverse_mass[vertices[1]], inverse_mass[vertices[2]], mat33()
    )


@wp.kernel
def add_velocities(
    # in
    contacts: ContactArrays, inverse_mass: wp.array(dtype=mat33), per_h: real,
    # in and out
    v_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Adds the displacements by limits that the integrator exceeded to the velocities."""
    k = wp.tid()
    if contacts.kind[k] != SOLVE_LIMIT:
        return
    at, w = contacts.vertices[k], contacts.weights[k]
    impulse = per_h * contacts.normal_impulse[k] * contacts.normal[k]
    for a in range(3):
        wp.atomic_add(v_out, at[a], w[a] * (inverse_mass[at[a]] * impulse))
