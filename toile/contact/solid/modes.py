"""States of contacts with solids, locked or sliding: how a step begins, and how the forces of a solve change them.

    tangential force <= mu load    while a contact is locked        load >= 0, or it is released

Forces come from the solve: e = sum of load_k normal_k + the tangential part.

Source      [BW98] sec. 5.4
Symbols     mu  friction     w  velocity relative to the solid [m/s]     load  normal force [N]     e  contact force [N]
Deviations  A state that contradicts the forces is corrected within the step by solving again, not in the next step.
"""

import warp as wp

from toile.contact.solid.contact_arrays import (
    FREE,
    FRICTION_INEXACT,
    GROSS,
    IN_CONTACT,
    IN_PINCH,
    LASTING,
    LOCKED,
    MAX_CONTACTS,
    PINCHED,
    SLIDING,
    WRONG,
    SolidContactArrays,
    count_one,
    drop,
    exchange_slots,
    note_pinched,
)
from toile.contact.solid.faces import YIELD, loads, settle_faces
from toile.contact.solid.friction import SlidingFriction
from toile.contact.solid.holding import CREEP, creep_speed
from toile.math.types import real, vec3
from toile.model.constraint_state import ConstraintState
from toile.model.corrections import DISCONTINUOUS, DISCONTINUOUS_WHERE_HELD
from toile.step_limits import MAX_STATE_CHANGES

# A contact that pulls is released within the step when it would change the speed by this fraction of thickness/h, and
# otherwise in the next step.
URGENT = wp.constant(real(0.05))
# Friction is corrected within the step when its error also exceeds this fraction of its limit. Stiff cloth at rest has
# many particles near the limit, whose states depend on each other: following each of them does not pay.
FRICTION_ERROR = wp.constant(real(0.3))
# Friction of a sliding contact is far from Coulomb's when its error exceeds its limit by this factor.
GROSS_ERROR = wp.constant(real(2.0))
# A particle that creeps slower than the first fraction of the creep speed, with less than the second fraction of the
# largest friction, has stopped. It locks after PATIENCE such steps: cloth that still swings would tear it loose again.
STOPPED, HOLDS = wp.constant(real(0.9)), wp.constant(real(0.9))
PATIENCE = wp.constant(3)
# A locked particle slips when its tangential force exceeds the limit by this fraction: rounding must not make it creep.
SLIP_MARGIN = wp.constant(real(1.0e-2))
# Another contact takes the lead when its friction is larger by this factor, so that equal ones do not alternate.
LEADS = wp.constant(real(1.2))
# A locked particle obstructs another face only beyond this fraction of the distance at which it is held: not by
# rounding.
ROUNDING = wp.constant(real(1.0e-9))


@wp.func
def choose_lead(contacts: SolidContactArrays, i: wp.int32, before: SolidContactArrays):
    """Puts the contact with the largest friction first: the particle sticks to its material, or slips on it. While no
    friction is known the roughest solid leads."""
    a = MAX_CONTACTS * i
    best = int(0)
    largest, roughest = real(-1.0), real(-1.0)
    for k in range(contacts.count[i]):
        friction = contacts.mu[a + k] * wp.max(contacts.load[a + k], real(0.0))
        mu = real(1.0) * contacts.mu[a + k]
        if before.count[i] > 0 and contacts.solid[a + k] == before.solid[a]:
            friction *= LEADS
            mu *= LEADS
        if friction > largest or (friction == largest and mu > roughest):
            best = k
            largest = friction
            roughest = mu
    if best > 0:
        exchange_slots(contacts, a, a + best)


@wp.kernel
def begin_step(first: wp.int32, before: SolidContactArrays, now_out: SolidContactArrays):
    """Clears the contacts of all particles."""
    i = first + wp.tid()
    now_out.mode[i] = FREE
    now_out.count[i] = 0
    now_out.planes[i] = 0
    now_out.slack[i] = real(0.0)
    now_out.eased[i] = vec3()
    now_out.changes[i] = 0
    now_out.stops[i] = 0
    now_out.slip[i] = vec3()
    now_out.limit[i] = real(0.0)


