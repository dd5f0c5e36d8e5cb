"""The contacts of every particle with solids, and what they hold: the kernels that do not ask what shape a solid has.

A particle touches at most three solids; each contact is one slot, and the first is the one whose friction matters most:

    normal . x = normal . plane    while it slides        x = stick    while it is locked to the first

Two contacts leave one direction free, three none. A particle that two faces squeeze is held half way between them, for
as long as they leave it less room than it has thickness; then the one that does not bear it is forgotten. Forces come
from the solve: e/h = sum of load_k normal_k + the tangential part ([BW98] sec. 5.4).

Source      [BW98] secs. 5.1, 5.4
Symbols     mu  friction     w  velocity relative to the solid [m/s]     S  free directions
Deviations  A state that does not fit the forces is corrected within the step by solving again, not in the next step.
"""

from typing import Any

import warp as wp

from toile.constraints.held import JUMPED, JUMPED_WHERE_HELD
from toile.math.types import mat33, real, vec3

MOST = wp.constant(3)  # contacts of a particle
FREE, SLIDING, LOCKED = wp.constant(0), wp.constant(1), wp.constant(2)

UNKNOWN = wp.constant(real(-1.0))  # load of a contact that no solve has known yet

# Two faces closer to parallel than this count as one, or hold what is between them [sine of the angle]: the line where
# they meet would be far away.
PARALLEL = wp.constant(real(0.2))
# Below this share of the speed thickness/h friction grows with the speed, instead of having its limit at once.
CREEP = wp.constant(real(0.002))
# A contact that pulls is released within the step when it would change the speed by this share of thickness/h, and
# otherwise in the next; what comes down slower than friction matters likewise.
URGENT = wp.constant(real(0.05))
# Places of the counts: contacts that a solve did not know of or that pulled, those whose friction is far from
# Coulomb's, those where it is not close to it, all.
WRONG, GROSS, RUBBING, TOUCHING, COUNTS = (wp.constant(place) for place in range(5))
# Friction is corrected within the step when it is wrong by this share of its limit as well. Stiff cloth at rest has
# many particles near the limit, whose states depend on each other: following each of them does not pay.
FRICTION_ERROR = wp.constant(real(0.3))
# Friction of what slides is far from Coulomb's when it is wrong by this many times its limit.
GROSS_ERROR = wp.constant(real(2.0))
# A particle that creeps slower than this share of the creeping speed, with less than this share of the largest
# friction, has stopped. It is locked after so many steps: cloth that still swings would tear it loose again.
STOPPED, HOLDS = wp.constant(real(0.9)), wp.constant(real(0.9))
PATIENCE = wp.constant(3)
# A locked particle slips when its tangential force exceeds the limit by this share: rounding must not let it creep.
SLIP_MARGIN = wp.constant(real(1.0e-2))
# Of several contacts another takes the lead when its friction is larger by this factor: equal ones do not take turns.
LEADS = wp.constant(real(1.2))
# A locked particle is in another's way only beyond this share of the distance that it is held at: not by rounding.
ROUNDING = wp.constant(real(1.0e-9))
# Changes of state that a particle may make in one step, so that it cannot go to and fro for ever.
MOST_CHANGES = wp.constant(2)


@wp.struct
class Contacts:
    """Per particle, and per slot (slot k of particle i is 3 i + k)."""

    mode: wp.array(dtype=wp.int32)
    count: wp.array(dtype=wp.int32)
    changes: wp.array(dtype=wp.int32)  # of state in this step
    stops: wp.array(dtype=wp.int32)  # steps in a row at whose end it had stopped
    slip: wp.array(dtype=vec3)  # [m/s]  velocity relative to the solid that friction is linearised at
    limit: wp.array(dtype=real)  # [N]  the largest friction
    push: wp.array(dtype=vec3)  # [m]  what brings it out of solids that the last solve did not know of
    solid: wp.array(dtype=wp.int32)
    face: wp.array(dtype=wp.int32)
    anchor: wp.array(dtype=vec3)  # the particle in coordinates of the solid's material
    inner_normal: wp.array(dtype=vec3)  # in the solid's frame
    normal: wp.array(dtype=vec3)
    plane: wp.array(dtype=vec3)  # [m]  a point of the plane that it may not cross
    stick: wp.array(dtype=vec3)  # [m]  where the material that it touches will be
    velocity: wp.array(dtype=vec3)  # [m/s]  of that material
    lasting: wp.array(dtype=wp.int32)  # 1: it touched the solid before this step, and `stick` is where that carries it
    target: wp.array(dtype=real)  # [m]  the distance from the surface that it is brought to
    mu: wp.array(dtype=real)
    load: wp.array(dtype=real)  # [N]  normal force
    # Of solid s and particle i, entry s * particles + i:
    clearance: wp.array(dtype=real)  # [m]  distance, or a lower bound of it
    exerted: wp.array(dtype=vec3)  # [N]  force on the particle in the last solve


