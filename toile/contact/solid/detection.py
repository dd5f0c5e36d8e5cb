"""Detection of contacts with one solid: kernels that query its shape, made once for every kind of collider.

A distance changes by no more than a point moves. A particle is therefore not tested while its last known distance
exceeds its motion relative to the solid. A particle that was outside and may have crossed the surface is swept along
its path, because its end may lie behind a thin solid. A locked particle moves with the material of the solid, without a
query.

Source      [BW98] secs. 2.1, 6.1, 6.2
Symbols     gap  distance at which cloth is held [m]     p, q  start and end of a path in the solid's frame
Deviations  The contacts of a step are those that its motion leads to, not those of the state it begins with.
"""

from functools import cache
from typing import Any

import warp as wp

from toile.contact.solid.added_planes import AddedPlanes
from toile.contact.solid.contact_arrays import (
    LASTING,
    LOCKED,
    MAX_CONTACTS,
    OPPOSES,
    PINCHED,
    UNKNOWN,
    WRONG,
    SolidContactArrays,
    SolidParameters,
    count_one,
    drop,
    slot_of,
)
from toile.math.solid import ANYWHERE, Closest, Pose, end_frame, end_velocity, end_world, start_frame
from toile.math.types import mat33, real, vec3

# A contact that the solve missed is corrected within the step when the distance is below this fraction of the gap.
TOO_NEAR = wp.constant(real(0.5))
# A plane that keeps a particle out is replaced when the particle is nearer than allowed by this fraction of the gap.
STILL_NEAR = wp.constant(real(0.05))
# Particles nearer than this multiple of the gap are in contact. In the first step of a run they are held: cloth at rest
# has no velocity towards the solid. Later on they are those just released, which come back by themselves if they must.
CONTACT_RANGE = wp.constant(real(1.1))
# Particles in contact with a solid may be pinched by another within this multiple of the gap.
OPPOSING_RANGE = wp.constant(real(4.0))
# The face that pinches a particle stays the same while the closest one turns away from it by more than this cosine:
# deep inside a solid another side of it may be closer, such as the one beside a rim.
TURNED = wp.constant(real(0.8))
# Cloth that is let go comes to the distance at which it is held by this fraction of max_recovery in a step. Layers that
# were squeezed would otherwise be thrown apart.
GENTLE = wp.constant(real(0.005))
# Surfaces are searched this many times as far as needed, so that the next steps need not search.
LOOK_AHEAD = wp.constant(real(2.0))


@wp.struct
class SweepHit:
    """Where a path comes within the gap of a solid."""

    found: wp.int32
    point: vec3
    closest: Closest
    clearance: real  # [m]  at the end of the path


@wp.func
def within_reach(target: real, clearance: real, reach: real) -> real:
    """Returns the distance at which a particle is held. A particle that was inside comes no farther than the step and
    max_recovery can have led it, because sampled distances jump deep inside a solid."""
    return wp.where(clearance < real(0.0), wp.min(target, reach), target)


@wp.func
def same_face(found: Closest, face: wp.int32, normal: vec3, distance: real, gap: real) -> Closest:
    """Returns the face that pinches a particle, at this distance, instead of the closest one if that is another."""
    kept = found
    if found.distance < TOO_NEAR * gap and wp.dot(found.normal, normal) < TURNED:
        kept.face = face
        kept.normal = normal
        kept.distance = distance
    return kept