@wp.func
def land(contacts: SolidContactArrays, i: wp.int32, mass: real, v: vec3, gravity: vec3, h: real):
    """Locks a particle that arrives with velocity v if friction can stop it; otherwise it slides ([BW98] sec. 5.4)."""
    a = MAX_CONTACTS * i
    n = contacts.normal[a]
    w = v - contacts.velocity[a]
    w_n = wp.dot(w, n)
    w_t = w - w_n * n
    speed = wp.length(w_t)
    # Friction removes this speed while the normal impulse stops the particle, and by the particle's own weight.
    stopped = contacts.mu[a] * wp.max(-w_n - h * wp.dot(gravity, n), real(0.0))
    contacts.limit[i] = mass * stopped / h
    contacts.mode[i] = LOCKED
    if speed > (real(1.0) + SLIP_MARGIN) * stopped:
        contacts.mode[i] = SLIDING
        contacts.slip[i] = w_t


@wp.func
def give_way(contacts: SolidContactArrays, i: wp.int32):
    """Lets a locked particle slide where its place would be behind the face of another contact."""
    a = MAX_CONTACTS * i
    for k in range(1, contacts.count[i]):
        above = wp.dot(contacts.normal[a + k], contacts.stick[a] - contacts.plane[a + k])
        if above < -ROUNDING * wp.abs(contacts.target[a + k]):
            contacts.mode[i] = SLIDING
            contacts.slip[i] = vec3()


@wp.func
def planes_of(contacts: SolidContactArrays, i: wp.int32) -> wp.int32:
    """Returns the number of contacts that keep impulses from moving a particle; -1 if it is pinched."""
    return wp.where(contacts.mode[i] == PINCHED, -1, contacts.count[i])


@wp.kernel
def choose_modes(
    # in
    first: wp.int32, masses: wp.array(dtype=real), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), gravity: vec3,
    h: real, thickness: real, max_recovery: real, before: SolidContactArrays,
    # in and out
    now_out: SolidContactArrays,
):  # fmt: skip
    """Chooses the state that each particle begins the step with: as before, or as a new contact lands."""
    i = first + wp.tid()
    note_pinched(now_out, i, before)
    if now_out.count[i] == 0:
        return
    a = MAX_CONTACTS * i
    choose_lead(now_out, i, before)
    was_pinched = before.mode[i] == PINCHED
    pinched = settle_faces(now_out, i, 0, was_pinched, x[i] + h * v[i], thickness, max_recovery)
    same = before.count[i] > 0 and before.solid[a] == now_out.solid[a]
    if now_out.count[i] == 0:
        return
    if pinched:
        now_out.mode[i] = PINCHED
        note_pinched(now_out, i, before)
    elif before.mode[i] == FREE or was_pinched or (not same and now_out.lasting[a] != LASTING):
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
    # Contacts between cloths are detected with these planes: `end_step` knows them only after the last solve.
    now_out.planes[i] = planes_of(now_out, i)


@wp.struct
class SolveResult:
    """What a solve found for every particle."""

    force: wp.array(dtype=vec3)  # [N]  of the constraints
    pulls: wp.array(dtype=vec3)  # [N]  of contacts between cloths that pulled, and will not act again
    u: wp.array(dtype=vec3)  # [m/s]


@wp.struct
class ContactForces:
    """The force that the contacts of a particle exerted in a solve, by parts."""

    known: wp.int32  # contacts that were part of the solve; those that it missed come after them
    n: vec3  # [N]  normal forces of the known contacts
    limit: real  # [N]  largest friction
    tangential: vec3  # [N]
    w: vec3  # [m/s]  slip