@wp.func
def slot_of(contacts: Contacts, i: wp.int32, solid: wp.int32) -> wp.int32:
    """The slot of a particle's contact with a solid, or -1."""
    found = wp.int32(-1)
    for k in range(contacts.count[i]):
        if contacts.solid[MOST * i + k] == solid:
            found = MOST * i + k
    return found


@wp.func
def exchange(values: wp.array(dtype=Any), a: wp.int32, b: wp.int32):
    kept = values[a]
    values[a] = values[b]
    values[b] = kept


@wp.func
def exchange_slots(contacts: Contacts, a: wp.int32, b: wp.int32):
    exchange(contacts.solid, a, b)
    exchange(contacts.face, a, b)
    exchange(contacts.anchor, a, b)
    exchange(contacts.inner_normal, a, b)
    exchange(contacts.normal, a, b)
    exchange(contacts.plane, a, b)
    exchange(contacts.stick, a, b)
    exchange(contacts.velocity, a, b)
    exchange(contacts.lasting, a, b)
    exchange(contacts.target, a, b)
    exchange(contacts.mu, a, b)
    exchange(contacts.load, a, b)


@wp.func
def drop(contacts: Contacts, i: wp.int32, k: wp.int32):
    """Forgets slot k of particle i; later ones move up."""
    last = contacts.count[i] - 1
    for j in range(k, last):
        exchange_slots(contacts, MOST * i + j, MOST * i + j + 1)
    contacts.count[i] = last


@wp.func
def loads(contacts: Contacts, i: wp.int32, count: wp.int32, e: vec3) -> vec3:
    """Normal forces of a particle's first contacts, for the force e that they exert together."""
    a = MOST * i
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
def look_at_each_other(contacts: Contacts, a: wp.int32, b: wp.int32) -> wp.bool:
    n = contacts.normal[a]
    m = contacts.normal[b]
    return wp.dot(n, m) < real(0.0) and wp.length(wp.cross(n, m)) < PARALLEL


@wp.func
def between_faces(contacts: Contacts, i: wp.int32) -> wp.bool:
    """Whether two of a particle's contacts look at each other."""
    found = bool(False)
    for k in range(1, contacts.count[i]):
        for j in range(k):
            found = found or look_at_each_other(contacts, MOST * i + j, MOST * i + k)
    return found


@wp.func
def sink(contacts: Contacts, a: wp.int32, depth: real):
    """Holds a particle nearer to a face."""
    n = contacts.normal[a]
    contacts.plane[a] = contacts.plane[a] - depth * n
    contacts.stick[a] = contacts.stick[a] - depth * n
    contacts.target[a] = contacts.target[a] - depth


@wp.func
def squeeze(contacts: Contacts, i: wp.int32, known: wp.int32) -> wp.bool:
    """Brings the planes of two faces that look at each other together half way, and puts one of them first; where they
    leave room there is nothing to hold against, and the one that bears less is forgotten. Among the first contacts, as
    many as are known, that is done already."""
    squeezed = bool(False)
    k = wp.max(known, 1)
    while k < contacts.count[i]:
        forgotten = int(-1)
        for j in range(k):
            a = MOST * i + j
            b = MOST * i + k
            if forgotten < 0 and look_at_each_other(contacts, a, b):
                overlap = wp.dot(contacts.normal[b], contacts.plane[b] - contacts.plane[a])
                if overlap <= real(0.0):
                    forgotten = wp.where(contacts.load[b] > contacts.load[a], j, k)
                else:
                    sink(contacts, a, real(0.5) * overlap)
                    sink(contacts, b, real(0.5) * overlap)
                    exchange_slots(contacts, MOST * i, a)
                    squeezed = bool(True)
        if forgotten < 0:
            k += 1
        else:
            drop(contacts, i, forgotten)
    return squeezed


