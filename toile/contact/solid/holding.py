"""What the contacts of a particle hold: where it may move, where it must be, and the friction of what slides.

    normal . x = normal . plane    while it slides        x = stick    while it is locked to the first

Two contacts leave one direction free, three none. Friction is f(w) = -limit w/|w|, linearized at the slip; below a
creeping speed it is proportional to w.

Source      [BW98] secs. 5.1, 5.4, 6.2
Symbols     w  velocity relative to the solid [m/s]     S  free directions     limit  mu times the normal force [N]
Deviations  The paper has friction at high sliding velocities; here it is there at all, and proportional to low ones.
"""

import warp as wp

from toile.contact.solid.contacts import LOCKED, MAX_CONTACTS, SolidContactArrays
from toile.contact.solid.faces import PARALLEL, between_faces
from toile.math.types import mat33, real, vec3

# Below this share of the speed thickness/h friction grows with the speed, instead of having its limit at once.
CREEP = wp.constant(real(0.002))


@wp.func
def creep_speed(thickness: real, h: real) -> real:
    return CREEP * thickness / h


@wp.kernel
def hold_contacts(
    # in
    first: wp.int32, S_user: wp.array(dtype=mat33), x_user: wp.array(dtype=vec3), v_user: wp.array(dtype=vec3),
    thickness: real, h: real, again: wp.bool,
    # in and out
    contacts: SolidContactArrays, in_contact_out: wp.array(dtype=wp.int32),
    # out
    S_out: wp.array(dtype=mat33), x_held_out: wp.array(dtype=vec3), v_held_out: wp.array(dtype=vec3),
    friction_out: wp.array(dtype=vec3), drag_out: wp.array(dtype=mat33),
):
    """S, x_held and v_held: the scene's own constraints first, then contacts in what they leave free. Friction of what
    slides is f(w) = -limit w/|w| linearized at the slip w0:  -limit w0/|w0| - drag w,  drag = limit/|w0| across w0."""
    i = first + wp.tid()
    any_contact = contacts.count[i] > 0
    if again and in_contact_out[i] == 0 and not any_contact:
        return  # it was free, and is
    in_contact_out[i] = wp.where(any_contact or (again and in_contact_out[i] != 0), 1, 0)
    S, x, v = real(1.0) * S_user[i], real(1.0) * x_user[i], real(1.0) * v_user[i]
    a = MAX_CONTACTS * i
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
def drag_velocity(
    first: wp.int32, contacts: SolidContactArrays, x_ref: wp.array(dtype=vec3), h: real, v_drag_out: wp.array(dtype=vec3)
):
    """What slip is measured from: the u that x = x_ref + h u needs to stay with the material, or, for a particle that
    lands in this step and has not touched it yet, the material's velocity."""
    i = first + wp.tid()
    if contacts.count[i] > 0:
        v_drag_out[i] = contacts.velocity[MAX_CONTACTS * i]
        if contacts.lasting[MAX_CONTACTS * i] != 0:
            v_drag_out[i] = (contacts.stick[MAX_CONTACTS * i] - x_ref[i]) / h


@wp.kernel
def project_out(
    # in
    first: wp.int32, masses: wp.array(dtype=real), h: real, contacts: SolidContactArrays,
    # in and out
    x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
):
    """What the last solve left inside a solid is put on its surface, and no longer moves inwards."""
    i = first + wp.tid()
    if wp.length_sq(contacts.recovery[i]) == real(0.0):
        return
    x_out[i] = x_out[i] + contacts.recovery[i]
    for k in range(contacts.count[i]):
        n = contacts.normal[MAX_CONTACTS * i + k]
        inward = wp.min(wp.dot(v_out[i] - contacts.velocity[MAX_CONTACTS * i + k], n), real(0.0))
        v_out[i] = v_out[i] - inward * n
        c = contacts.solid[MAX_CONTACTS * i + k] * masses.shape[0] + i
        contacts.exerted[c] = contacts.exerted[c] - (masses[i] * inward / h) * n