@wp.func
def split_force(
    i: wp.int32, masses: wp.array(dtype=real), constraints: ConstraintState, friction: SlidingFriction,
    solved: SolveResult, contacts: SolidContactArrays,
) -> ContactForces:  # fmt: skip
    """Splits the constraint force of a particle into the forces of its contacts, and writes their loads: those that
    they would have had without another layer that pulled."""
    found = ContactForces()
    a = MAX_CONTACTS * i
    for k in range(contacts.count[i]):
        if contacts.load[a + k] >= real(0.0):
            found.known += 1
    C = constraints.S_user[i] - constraints.S[i]
    pull = C * solved.pulls[i]
    e = C * solved.force[i] + pull
    n = loads(contacts, i, found.known, e)
    rest = e
    for k in range(found.known):
        contacts.load[a + k] = wp.max(n[k], real(0.0))
        found.limit += contacts.mu[a + k] * contacts.load[a + k]
        rest -= n[k] * contacts.normal[a + k]
    found.n = n
    found.w = constraints.S[i] * (solved.u[i] - friction.v_drag[i])
    found.tangential = rest
    if contacts.mode[i] == SLIDING:
        found.tangential = friction.force[i] - friction.drag[i] * found.w
        rest += found.tangential
    for k in range(found.known):
        share = wp.where(k == 0, real(1.0), real(0.0))
        if found.limit > real(0.0):
            share = contacts.mu[a + k] * contacts.load[a + k] / found.limit
        contacts.exerted[contacts.solid[a + k] * masses.shape[0] + i] = n[k] * contacts.normal[a + k] + share * (
            rest - pull
        )
    return found


@wp.func
def judge_friction(
    i: wp.int32, found: ContactForces, mass: real, thickness: real, h: real, before: SolidContactArrays,
    contacts: SolidContactArrays,
) -> real:  # fmt: skip
    """Lets a locked particle slip beyond Coulomb's limit, and counts the steps in which a sliding one has stopped.
    Returns the error of the friction that was solved for [N]."""
    error = real(0.0)
    if contacts.mode[i] == SLIDING:
        w = found.w
        creep = creep_speed(thickness, h)
        speed = wp.length(w)
        error = wp.length(found.tangential + (found.limit / wp.max(speed, creep)) * w)
        # It does not lock at once: locked where the step began, the particle would go back there.
        stopped = speed < STOPPED * creep and wp.length(found.tangential) < HOLDS * found.limit
        contacts.stops[i] = wp.where(stopped, before.stops[i] + 1, 0)
        if wp.dot(w, contacts.slip[i]) < real(0.0):
            w = vec3()  # friction does not reverse a motion: from here on the particle creeps
        contacts.slip[i] = w
    else:
        pull = wp.length(found.tangential)
        may_change = contacts.changes[i] < MAX_STATE_CHANGES
        if pull > (real(1.0) + SLIP_MARGIN) * found.limit and contacts.count[i] < MAX_CONTACTS and may_change:
            contacts.mode[i] = SLIDING
            error = pull - found.limit
            # The speed that a particle by itself would reach; within cloth it is less, but its direction is right.
            contacts.slip[i] = -(error * h / (mass * pull)) * found.tangential
            contacts.changes[i] = contacts.changes[i] + 1
            if before.mode[i] == FREE:  # a particle that has just landed slides from the first moment
                error += FRICTION_ERROR * found.limit
    return error