@wp.func
def choose_lead(contacts: Contacts, i: wp.int32, before: Contacts):
    """Puts the contact with the largest friction first: its material is what the particle sticks to, or slips on. Where
    no friction is known yet it is that of the roughest solid."""
    a = MOST * i
    best = int(0)
    most, roughest = real(-1.0), real(-1.0)
    for k in range(contacts.count[i]):
        friction = contacts.mu[a + k] * wp.max(contacts.load[a + k], real(0.0))
        mu = real(1.0) * contacts.mu[a + k]
        if before.count[i] > 0 and contacts.solid[a + k] == before.solid[a]:
            friction *= LEADS
            mu *= LEADS
        if friction > most or (friction == most and mu > roughest):
            best = k
            most = friction
            roughest = mu
    if best > 0:
        exchange_slots(contacts, a, a + best)


@wp.kernel
def begin_step(before: Contacts, now_out: Contacts):
    i = wp.tid()
    now_out.mode[i] = FREE
    now_out.count[i] = 0
    now_out.changes[i] = 0
    now_out.stops[i] = 0
    now_out.slip[i] = vec3()
    now_out.limit[i] = real(0.0)


@wp.func
def land(contacts: Contacts, i: wp.int32, mass: real, v: vec3, gravity: vec3, h: real):
    """Locked or sliding, for a particle that arrives with velocity v: by what friction can stop ([BW98] sec. 5.4)."""
    a = MOST * i
    n = contacts.normal[a]
    w = v - contacts.velocity[a]
    w_n = wp.dot(w, n)
    w_t = w - w_n * n
    speed = wp.length(w_t)
    # Speed that friction takes away while the normal speed goes, and by the particle's own weight
    stopped = contacts.mu[a] * wp.max(-w_n - h * wp.dot(gravity, n), real(0.0))
    contacts.limit[i] = mass * stopped / h
    contacts.mode[i] = LOCKED
    if speed > (real(1.0) + SLIP_MARGIN) * stopped:
        contacts.mode[i] = SLIDING
        contacts.slip[i] = w_t


@wp.func
def give_way(contacts: Contacts, i: wp.int32):
    """A locked particle that another solid meets stays only if that leaves it in front of the other's face."""
    a = MOST * i
    for k in range(1, contacts.count[i]):
        above = wp.dot(contacts.normal[a + k], contacts.stick[a] - contacts.plane[a + k])
        if above < -ROUNDING * wp.abs(contacts.target[a + k]):
            contacts.mode[i] = SLIDING
            contacts.slip[i] = vec3()


@wp.kernel
def choose_modes(
    # in
    masses: wp.array(dtype=real), v: wp.array(dtype=vec3), gravity: vec3, h: real, before: Contacts,
    # in and out
    now_out: Contacts,
):
    """Locked or sliding, to begin with: as before, or as a new contact lands."""
    i = wp.tid()
    if now_out.count[i] == 0:
        return
    a = MOST * i
    choose_lead(now_out, i, before)
    same = before.count[i] > 0 and before.solid[a] == now_out.solid[a]
    if squeeze(now_out, i, 0):
        now_out.mode[i] = LOCKED
    elif before.mode[i] == FREE or (not same and now_out.lasting[a] == 0):
        land(now_out, i, masses[i], v[i], gravity, h)
    elif before.mode[i] == LOCKED and same:
        now_out.mode[i] = LOCKED
        give_way(now_out, i)
    else:
        now_out.mode[i] = SLIDING
        n = now_out.normal[a]
        w = v[i] - now_out.velocity[a]
        now_out.slip[i] = w - wp.dot(w, n) * n
        now_out.limit[i] = before.limit[i]


@wp.func
def creep_speed(thickness: real, h: real) -> real:
    return CREEP * thickness / h


