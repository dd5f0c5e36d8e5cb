"""A particle on several faces at once: the force of each, and what two of them squeeze.

    e = sum of load_k normal_k

A particle that two faces squeeze is held half way between them, for as long as they leave it less room than it has
thickness; then the one that does not bear it is forgotten.

Source      [BW98] sec. 5.4 for e, the force of one contact
Symbols     e  force of all contacts of a particle [N]     load  normal force [N]
Deviations  The paper does not say what a particle does that touches several solids.
"""

import warp as wp

from toile.contact.solid.contacts import MAX_CONTACTS, SolidContactArrays, drop, exchange_slots
from toile.math.types import real, vec3

# Two faces closer to parallel than this count as one, or hold what is between them [sine of the angle]: the line where
# they meet would be far away.
PARALLEL = wp.constant(real(0.2))


@wp.func
def loads(contacts: SolidContactArrays, i: wp.int32, count: wp.int32, e: vec3) -> vec3:
    """Normal forces of a particle's first contacts, for the force e that they exert together."""
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
            elif g < real(0.0):  # between two faces: the one that it is pressed against carries it
                n[0] = wp.max(e0, real(0.0))
                n[1] = wp.max(e1, real(0.0))
            if count == 3:
                n2 = contacts.normal[a + 2]
                basis = wp.matrix_from_cols(n0, n1, n2)
                if wp.abs(wp.determinant(basis)) > PARALLEL * PARALLEL:
                    n = wp.inverse(basis) * e
    return n


@wp.func
def look_at_each_other(contacts: SolidContactArrays, a: wp.int32, b: wp.int32) -> wp.bool:
    n = contacts.normal[a]
    m = contacts.normal[b]
    return wp.dot(n, m) < real(0.0) and wp.length(wp.cross(n, m)) < PARALLEL


@wp.func
def between_faces(contacts: SolidContactArrays, i: wp.int32) -> wp.bool:
    """Whether two of a particle's contacts look at each other."""
    found = bool(False)
    for k in range(1, contacts.count[i]):
        for j in range(k):
            found = found or look_at_each_other(contacts, MAX_CONTACTS * i + j, MAX_CONTACTS * i + k)
    return found


@wp.func
def sink(contacts: SolidContactArrays, a: wp.int32, depth: real):
    """Holds a particle nearer to a face."""
    n = contacts.normal[a]
    contacts.plane[a] = contacts.plane[a] - depth * n
    contacts.stick[a] = contacts.stick[a] - depth * n
    contacts.target[a] = contacts.target[a] - depth


@wp.func
def squeeze(contacts: SolidContactArrays, i: wp.int32, known: wp.int32) -> wp.bool:
    """Brings the planes of two faces that look at each other together half way, and puts one of them first; where they
    leave room there is nothing to hold against, and the one that bears less is forgotten. Among the first contacts, as
    many as are known, that is done already."""
    squeezed = bool(False)
    k = wp.max(known, 1)
    while k < contacts.count[i]:
        forgotten = int(-1)
        for j in range(k):
            a = MAX_CONTACTS * i + j
            b = MAX_CONTACTS * i + k
            if forgotten < 0 and look_at_each_other(contacts, a, b):
                overlap = wp.dot(contacts.normal[b], contacts.plane[b] - contacts.plane[a])
                if overlap <= real(0.0):
                    forgotten = wp.where(contacts.load[b] > contacts.load[a], j, k)
                else:
                    sink(contacts, a, real(0.5) * overlap)
                    sink(contacts, b, real(0.5) * overlap)
                    exchange_slots(contacts, MAX_CONTACTS * i, a)
                    squeezed = bool(True)
        if forgotten < 0:
            k += 1
        else:
            drop(contacts, i, forgotten)
    return squeezed
