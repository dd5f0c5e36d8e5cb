"""A particle in contact with several faces at once: the force of each, and squeezing between two of them.

    e = sum of load_k normal_k

A particle squeezed between two opposite faces is held halfway between them while the gap is smaller than its
thickness. Once the gap is larger, the contact that carries less load is removed.

Source      [BW98] sec. 5.4 for e, the force of one contact
Symbols     e  force of all contacts of a particle [N]     load  normal force [N]
Deviations  The paper does not treat particles in contact with several solids.
"""

import warp as wp

from toile.contact.solid.contact_arrays import MAX_CONTACTS, SolidContactArrays, drop, exchange_slots
from toile.math.types import real, vec3

# Two faces closer to parallel than this count as one, or squeeze the particle between them [sine of the angle]: their
# line of intersection would be far away.
PARALLEL = wp.constant(real(0.2))


@wp.func
def loads(contacts: SolidContactArrays, i: wp.int32, count: wp.int32, e: vec3) -> vec3:
    """Returns the normal forces of a particle's first `count` contacts, which exert the force e together."""
    a = MAX_CONTACTS * i
    n = vec3()
    if count >= 1:
        n0 = contacts.normal[a]
        e0 = wp.dot(e, n0)
        n[0] = e0
        if count >= 2:
            n1 = contacts.normal[a + 1]
            e1 = wp.dot(e, n1)
            g = wp.dot(n0, n1)
            rest = real(1.0) - g * g
            if rest > PARALLEL * PARALLEL:
                n[0] = (e0 - g * e1) / rest
                n[1] = (e1 - g * e0) / rest
            elif g < real(0.0):  # opposite faces: the one that the particle is pressed against carries the load
                n[0] = wp.max(e0, real(0.0))
                n[1] = wp.max(e1, real(0.0))
            if count == 3:
                n2 = contacts.normal[a + 2]
                basis = wp.matrix_from_cols(n0, n1, n2)
                if wp.abs(wp.determinant(basis)) > PARALLEL * PARALLEL:
                    n = wp.inverse(basis) * e
    return n


@wp.func
def are_opposite(contacts: SolidContactArrays, a: wp.int32, b: wp.int32) -> wp.bool:
    """Whether the faces of two slots face each other."""
    n = contacts.normal[a]
    m = contacts.normal[b]
    return wp.dot(n, m) < real(0.0) and wp.length(wp.cross(n, m)) < PARALLEL


@wp.func
def between_faces(contacts: SolidContactArrays, i: wp.int32) -> wp.bool:
    """Whether two of a particle's contacts have opposite faces."""
    found = bool(False)
    for k in range(1, contacts.count[i]):
        for j in range(k):
            found = found or are_opposite(contacts, MAX_CONTACTS * i + j, MAX_CONTACTS * i + k)
    return found


@wp.func
def sink(contacts: SolidContactArrays, a: wp.int32, depth: real):
    """Holds a particle nearer to a face by `depth`."""
    n = contacts.normal[a]
    contacts.plane[a] = contacts.plane[a] - depth * n
    contacts.stick[a] = contacts.stick[a] - depth * n
    contacts.target[a] = contacts.target[a] - depth


@wp.func
def squeeze(contacts: SolidContactArrays, i: wp.int32, known: wp.int32) -> wp.bool:
    """Moves the planes of two opposite faces together halfway, and puts one of them first. Where they leave a gap, the
    contact that carries less load is removed. Pairs among the first `known` contacts are settled already."""
    squeezed = bool(False)
    k = wp.max(known, 1)
    while k < contacts.count[i]:
        removed = int(-1)
        for j in range(k):
            a = MAX_CONTACTS * i + j
            b = MAX_CONTACTS * i + k
            if removed < 0 and are_opposite(contacts, a, b):
                overlap = wp.dot(contacts.normal[b], contacts.plane[b] - contacts.plane[a])
                if overlap <= real(0.0):
                    removed = wp.where(contacts.load[b] > contacts.load[a], j, k)
                else:
                    sink(contacts, a, real(0.5) * overlap)
                    sink(contacts, b, real(0.5) * overlap)
                    exchange_slots(contacts, MAX_CONTACTS * i, a)
                    squeezed = bool(True)
        if removed < 0:
            k += 1
        else:
            drop(contacts, i, removed)
    return squeezed