@wp.kernel
def hold_contacts(
    # in
    S_user: wp.array(dtype=mat33), x_user: wp.array(dtype=vec3), v_user: wp.array(dtype=vec3), thickness: real, h: real,
    again: wp.bool,
    # in and out
    contacts: Contacts, touched_out: wp.array(dtype=wp.int32),
    # out
    S_out: wp.array(dtype=mat33), x_held_out: wp.array(dtype=vec3), v_held_out: wp.array(dtype=vec3),
    friction_out: wp.array(dtype=vec3), drag_out: wp.array(dtype=mat33),
):
    """S, x_held and v_held: the scene's own constraints first, then contacts in what they leave free. Friction of what
    slides is f(w) = -limit w/|w| linearised at the slip w0:  -limit w0/|w0| - drag w,  drag = limit/|w0| across w0."""
    i = wp.tid()
    touches = contacts.count[i] > 0
    if again and touched_out[i] == 0 and not touches:
        return  # it was free, and is
    touched_out[i] = wp.where(touches or (again and touched_out[i] != 0), 1, 0)
    S, x, v = real(1.0) * S_user[i], real(1.0) * x_user[i], real(1.0) * v_user[i]
    a = MOST * i
    friction = vec3()
    drag = mat33()
    for k in range(contacts.count[i]):
        contacts.load[a + k] = wp.max(contacts.load[a + k], real(0.0))
    if contacts.count[i] > 0:
        if contacts.mode[i] == LOCKED or between_faces(contacts, i):
            x += S * contacts.stick[a]
            v += S * contacts.velocity[a]
            S = mat33()
        else:
            for k in range(contacts.count[i]):
                n = contacts.normal[a + k]
                free = S * n
                length = wp.length(free)
                if length > PARALLEL:
                    p = free / length
                    x += p * ((wp.dot(n, contacts.plane[a + k]) - wp.dot(n, x)) / length)
                    v += p * ((wp.dot(n, contacts.velocity[a + k]) - wp.dot(n, v)) / length)
                    S -= wp.outer(p, p)
            if wp.trace(S) < real(0.5):
                S = mat33()  # nothing is free: exactly so
            slip = S * contacts.slip[i]
            speed = wp.length(slip)
            creep = creep_speed(thickness, h)
            if speed > creep:
                friction = -(contacts.limit[i] / speed) * slip
                drag = (contacts.limit[i] / speed) * (S - wp.outer(slip, slip) / (speed * speed))
            else:
                drag = (contacts.limit[i] / creep) * S
    S_out[i] = S
    x_held_out[i] = x
    v_held_out[i] = v
    friction_out[i] = friction
    drag_out[i] = drag


@wp.kernel
def drag_velocity(contacts: Contacts, x_ref: wp.array(dtype=vec3), h: real, v_drag_out: wp.array(dtype=vec3)):
    """What slip is measured from: the u that x = x_ref + h u needs to stay with the material, or, for a particle that
    lands in this step and has not touched it yet, the material's velocity."""
    i = wp.tid()
    if contacts.count[i] > 0:
        v_drag_out[i] = contacts.velocity[MOST * i]
        if contacts.lasting[MOST * i] != 0:
            v_drag_out[i] = (contacts.stick[MOST * i] - x_ref[i]) / h


