"""A particle in contact with several faces at once: the force of each, and pinching between two that oppose each other.

    e = sum of load_k normal_k
    pinched: d_a(x) = d_b(x),    v = (v_a + v_b)/2    while d < target there, where n_a . n_b < 0

Two faces that oppose each other may leave less room than the cloth takes up. The line where both are at their targets
is then far away, or nowhere. The particle is instead held where both are equally near, the surface of minima, and moves
with the mean of the two materials. With friction it keeps its place on that surface; without any it slides along it.

A particle is caught by faces that close, or that overlap so much that they would move it by more than the thickness.
It is let go where it is when there is room for it again. Faces at rest, as those of a groove, hold it at both targets.

Source      [BW98] sec. 5.4 for e, the force of one contact; [BMF03] sec. 5.1 for the surface of minima
Symbols     e  force of all contacts of a particle [N]     load  normal force [N]     d_a, d_b  distances of faces [m]
Deviations  [BW98] does not treat particles in contact with several solids.
"""

import warp as wp

from toile.contact.solid.contact_arrays import (
    MAX_CONTACTS,
    OPPOSES,
    PINCHED,
    SolidContactArrays,
    drop,
    exchange_slots,
)
from toile.math.types import TINY, real, vec3

# Two faces closer to parallel than this count as one [sine of the angle]: their line of intersection would be far away.
# Faces that oppose each other hold a particle on that line only where it is near, so that a smaller number serves.
PARALLEL, OPPOSITE = wp.constant(real(0.2)), wp.constant(real(0.02))
# Faces catch a particle that close in a step by more than the first fraction of the thickness, or leave too little room
# by more than the second: not by rounding.
CLOSING, ROUNDING = wp.constant(real(1.0e-3)), wp.constant(real(1.0e-9))
# Faces that close catch it while there is still this fraction of the thickness to spare, so that layers between them
# have not come together yet; it is let go when there is a little more.
SPARE, SPARE_OUT = wp.constant(real(0.25)), wp.constant(real(0.3))
# Where contacts between cloths hold layers apart, a particle off the surface of minima by less than the thickness
# approaches it by this fraction in a step in which the faces close.
APPROACH = wp.constant(real(0.2))
# Between such faces, contacts between cloths may push a particle this fraction of the thickness toward one of them.
YIELD = wp.constant(real(0.9))
# Faces that fold up catch a particle before they oppose each other, up to the first cosine between their normals, and
# keep it up to the second. They fold up if the line between them moves away from both materials by more than a fraction
# of the motion between these: a blade that pushes cloth along the floor carries that line with it.
FOLDING, FLAT, AWAY = wp.constant(real(0.9)), wp.constant(real(0.99)), wp.constant(real(0.4))
# Faces at right angles oppose each other only beyond this cosine: not by rounding.
OPPOSED = wp.constant(real(-0.1))
# Two faces that leave room hold a particle together only if their line is within its motion and this fraction of the
# thickness: a groove in which it rests.
SLACK = wp.constant(real(0.1))


@wp.func
def independent(n: vec3, m: vec3) -> wp.bool:
    """Whether faces with these normals hold a particle in two directions."""
    bound = wp.where(wp.dot(n, m) < real(0.0), OPPOSITE, PARALLEL)
    return wp.length_sq(wp.cross(n, m)) > bound * bound


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
            if g < real(0.0) and (contacts.mode[i] == PINCHED or not independent(n0, n1)):
                # Of two opposite faces, the one that the particle is pressed against carries the load.
                n[0] = wp.max(e0, real(0.0))
                n[1] = wp.max(e1, real(0.0))
            elif independent(n0, n1):
                n[0] = (e0 - g * e1) / (real(1.0) - g * g)
                n[1] = (e1 - g * e0) / (real(1.0) - g * g)
            if count == 3 and contacts.mode[i] != PINCHED:
                n2 = contacts.normal[a + 2]
                basis = wp.matrix_from_cols(n0, n1, n2)
                if wp.abs(wp.determinant(basis)) > PARALLEL * PARALLEL:
                    n = wp.inverse(basis) * e
    return n


@wp.struct
class Meeting:
    """Two faces near a particle that moves with the mean of their materials."""

    carried: vec3  # [m]  where the mean motion leads
    place: vec3  # [m]  the nearest point from there at which both faces are equally near
    cosine: real  # between the normals; negative: they oppose each other
    room: real  # [m]  by which they are farther there than their targets; negative where they leave none
    closing: real  # [m]  by which that shrinks in the step
    motion: real  # [m]  between the two materials in the step
    to_line: real  # [m]  distance from `carried` to the line where both are at their targets
    nearest: real  # [m]  the smaller one of the distances of both at `carried`
    first_is_farther: wp.bool
    folding: wp.bool  # whether they oppose each other or fold up


