"""Constraints made of the contacts of a particle: free directions, positions, velocities, and sliding friction.

    normal . x = normal . plane    while the particle slides        x = stick    while it is locked to the first contact

Two contacts leave one free direction, three leave none. Friction is f(w) = -limit w/|w|, linearized at the slip; below
a creep speed it is proportional to w.

Source      [BW98] secs. 5.1, 5.4, 6.2
Symbols     w  velocity relative to the solid [m/s]     S  free directions     limit  mu times the normal force [N]
Deviations  The paper has friction at high sliding velocities only; here it acts at all, proportional to low ones.
"""

import warp as wp

from toile.contact.solid.contact_arrays import LOCKED, MAX_CONTACTS, PINCHED, SLIDING, SolidContactArrays
from toile.contact.solid.faces import OPPOSITE, PARALLEL, mean_velocity
from toile.contact.solid.friction import SlidingFriction
from toile.math.types import mat33, real, vec3
from toile.model.constraint_state import ConstraintState

# Below this fraction of the speed thickness/h friction is proportional to the speed.
CREEP = wp.constant(real(0.002))


@wp.func
def creep_speed(thickness: real, h: real) -> real:
    """Returns the speed below which friction is proportional to it [m/s]."""
    return CREEP * thickness / h


@wp.kernel
def hold_contacts(
    # in
    first: wp.int32, thickness: real, h: real, again: wp.bool,
    # in and out
    contacts_out: SolidContactArrays, constraints_out: ConstraintState, friction_out: SlidingFriction,
):  # fmt: skip
    """Fills S, x_held and v_held: the scene's own constraints first, then contacts in the directions they leave free.
    Sliding friction f(w) = -limit w/|w| is linearized at the slip w0: -limit w0/|w0| - drag w, drag = limit/|w0| across
    w0."""
    i = first + wp.tid()
    any_contact = contacts_out.count[i] > 0
    if again and friction_out.in_contact[i] == 0 and not any_contact:
        return  # it was free and still is
    friction_out.in_contact[i] = wp.where(any_contact or (again and friction_out.in_contact[i] != 0), 1, 0)
    S = real(1.0) * constraints_out.S_user[i]
    x, v = real(1.0) * constraints_out.x_user[i], real(1.0) * constraints_out.v_user[i]
    a = MAX_CONTACTS * i
    friction = vec3()
    drag = mat33()
    for k in range(contacts_out.count[i]):
        contacts_out.load[a + k] = wp.max(contacts_out.load[a + k], real(0.0))
    if contacts_out.count[i] > 0:
        if contacts_out.mode[i] == PINCHED:
            v_mean = mean_velocity(contacts_out, i)
            if contacts_out.mu[a] + contacts_out.mu[a + 1] > real(0.0):
                x += S * contacts_out.stick[a]
                v += S * v_mean
                S = mat33()
            else:
                apart = wp.normalize(contacts_out.normal[a] - contacts_out.normal[a + 1])
                free = S * apart
                length = wp.length(free)
                if length > PARALLEL:
                    p = free / length
                    x += p * (wp.dot(apart, contacts_out.stick[a] - x) / length)
                    v += p * (wp.dot(apart, v_mean - v) / length)
                    S -= wp.outer(p, p)
        elif contacts_out.mode[i] == LOCKED:
            x += S * contacts_out.stick[a]
            v += S * contacts_out.velocity[a]
            S = mat33()
        else:
            for k in range(contacts_out.count[i]):
                n = contacts_out.normal[a + k]
                free = S * n
                length = wp.length(free)
                if length > wp.where(k > 0 and wp.dot(n, contacts_out.normal[a]) < real(0.0), OPPOSITE, PARALLEL):
                    p = free / length
                    x += p * ((wp.dot(n, contacts_out.plane[a + k]) - wp.dot(n, x)) / length)
                    v += p * ((wp.dot(n, contacts_out.velocity[a + k]) - wp.dot(n, v)) / length)
                    S -= wp.outer(p, p)
            if wp.trace(S) < real(0.5):
                S = mat33()  # no direction is free: exactly zero, without rounding
            slip = S * contacts_out.slip[i]
            speed = wp.length(slip)
            creep = creep_speed(thickness, h)
            if contacts_out.changes[i] > 0 and contacts_out.mode[i] == SLIDING:
                # It has just been released from where it was locked, and its load will change with its motion: a force
                # of fixed size could reverse it. One that is proportional to the slip cannot.
                drag = (contacts_out.limit[i] / wp.clamp(speed, creep, thickness / h)) * S
            elif speed > creep:
                friction = -(contacts_out.limit[i] / speed) * slip
                drag = (contacts_out.limit[i] / speed) * (S - wp.outer(slip, slip) / (speed * speed))
            else:
                drag = (contacts_out.limit[i] / creep) * S
    constraints_out.S[i] = S
    constraints_out.x_held[i] = x
    constraints_out.v_held[i] = v
    friction_out.force[i] = friction
    friction_out.drag[i] = drag


@wp.kernel
def find_drag_velocity(
    # in
    first: wp.int32, contacts: SolidContactArrays, x_ref: wp.array(dtype=vec3), h: real,
    # out
    v_drag_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Finds the velocity that slip is measured from: the u with which x = x_ref + h u stays with the material. For a
    particle that lands in this step it is the material's velocity."""
    i = first + wp.tid()
    if contacts.count[i] > 0:
        v_drag_out[i] = contacts.velocity[MAX_CONTACTS * i]
        if contacts.lasting[MAX_CONTACTS * i] != 0:
            v_drag_out[i] = (contacts.stick[MAX_CONTACTS * i] - x_ref[i]) / h


@wp.kernel
def project_out(
    # in
    first: wp.int32, masses: wp.array(dtype=real), h: real,
    # in and out
    contacts_out: SolidContactArrays, x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Projects particles that the last solve left inside a solid onto its surface, and stops their inward motion."""
    i = first + wp.tid()
    if wp.length_sq(contacts_out.recovery[i]) == real(0.0):
        return
    x_out[i] = x_out[i] + contacts_out.recovery[i]
    if contacts_out.mode[i] == PINCHED:
        v_out[i] = mean_velocity(contacts_out, i)
        return
    for k in range(contacts_out.count[i]):
        n = contacts_out.normal[MAX_CONTACTS * i + k]
        inward = wp.min(wp.dot(v_out[i] - contacts_out.velocity[MAX_CONTACTS * i + k], n), real(0.0))
        v_out[i] = v_out[i] - inward * n
        c = contacts_out.solid[MAX_CONTACTS * i + k] * masses.shape[0] + i
        contacts_out.exerted[c] = contacts_out.exerted[c] - (masses[i] * inward / h) * n