def _make(shape_type: Any, closest: Any, attach: Any, material: Any, sweep: Any, name: str) -> tuple[wp.Kernel, ...]:
    @wp.func
    def clearance_at_start(
        shape: shape_type, p: vec3, x: vec3, contacts: SolidContactArrays, i: wp.int32, c: wp.int32, gap: real
    ) -> real:
        """Returns the distance from the solid at which the step begins, or a lower bound beyond the range of contact.
        Corrections have moved the particle since its distance was measured: by impulses between layers, for one."""
        clearance = contacts.clearance[c]
        moved = wp.length(x - contacts.x_checked[i])
        if moved == real(0.0):
            return clearance
        if clearance - moved > CONTACT_RANGE * gap:
            return clearance - moved
        return closest(shape, p, LOOK_AHEAD * (moved + gap) + real(1.01) * wp.max(-clearance, real(0.0))).distance

    @wp.func
    def follow(
        shape: shape_type, p: vec3, q: vec3, drift: real, h: real, clearance: real, gap: real, near: real
    ) -> SweepHit:
        """Finds where the path from p to q comes as near as `near`; contacts are held at `gap`. `drift` bounds how far
        the
        surface moves in its own frame during h."""
        hit = SweepHit()
        path = wp.length(q - p) + drift
        hit.clearance = clearance - path
        if hit.clearance > wp.max(gap, near):
            return hit
        inside = wp.max(-clearance, real(0.0))
        hit.closest = closest(shape, q, LOOK_AHEAD * (path + gap) + real(1.01) * inside)
        hit.point = q
        distance = hit.closest.distance
        hit.clearance = distance
        if clearance > real(0.0):  # the particle was outside
            if distance > wp.max(gap, near) and path < clearance + distance:
                return hit
            p = p + h * hit.closest.velocity  # the start of the path moves along with the surface
            s = sweep(shape, p, q, wp.min(near, real(0.5) * clearance))
            if s <= real(1.0):
                hit.found = 1
                hit.point = p + s * (q - p)
                hit.closest = closest(shape, hit.point, LOOK_AHEAD * gap + drift)
                return hit
        if distance < near:
            hit.found = 1
        return hit

    @wp.func
    def add(
        contacts: SolidContactArrays, i: wp.int32, solid: wp.int32, pose: Pose, carried: vec3, point: vec3,
        closest: Closest, target: real, mu: real,
    ):  # fmt: skip
        k = contacts.count[i]
        if k >= MAX_CONTACTS:
            return
        contacts.count[i] = k + 1
        a = MAX_CONTACTS * i + k
        placed = point + (target - closest.distance) * closest.normal
        contacts.solid[a] = solid
        contacts.face[a] = closest.face
        contacts.inner_normal[a] = closest.normal
        contacts.normal[a] = pose.R * closest.normal
        contacts.plane[a] = end_world(pose, placed)
        contacts.stick[a] = contacts.plane[a]
        contacts.velocity[a] = end_velocity(pose, placed, closest.velocity)
        contacts.carried[a] = end_world(pose, carried)
        contacts.lasting[a] = 0
        contacts.target[a] = target
        contacts.mu[a] = mu
        contacts.load[a] = real(0.0)

    def predict(
        # solid
        first: wp.int32, shape: shape_type, parameters: SolidParameters, max_recovery: real,
        # in
        masses: wp.array(dtype=real), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real,
        S_user: wp.array(dtype=mat33), at_start: wp.bool, before: SolidContactArrays,
        # in and out
        now_out: SolidContactArrays,
    ):  # fmt: skip
        """Finds the contacts that the present velocity leads to, and those that persist."""
        i = first + wp.tid()
        solid, mu, gap = parameters.solid, parameters.mu, parameters.gap
        pose = parameters.poses[solid]
        c = solid * x.shape[0] + i
        clearance = before.clearance[c]
        now_out.clearance[c] = clearance
        if wp.trace(S_user[i]) < real(0.5):
            return  # a pin holds the particle: no contact can
        p, q = start_frame(pose, x[i]), end_frame(pose, x[i] + h * v[i])
        path = wp.length(q - p) + pose.drift
        target = wp.min(gap, clearance + max_recovery)  # a particle deep inside comes out over several steps
        a = slot_of(before, i, solid)
        if a < 0:
            clearance = clearance_at_start(shape, p, x[i], before, i, c, gap)
            now_out.clearance[c] = clearance
            target = wp.min(gap, clearance + max_recovery)
            near = wp.where(at_start, CONTACT_RANGE, real(1.0)) * gap
            hit = follow(shape, p, q, pose.drift, h, clearance, gap, near)
            if hit.found != 0 and now_out.count[i] < MAX_CONTACTS:
                target = within_reach(target, clearance, hit.closest.distance + path + max_recovery)
                carried_to = p + h * hit.closest.velocity
                add(now_out, i, solid, pose, carried_to, hit.point, hit.closest, target, mu)
                if clearance < CONTACT_RANGE * gap:  # already in contact, with the material of the start
                    carried_to += (target - clearance) * hit.closest.normal
                    now_out.stick[MAX_CONTACTS * i + now_out.count[i] - 1] = end_world(pose, carried_to)
                    now_out.lasting[MAX_CONTACTS * i + now_out.count[i] - 1] = LASTING
            elif (
                hit.clearance < OPPOSING_RANGE * gap
                and parameters.poses.shape[0] > 1
                and now_out.count[i] < MAX_CONTACTS
            ):
                opposite = closest(shape, q, OPPOSING_RANGE * gap)
                if opposite.distance < OPPOSING_RANGE * gap:
                    add(now_out, i, solid, pose, p + h * opposite.velocity, q, opposite, target, mu)
                    now_out.lasting[MAX_CONTACTS * i + now_out.count[i] - 1] = OPPOSES
            return
        carried = material(shape, before.anchor[a], before.face[a], before.inner_normal[a], h)
        here = Closest()
        here.distance = clearance
        here.normal = carried.normal
        here.face = before.face[a]
        here.velocity = carried.velocity
        count = now_out.count[i]
        slip = q - carried.point
        slip -= wp.dot(slip, carried.normal) * carried.normal
        stuck = before.mode[i] == LOCKED and a == MAX_CONTACTS * i
        pinched = before.mode[i] == PINCHED
        if pinched:  # layers may have moved it since its distance was measured
            moved = p + h * carried.velocity - carried.point
            now_out.clearance[c] = clearance + wp.dot(moved, carried.normal)
        if clearance > real(0.0) and (pinched or before.target[a] < gap):
            target = wp.min(target, clearance + GENTLE * max_recovery)
        # Far enough for the surface to have curved away; a pinched particle is moved by other solids too.
        if not stuck and (pinched or wp.length(slip) > gap):
            there = closest(shape, q, LOOK_AHEAD * (wp.length(slip) + gap) + wp.abs(clearance))
            if pinched:
                above = clearance + wp.dot(q - carried.point, carried.normal)
                there = same_face(there, before.face[a], carried.normal, above, gap)
            # The particle flies on where the surface falls away faster than the contact force can make it follow.
            follows = h * h * wp.max(before.load[a], real(0.0)) / masses[i]
            if there.distance > target + follows + TOO_NEAR * gap:
                hit = follow(shape, p, q, pose.drift, h, clearance, gap, TOO_NEAR * gap)
                if hit.found != 0:
                    add(now_out, i, solid, pose, p + h * there.velocity, hit.point, hit.closest, target, mu)
                return
            target = within_reach(target, clearance, there.distance + path + max_recovery)
            add(now_out, i, solid, pose, p + h * there.velocity, q, there, target, mu)
        else:
            add(now_out, i, solid, pose, p + h * carried.velocity, carried.point, here, target, mu)
        if now_out.count[i] > count:
            now_out.lasting[MAX_CONTACTS * i + count] = LASTING
            placed = carried.point + (target - clearance) * carried.normal
            now_out.stick[MAX_CONTACTS * i + count] = end_world(pose, placed)
            now_out.load[MAX_CONTACTS * i + count] = wp.max(before.load[a], real(0.0))

    def review(
        # solid
        first: wp.int32, shape: shape_type, parameters: SolidParameters, max_recovery: real,
        # in
        x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), again: wp.bool, h: real, S_user: wp.array(dtype=mat33),
        before: SolidContactArrays,
        # in and out
        now_out: SolidContactArrays,
        # out
        urgent_out: wp.array(dtype=wp.int32),
    ):  # fmt: skip
        """Finds contacts that the solve missed, and updates the coordinates of those that it included.

        With `again`, now_out.x_checked is where the previous solve of this step led.
        """
        i = first + wp.tid()
        solid, mu, gap = parameters.solid, parameters.mu, parameters.gap
        pose = parameters.poses[solid]
        c = solid * x.shape[0] + i
        p, q = start_frame(pose, x[i]), end_frame(pose, x_end[i])
        clearance = before.clearance[c]
        if wp.trace(S_user[i]) < real(0.5):  # a pin goes where it must; the distance matters once it ends
            now_out.clearance[c] = clearance - wp.length(q - p) - pose.drift
            if now_out.clearance[c] < gap:
                now_out.clearance[c] = closest(shape, q, ANYWHERE).distance
            return
        a = slot_of(now_out, i, solid)
        if a >= 0:
            locked, leads = now_out.mode[i] == LOCKED, a == MAX_CONTACTS * i
            if locked and leads and clearance >= real(0.0):
                now_out.clearance[c] = now_out.target[a]
            else:
                above = now_out.target[a] + wp.dot(now_out.normal[a], x_end[i] - now_out.plane[a])
                found = closest(shape, q, real(4.0) * gap + wp.max(wp.abs(now_out.target[a]), wp.abs(above)))
                if now_out.mode[i] == PINCHED:
                    found = same_face(found, now_out.face[a], now_out.inner_normal[a], above, gap)
                now_out.clearance[c] = found.distance
                if locked and not leads and found.distance > now_out.target[a] + TOO_NEAR * gap:
                    drop(now_out, i, a - MAX_CONTACTS * i)  # the solid that it sticks to carried it away
                    return
                now_out.face[a] = found.face
                now_out.inner_normal[a] = found.normal
                depth = now_out.target[a] - found.distance
                # A particle on its way out is not moved besides: sampled distances jump deep inside a solid.
                outside = clearance >= real(0.0) and now_out.mode[i] != PINCHED
                if outside and depth > TOO_NEAR * gap:
                    now_out.recovery[i] = now_out.recovery[i] + pose.R * (depth * found.normal)
                    now_out.clearance[c] = now_out.target[a]
                    q += depth * found.normal
            now_out.anchor[a] = attach(shape, q, now_out.face[a])
            return
        if again:
            known = now_out.clearance[c] - wp.length(q - end_frame(pose, now_out.x_checked[i]))
            if known > gap:
                now_out.clearance[c] = known
                return
        clearance = clearance_at_start(shape, p, x[i], before, i, c, gap)
        hit = follow(shape, p, q, pose.drift, h, clearance, gap, TOO_NEAR * gap)
        now_out.clearance[c] = hit.clearance
        target = wp.min(gap, clearance + max_recovery)
        reach = wp.length(q - p) + pose.drift + max_recovery
        target = within_reach(target, clearance, hit.closest.distance + reach)
        if hit.found != 0 and now_out.count[i] < MAX_CONTACTS:
            carried = p + h * hit.closest.velocity
            add(now_out, i, solid, pose, carried, hit.point, hit.closest, target, mu)
            a = MAX_CONTACTS * i + now_out.count[i] - 1
            n = now_out.normal[a]
            now_out.recovery[i] = now_out.recovery[i] + wp.dot(n, now_out.plane[a] - x_end[i]) * n
            now_out.anchor[a] = attach(shape, end_frame(pose, x_end[i] + now_out.recovery[i]), now_out.face[a])
            now_out.clearance[c] = target
            now_out.load[a] = UNKNOWN
            count_one(urgent_out, WRONG, first)

    def keep_out(
        # solid
        shape: shape_type, parameters: SolidParameters,
        # in
        x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
        S_user: wp.array(dtype=mat33), now: SolidContactArrays,
        # in and out
        planes_out: AddedPlanes,
        # out
        count_out: wp.array(dtype=wp.int32),
    ):  # fmt: skip
        """Adds planes for the particles that corrections have moved into the solid since the last solve."""
        i = wp.tid()
        solid, gap = parameters.solid, parameters.gap
        known = now.clearance[solid * S_user.shape[0] + i]
        allowed = wp.min(TOO_NEAR * gap, known)
        moved = wp.length(x_end[i] - now.x_checked[i])
        if known - moved >= allowed or now.planes[i] < 0 or wp.trace(S_user[i]) < real(0.5):
            return
        a = slot_of(now, i, solid)
        if a >= 0 and a - MAX_CONTACTS * i < now.planes[i]:
            return  # its contact keeps it out
        pose = parameters.poses[solid]
        q = end_frame(pose, x_end[i])
        found = closest(shape, q, LOOK_AHEAD * (moved + gap) + real(1.01) * wp.max(-known, real(0.0)))
        near = allowed - found.distance
        before = planes_out.solid[i]
        if near <= STILL_NEAR * gap or (before >= 0 and before != solid):
            return
        n = pose.R * found.normal
        planes_out.solid[i] = solid
        planes_out.normal[i] = n
        planes_out.least_d[i] = wp.dot(n, x_end[i] - x[i]) + near
        planes_out.least_v[i] = wp.dot(n, v_end[i])
        wp.atomic_add(count_out, 0, 1)

    module = wp.get_module(f"toile.detection.{name}")
    return tuple(wp.Kernel(function, module=module) for function in (predict, review, keep_out))


@cache
def detection_kernels(functions: Any) -> tuple[wp.Kernel, ...]:
    """predict, review and keep_out for a collider's functions."""
    f = functions
    return _make(f.shape, f.closest, f.attach, f.material, f.sweep, f.kind)