@wp.kernel
def judge_forces(
    # in
    masses: wp.array(dtype=real), S: wp.array(dtype=mat33), S_user: wp.array(dtype=mat33),
    friction: wp.array(dtype=vec3), drag: wp.array(dtype=mat33), v_drag: wp.array(dtype=vec3),
    force: wp.array(dtype=vec3), u: wp.array(dtype=vec3), thickness: real, h: real, before: Contacts,
    # in and out
    contacts: Contacts,
    # out
    urgent_out: wp.array(dtype=wp.int32),
):
    """Does each state fit the force that it needed? Released when it would pull, slips beyond Coulomb's limit, and
    sticks when it has stopped."""
    i = wp.tid()
    if contacts.count[i] == 0:
        return
    wp.atomic_add(urgent_out, TOUCHING, 1)
    a = MOST * i
    known = int(0)  # contacts that were solved for; those that the solve led to come after them
    for k in range(contacts.count[i]):
        if contacts.load[a + k] >= real(0.0):
            known += 1
    e = (S_user[i] - S[i]) * force[i]
    n = loads(contacts, i, known, e)
    limit = real(0.0)
    rest = e
    for k in range(known):
        contacts.load[a + k] = wp.max(n[k], real(0.0))
        limit += contacts.mu[a + k] * contacts.load[a + k]
        rest -= n[k] * contacts.normal[a + k]
    sliding = contacts.mode[i] == SLIDING
    w = S[i] * (u[i] - v_drag[i])
    tangential = rest
    if sliding:
        tangential = friction[i] - drag[i] * w
        rest += tangential
    for k in range(known):
        share = wp.where(k == 0, real(1.0), real(0.0))
        if limit > real(0.0):
            share = contacts.mu[a + k] * contacts.load[a + k] / limit
        contacts.exerted[contacts.solid[a + k] * masses.shape[0] + i] = n[k] * contacts.normal[a + k] + share * rest
    if known < contacts.count[i]:  # some have no force to be judged by yet
        if contacts.mode[i] == FREE:
            choose_lead(contacts, i, before)
            land(contacts, i, masses[i], u[i], vec3(), h)
        elif contacts.mode[i] == LOCKED:
            give_way(contacts, i)
        if squeeze(contacts, i, known):
            contacts.mode[i] = LOCKED
        return
    urgent_force = URGENT * thickness * masses[i] / (h * h)
    contacts.limit[i] = limit
    if between_faces(contacts, i):
        return

    may_change = contacts.changes[i] < MOST_CHANGES
    worst = int(0)
    for k in range(contacts.count[i]):
        if n[k] < n[worst]:
            worst = k
    if n[worst] < real(0.0) and may_change:
        if n[worst] < -urgent_force:
            wp.atomic_add(urgent_out, WRONG, 1)
            contacts.changes[i] = contacts.changes[i] + 1
        drop(contacts, i, worst)
        if contacts.count[i] == 0:
            contacts.mode[i] = FREE
        elif contacts.mode[i] == LOCKED:
            contacts.mode[i] = SLIDING
            contacts.slip[i] = vec3()
        return

    error = real(0.0)
    if sliding:
        creep = creep_speed(thickness, h)
        speed = wp.length(w)
        error = wp.length(tangential + (limit / wp.max(speed, creep)) * w)
        # Not at once: to be locked where the step began would undo what it has done.
        stopped = speed < STOPPED * creep and wp.length(tangential) < HOLDS * limit
        contacts.stops[i] = wp.where(stopped, before.stops[i] + 1, 0)
        if wp.dot(w, contacts.slip[i]) < real(0.0):
            w = vec3()  # friction does not turn a motion round: from here on it creeps
        contacts.slip[i] = w
    else:
        pull = wp.length(tangential)
        if pull > (real(1.0) + SLIP_MARGIN) * limit and contacts.count[i] < MOST and may_change:
            contacts.mode[i] = SLIDING
            error = pull - limit
            # The speed that a particle by itself would reach; in cloth it is less, but its direction is right.
            contacts.slip[i] = -(error * h / (masses[i] * pull)) * tangential
            contacts.changes[i] = contacts.changes[i] + 1
            if before.mode[i] == FREE:  # what has just come down slides from the first moment
                error += FRICTION_ERROR * limit
    if error > wp.max(CREEP * thickness * masses[i] / (h * h), FRICTION_ERROR * limit):
        wp.atomic_add(urgent_out, RUBBING, 1)
        if sliding and error > GROSS_ERROR * limit:
            wp.atomic_add(urgent_out, GROSS, 1)


@wp.kernel
def push_out(
    # in
    masses: wp.array(dtype=real), h: real, contacts: Contacts,
    # in and out
    x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
):
    """What the last solve left inside a solid is put on its surface, and no longer moves inwards."""
    i = wp.tid()
    if wp.length_sq(contacts.push[i]) == real(0.0):
        return
    x_out[i] = x_out[i] + contacts.push[i]
    for k in range(contacts.count[i]):
        n = contacts.normal[MOST * i + k]
        inward = wp.min(wp.dot(v_out[i] - contacts.velocity[MOST * i + k], n), real(0.0))
        v_out[i] = v_out[i] - inward * n
        c = contacts.solid[MOST * i + k] * masses.shape[0] + i
        contacts.exerted[c] = contacts.exerted[c] - (masses[i] * inward / h) * n


@wp.kernel
def end_step(before: Contacts, now: Contacts, jumped_out: wp.array(dtype=wp.int32)):
    """Locks what has stopped, and finds whose motion contacts changed at once: where they hold it, or altogether."""
    i = wp.tid()
    if now.mode[i] == SLIDING and now.stops[i] >= PATIENCE:
        now.mode[i] = LOCKED
        now.stops[i] = 0
    landed = now.count[i] > before.count[i]
    jumped_out[i] = wp.where(landed or now.count[i] == 0, JUMPED_WHERE_HELD, 0)
    if (landed and now.limit[i] > real(0.0)) or wp.length_sq(now.push[i]) > real(0.0):
        jumped_out[i] = JUMPED