@wp.kernel
def judge_forces(
    # in
    first: wp.int32, masses: wp.array(dtype=real), constraints: ConstraintState, friction: SlidingFriction,
    solved: SolveResult, thickness: real, h: real, max_recovery: real, release: wp.bool,
    before: SolidContactArrays,
    # in and out
    contacts_out: SolidContactArrays,
    # out
    urgent_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Compares each state with the force that it needed: a contact that pulls is released, one beyond Coulomb's limit
    slips. Counts what was wrong. Without `release` only what pulls hard is released: a load near zero is rounding,
    and the particle has yet to be brought to its place."""
    i = first + wp.tid()
    if contacts_out.count[i] == 0:
        return
    count_one(urgent_out, IN_CONTACT, first)
    if contacts_out.mode[i] == PINCHED:
        count_one(urgent_out, IN_PINCH, first)
    sliding = contacts_out.mode[i] == SLIDING
    found = split_force(i, masses, constraints, friction, solved, contacts_out)
    if found.known < contacts_out.count[i]:  # some contacts have no force to be judged by yet
        if contacts_out.mode[i] == FREE:
            choose_lead(contacts_out, i, before)
            land(contacts_out, i, masses[i], solved.u[i], vec3(), h)
        elif contacts_out.mode[i] == LOCKED:
            give_way(contacts_out, i)
        x = contacts_out.x_checked[i]
        if contacts_out.mode[i] != PINCHED and settle_faces(
            contacts_out, i, found.known, before.mode[i] == PINCHED, x, thickness, max_recovery
        ):
            contacts_out.mode[i] = PINCHED
            by = contacts_out.pinched_by[i]
            by[0] = contacts_out.solid[MAX_CONTACTS * i]
            by[1] = contacts_out.solid[MAX_CONTACTS * i + 1]
            contacts_out.pinched_by[i] = by
            contacts_out.recovery[i] = contacts_out.stick[MAX_CONTACTS * i] - x
        return
    contacts_out.limit[i] = found.limit
    if contacts_out.mode[i] == PINCHED:
        return

    worst = int(0)
    for k in range(contacts_out.count[i]):
        if found.n[k] < found.n[worst]:
            worst = k
    urgent = found.n[worst] < -(URGENT * thickness * masses[i] / (h * h))
    if (urgent or (release and found.n[worst] < real(0.0))) and contacts_out.changes[i] < MAX_STATE_CHANGES:
        if urgent:
            count_one(urgent_out, WRONG, first)
            contacts_out.changes[i] = contacts_out.changes[i] + 1
        drop(contacts_out, i, worst)
        if contacts_out.count[i] == 0:
            contacts_out.mode[i] = FREE
        elif contacts_out.mode[i] == LOCKED:
            contacts_out.mode[i] = SLIDING
            contacts_out.slip[i] = vec3()
        return

    error = judge_friction(i, found, masses[i], thickness, h, before, contacts_out)
    if error > wp.max(CREEP * thickness * masses[i] / (h * h), FRICTION_ERROR * found.limit):
        count_one(urgent_out, FRICTION_INEXACT, first)
        if sliding and error > GROSS_ERROR * found.limit:
            count_one(urgent_out, GROSS, first)


@wp.func
def keep_between(contacts: SolidContactArrays, i: wp.int32, before: SolidContactArrays):
    """Keeps impulses from moving a particle that was let go through the faces that have pinched it."""
    a = MAX_CONTACTS * i
    room = real(1.0e30)
    faces = int(0)
    for k in range(2):
        for j in range(2):
            if contacts.solid[a + j] == before.solid[a + k]:  # dropped contacts lie behind the others
                faces += 1
        room = wp.min(room, contacts.clearance[before.solid[a + k] * contacts.mode.shape[0] + i])
    if contacts.count[i] < 2 and faces == 2:
        contacts.planes[i] = 2
        contacts.slack[i] = YIELD * wp.max(room, real(0.0))


@wp.kernel
def end_step(
    # in
    first: wp.int32, before: SolidContactArrays,
    # in and out
    now_out: SolidContactArrays,
    # out
    discontinuous_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Locks particles that have stopped, and marks those whose motion contacts changed at once: in the directions that
    they hold, or in all."""
    i = first + wp.tid()
    if now_out.mode[i] == SLIDING and now_out.stops[i] >= PATIENCE:
        now_out.mode[i] = LOCKED
        now_out.stops[i] = 0
    now_out.planes[i] = planes_of(now_out, i)
    if before.mode[i] == PINCHED and now_out.mode[i] != PINCHED:
        keep_between(now_out, i, before)
    landed = now_out.count[i] > before.count[i]
    caught = (now_out.mode[i] == PINCHED) != (before.mode[i] == PINCHED)
    discontinuous_out[i] = wp.where(landed or now_out.count[i] == 0, DISCONTINUOUS_WHERE_HELD, 0)
    if (landed and now_out.limit[i] > real(0.0)) or caught or wp.length_sq(now_out.recovery[i]) > real(0.0):
        discontinuous_out[i] = DISCONTINUOUS