@wp.func
def meet(contacts: SolidContactArrays, a: wp.int32, b: wp.int32) -> Meeting:
    """Measures the faces of two slots."""
    n, m = contacts.normal[a], contacts.normal[b]
    apart = n - m
    length = wp.max(wp.length(apart), TINY)
    found = Meeting()
    found.cosine = wp.dot(n, m)
    found.carried = real(0.5) * (contacts.carried[a] + contacts.carried[b])
    above_a = wp.dot(n, found.carried - contacts.plane[a])
    above_b = wp.dot(m, found.carried - contacts.plane[b])
    farther = (above_b + contacts.target[b]) - (above_a + contacts.target[a])
    found.place = found.carried + (farther / (length * length)) * apart
    found.first_is_farther = farther < real(0.0)
    found.nearest = wp.min(above_a + contacts.target[a], above_b + contacts.target[b])
    found.room = real(0.5) * (above_a + above_b)
    between = contacts.carried[a] - contacts.carried[b]
    found.closing = real(0.25) * wp.dot(between, apart)
    found.motion = wp.length(between)
    squared_sine = wp.max(real(1.0) - found.cosine * found.cosine, TINY)
    squared = above_a * above_a + above_b * above_b - real(2.0) * found.cosine * above_a * above_b
    found.to_line = wp.sqrt(wp.max(squared, real(0.0)) / squared_sine)
    # The line stays on both faces. Along each of them it moves as the other face, seen from there, cuts it.
    away = wp.min(wp.abs(wp.dot(m, between)), wp.abs(wp.dot(n, between))) / wp.sqrt(squared_sine)
    found.folding = found.cosine < OPPOSED or away > AWAY * found.motion
    return found


@wp.func
def catches(found: Meeting, was_pinched: wp.bool, in_contact: wp.bool, thickness: real) -> wp.bool:
    """Whether two faces pinch the particle; `in_contact` tells whether it is in contact with both."""
    closes = found.closing > CLOSING * thickness and found.folding and found.room < SPARE * thickness
    kept = was_pinched and (found.room < SPARE_OUT * thickness or found.nearest < SPARE * thickness)
    # Faces that pass each other are known only to half of their motion.
    missing = -found.room - real(0.5) * found.motion
    too_far = in_contact and missing > ROUNDING * thickness and found.to_line > thickness
    return closes or kept or too_far


@wp.func
def place_between(found: Meeting, thickness: real, offset: real, max_recovery: real) -> vec3:
    """Returns where a pinched particle is held; it comes as near to the surface of minima as `offset` at once."""
    way = found.place - found.carried
    length = wp.length(way)
    approach = wp.where(found.closing > CLOSING * thickness and found.folding, APPROACH, real(0.0))
    nearer = length - (real(1.0) - approach) * wp.min(length, offset)
    return found.carried + (wp.min(nearer, max_recovery) / wp.max(length, TINY)) * way


@wp.func
def let_go(contacts: SolidContactArrays, i: wp.int32, known: wp.int32, was_pinched: wp.bool):
    """Removes faces that only might have pinched a particle, and those in front of which it is let go: it is drawn to
    neither of them."""
    k = contacts.count[i] - 1
    while k >= 0:
        a = MAX_CONTACTS * i + k
        above = wp.dot(contacts.normal[a], contacts.carried[a] - contacts.plane[a])
        if contacts.lasting[a] == OPPOSES or (was_pinched and k >= known and above > real(0.0)):
            drop(contacts, i, k)
        k -= 1


@wp.func
def settle_faces(
    contacts: SolidContactArrays, i: wp.int32, known: wp.int32, was_pinched: wp.bool, x_end: vec3, thickness: real,
    max_recovery: real,
) -> wp.bool:  # fmt: skip
    """Whether two faces pinch a particle that would otherwise move to x_end. They are then its first two contacts, and
    `stick` is where it is held.

    Of two opposing faces that leave room, and meet farther away than the step leads, the one with the smaller load is
    removed, or the farther one of a particle that was pinched; pairs among the first `known` contacts have been looked
    at before.
    """
    tightest = real(0.0)
    first, second = int(-1), int(-1)
    place = vec3()
    k = int(1)
    while k < contacts.count[i]:
        removed = int(-1)
        b = MAX_CONTACTS * i + k
        for j in range(k):
            a = MAX_CONTACTS * i + j
            found = meet(contacts, a, b)
            if removed < 0 and (found.cosine < FOLDING or (was_pinched and found.cosine < FLAT)):
                one = contacts.lasting[a] != OPPOSES or contacts.lasting[b] != OPPOSES
                both = contacts.lasting[a] != OPPOSES and contacts.lasting[b] != OPPOSES
                caught = one and catches(found, was_pinched, both, thickness)
                if caught and (first < 0 or found.room < tightest):
                    tightest = found.room
                    first, second = j, k
                    place = place_between(found, thickness, contacts.offset, max_recovery)
                if found.folding:
                    held = wp.min(thickness, wp.min(contacts.target[a], contacts.target[b]))
                    contacts.slack[i] = YIELD * wp.max(held, real(0.0))
                leads_there = found.to_line <= wp.length(x_end - found.carried) + SLACK * thickness
                together = found.room < -ROUNDING * thickness or leads_there
                together = together and independent(contacts.normal[a], contacts.normal[b])
                if both and found.cosine < real(0.0) and not caught and not together and k >= known:
                    removed = wp.where(contacts.load[b] > contacts.load[a], j, k)
                    if was_pinched:
                        removed = wp.where(found.first_is_farther, j, k)
        if removed < 0:
            k += 1
        else:
            drop(contacts, i, removed)
            k = 1
            first = -1
    if first < 0:
        let_go(contacts, i, known, was_pinched)
        return False
    a = MAX_CONTACTS * i
    if first > 0:
        exchange_slots(contacts, a, a + first)
    if second > 1:
        exchange_slots(contacts, a + 1, a + second)
    contacts.stick[a] = place
    return True


@wp.func
def mean_velocity(contacts: SolidContactArrays, i: wp.int32) -> vec3:
    """Returns the velocity of a pinched particle."""
    return real(0.5) * (contacts.velocity[MAX_CONTACTS * i] + contacts.velocity[MAX_CONTACTS * i + 1])
