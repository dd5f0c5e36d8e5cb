"""Locked, sliding or released: the state that each contact begins a step with, and what its force makes of it.

    tangential force <= mu load    while it is locked        load >= 0, or it is let go

Forces come from the solve: e/h = sum of load_k normal_k + the tangential part.

Source      [BW98] sec. 5.4
Symbols     mu  friction     w  velocity relative to the solid [m/s]     load  normal force [N]
Deviations  A state that does not fit the forces is corrected within the step by solving again, not in the next step.
"""

import warp as wp

from toile.contact.solid.contacts import (
    FREE,
    FRICTION_INEXACT,
    GROSS,
    IN_CONTACT,
    LOCKED,
    MAX_CONTACTS,
    SLIDING,
    WRONG,
    SolidContactArrays,
    count_one,
    drop,
    exchange_slots,
)
from toile.contact.solid.faces import between_faces, loads, squeeze
from toile.contact.solid.holding import CREEP, creep_speed
from toile.math.types import mat33, real, vec3
from toile.model.corrections import DISCONTINUOUS, DISCONTINUOUS_WHERE_HELD

# A contact that pulls is released within the step when it would change the speed by this share of thickness/h, and
# otherwise in the next; what comes down slower than friction matters likewise.
URGENT = wp.constant(real(0.05))
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
MAX_CHANGES = wp.constant(2)


@wp.func
def choose_lead(contacts: SolidContactArrays, i: wp.int32, before: SolidContactArrays):
    """Puts the contact with the largest friction first: its material is what the particle sticks to, or slips on. Where
    no friction is known yet it is that of the roughest solid."""
    a = MAX_CONTACTS * i
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
def begin_step(first: wp.int32, before: SolidContactArrays, now_out: SolidContactArrays):
    i = first + wp.tid()
    now_out.mode[i] = FREE
    now_out.count[i] = 0
    now_out.changes[i] = 0
    now_out.stops[i] = 0
    now_out.slip[i] = vec3()
    now_out.limit[i] = real(0.0)


@wp.func
def land(contacts: SolidContactArrays, i: wp.int32, mass: real, v: vec3, gravity: vec3, h: real):
    """Locked or sliding, for a particle that arrives with velocity v: by what friction can stop ([BW98] sec. 5.4)."""
    a = MAX_CONTACTS * i
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
def give_way(contacts: SolidContactArrays, i: wp.int32):
    """A locked particle that another solid meets stays only if that leaves it in front of the other's face."""
    a = MAX_CONTACTS * i
    for k in range(1, contacts.count[i]):
        above = wp.dot(contacts.normal[a + k], contacts.stick[a] - contacts.plane[a + k])
        if above < -ROUNDING * wp.abs(contacts.target[a + k]):
            contacts.mode[i] = SLIDING
            contacts.slip[i] = vec3()


@wp.kernel
def choose_modes(
    # in
    first: wp.int32, masses: wp.array(dtype=real), v: wp.array(dtype=vec3), gravity: vec3, h: real, before: SolidContactArrays,
    # in and out
    now_out: SolidContactArrays,
):
    """Locked or sliding, to begin with: as before, or as a new contact lands."""
    i = first + wp.tid()
    if now_out.count[i] == 0:
        return
    a = MAX_CONTACTS * i
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


@wp.kernel
def judge_forces(
    # in
    first: wp.int32, masses: wp.array(dtype=real), S: wp.array(dtype=mat33), S_user: wp.array(dtype=mat33),
    friction: wp.array(dtype=vec3), drag: wp.array(dtype=mat33), v_drag: wp.array(dtype=vec3),
    force: wp.array(dtype=vec3), u: wp.array(dtype=vec3), thickness: real, h: real, before: SolidContactArrays,
    # in and out
    contacts: SolidContactArrays,
    # out
    urgent_out: wp.array(dtype=wp.int32),
):
    """Does each state fit the force that it needed? Released when it would pull, slips beyond Coulomb's limit, and
    sticks when it has stopped."""
    i = first + wp.tid()
    if contacts.count[i] == 0:
        return
    count_one(urgent_out, IN_CONTACT, first)
    a = MAX_CONTACTS * i
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

    may_change = contacts.changes[i] < MAX_CHANGES
    worst = int(0)
    for k in range(contacts.count[i]):
        if n[k] < n[worst]:
            worst = k
    if n[worst] < real(0.0) and may_change:
        if n[worst] < -urgent_force:
            count_one(urgent_out, WRONG, first)
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
        if pull > (real(1.0) + SLIP_MARGIN) * limit and contacts.count[i] < MAX_CONTACTS and may_change:
            contacts.mode[i] = SLIDING
            error = pull - limit
            # The speed that a particle by itself would reach; in cloth it is less, but its direction is right.
            contacts.slip[i] = -(error * h / (masses[i] * pull)) * tangential
            contacts.changes[i] = contacts.changes[i] + 1
            if before.mode[i] == FREE:  # what has just come down slides from the first moment
                error += FRICTION_ERROR * limit
    if error > wp.max(CREEP * thickness * masses[i] / (h * h), FRICTION_ERROR * limit):
        count_one(urgent_out, FRICTION_INEXACT, first)
        if sliding and error > GROSS_ERROR * limit:
            count_one(urgent_out, GROSS, first)


@wp.kernel
def end_step(first: wp.int32, before: SolidContactArrays, now: SolidContactArrays, discontinuous_out: wp.array(dtype=wp.int32)):
    """Locks what has stopped, and finds whose motion contacts changed at once: where they hold it, or altogether."""
    i = first + wp.tid()
    if now.mode[i] == SLIDING and now.stops[i] >= PATIENCE:
        now.mode[i] = LOCKED
        now.stops[i] = 0
    landed = now.count[i] > before.count[i]
    discontinuous_out[i] = wp.where(landed or now.count[i] == 0, DISCONTINUOUS_WHERE_HELD, 0)
    if (landed and now.limit[i] > real(0.0)) or wp.length_sq(now.recovery[i]) > real(0.0):
        discontinuous_out[i] = DISCONTINUOUS
