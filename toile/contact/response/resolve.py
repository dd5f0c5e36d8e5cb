"""Contact between cloths in one step, from a candidate to a state in which nothing has passed through anything.

    search -> touches of what is close -> impulses -> what still runs together becomes a touch too -> impulses ...
    -> what is left after some rounds moves as one body

Every state that begins without intersections ends without, because the last thing done is to find no impact on the
straight paths from the start to the end.

Source      [BFA02]
Symbols     x, x_end  positions at the two ends of the step [m]     slack  how far ends may move after a search [m]
Deviations  see the files of its parts
"""

import numpy as np
import warp as wp

from toile.contact.broad_phase.broad_phase import BroadPhase
from toile.contact.broad_phase.motion import RelativeMotion
from toile.contact.collision_mesh import Bodies, Planes
from toile.contact.narrow_phase.contact_set import RECOVERY, ContactSet
from toile.contact.response.impact_zones import ImpactZones, body_motion
from toile.contact.response.impulses import Sweeps, find_clearance
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import numpy_real, real, vec3

# ElementColoring of impulses for what runs together, before it moves as one body.
MAX_IMPACT_PASSES = 10
# ElementColoring of zones that grow, before the step is given up.
MAX_ZONE_PASSES = 60
# Sweeps over all touches in a round, and the correction below which they end [thickness]. With 20 friction between
# layers was 5 to 15 % too strong; most rounds end after a few.
MAX_SWEEPS, SETTLED = 100, 1e-3
# How far ends may move before pairs are searched anew: of the thickness and the largest motion, but no more than a
# share of the edges, because neighbors in the mesh would all be near each other.
SLACK, SLACK_OF_MOTION, SLACK_OF_EDGES = 0.25, 0.05, 0.05
# Of all vertices: if more than these are to be searched again, all are.
SOME = 0.25
# Of what its vertices wanted to move: how far a zone may carry them.
FARTHEST = 3.0
# What is said of a zone that cannot move as one body.
CAUGHT = "cloth is caught between things that move against each other."


class ClothContacts:
    """Keeps all cloths of a scene, and the solids that take part, from passing through each other."""

    def __init__(self, bodies: Bodies, friction: float, max_step: float = 0.0):
        """What is too near comes apart by a share of that in a step of `max_step` or longer, and by less in a shorter
        one: were it the same, what stretches cloth too much would do so at any step size."""
        self.bodies, self.device, self._max_step = bodies, bodies.device, max_step
        self.broad_phase = BroadPhase(bodies.edges, bodies.triangles, bodies.count, bodies.moving_count, self.device)
        self.contact_set = ContactSet(bodies, self.broad_phase.edges, self.broad_phase.triangles, friction)
        n = bodies.count

        def vectors() -> wp.array:
            return wp.zeros(n, dtype=vec3, device=self.device)

        # In the frame that moves with the mean of all: cloth that only falls moves nowhere in it.
        self._x_seen, self._searched, self._d = vectors(), vectors(), vectors()
        self._motion = RelativeMotion(bodies.moving_count, self.device)
        self._slack = 0.0
        self._astray, self._astray_count = (wp.zeros(k, dtype=wp.int32, device=self.device) for k in (n, 1))
        self._readback = Readback(self._astray_count)
        self._reach = wp.zeros(n, dtype=real, device=self.device)
        self._normal_impulse_v, self._friction_impulse_v = wp.zeros(0, dtype=real), wp.zeros(0, dtype=vec3)
        self._sweeps = Sweeps(n, self.device)
        none = [wp.zeros(0, dtype=kind, device=self.device) for kind in (wp.int32, vec3)]
        self._no_planes = Planes(*none)
        self._clearance, self._clearance_v = (wp.zeros(3 * bodies.moving_count, dtype=real, device=self.device) for _ in range(2))
        self._launch = Launcher(self.device)
        self.contact_count = 0
        self.zone_count = 0  # of the fail-safe, in the last step
        self.caught = np.zeros(0, int)  # vertices of the zone that was given up

    def resolve(self, planes: Planes | None, h: float) -> str | None:
        """Corrects x_end and v_end of the bodies for a step of h. What prevented it, or None."""
        bodies, contact_set = self.bodies, self.contact_set
        planes = planes or self._no_planes
        contact_set.recovery = RECOVERY * min(1.0, h / self._max_step) if self._max_step else RECOVERY
        self._launch(find_clearance, len(planes.count), [bodies.x, bodies.x_end, bodies.v_end, planes.count, planes.normal,
                                                    self._clearance, self._clearance_v])  # fmt: skip
        self._search()
        self._sweeps.begin()
        if contact_set.find_close_contacts():
            self._apply_impulses(planes)
            self._search_again()
        hits, passes = contact_set.find_impacts(False), 0
        while hits and passes < MAX_IMPACT_PASSES:
            self._apply_impulses(planes)
            self._recheck_last(hits)
            self._search_again()
            hits = contact_set.find_impacts(True)
            passes += 1
        self.contact_count = contact_set.contact_count
        if contact_set.contact_count:
            self._slow_down(planes, h)
        self.zone_count = 0
        return self._join(hits, h) if hits else None

    def _search(self) -> None:
        """Pairs for x_end as it is now."""
        bodies = self.bodies
        max_sweeps = self._motion.find(bodies.x, bodies.x_end)
        slack = min(SLACK * bodies.thickest + SLACK_OF_MOTION * max_sweeps, SLACK_OF_EDGES * bodies.edge_length)
        # A power of two, because launches are remembered by their numbers.
        self._slack = float(2.0 ** np.floor(np.log2(max(slack, SLACK * bodies.thickest))))
        wp.copy(self._searched, bodies.x_end)
        self._find_near(None)

    def _search_again(self) -> None:
        """For ends that have moved farther than the last search foresaw."""
        bodies = self.bodies
        at = [bodies.x_end, self._slack, self._searched, self._astray, self._astray_count]
        self._astray_count.zero_()
        self._launch(find_astray, bodies.count, at)
        count = int(self._readback()[0])
        if count > SOME * bodies.count:
            self._search()
        elif count:
            self._find_near(self._astray)

    def _find_near(self, only: wp.array | None) -> None:
        bodies = self.bodies
        at = [self._searched, self._motion.mean, bodies.thickness, self._slack]
        self._launch(seen, bodies.count, [*at, self._x_seen, self._reach])
        pairs = self.broad_phase.find(bodies.x, self._x_seen, self._reach, only)
        self.contact_set.find_near(pairs, self._x_seen, self._slack, only)

    def _apply_impulses(self, planes: Planes) -> None:
        bodies, contact_set = self.bodies, self.contact_set
        n = bodies.count
        self._launch(displacement, n, [bodies.x, bodies.x_end, self._d])
        settled = float(SETTLED * bodies.thickest)
        own = [contact_set.contacts.normal_impulse, contact_set.contacts.friction_impulse, self._d]
        self._sweeps.run(contact_set, False, planes, self._clearance, settled, MAX_SWEEPS, *own)
        self._launch(place, n, [bodies.x, self._d, bodies.x_end, contact_set.changed])

    def _recheck_last(self, hits: int) -> None:
        """The last hits count as changed, even if nothing could be done about them."""
        contact_set = self.contact_set
        self._launch(mark_last, hits, [contact_set.contacts.vertices, contact_set.count, contact_set.changed])

    def _slow_down(self, planes: Planes, h: float) -> None:
        """What was pushed apart does not approach at the end of the step."""
        bodies, contact_set = self.bodies, self.contact_set
        if len(self._normal_impulse_v) < contact_set.contact_count:
            self._normal_impulse_v = wp.zeros(2 * contact_set.contact_count, dtype=real, device=self.device)
            self._friction_impulse_v = wp.zeros(2 * contact_set.contact_count, dtype=vec3, device=self.device)
        self._normal_impulse_v.zero_()
        self._friction_impulse_v.zero_()
        settled = float(SETTLED * bodies.thickest / h)
        own = [self._normal_impulse_v, self._friction_impulse_v, bodies.v_end]
        self._sweeps.run(contact_set, True, planes, self._clearance_v, settled, MAX_SWEEPS, *own)

    def _join(self, hits: int, h: float) -> str | None:
        """The fail-safe."""
        bodies, contact_set = self.bodies, self.contact_set
        zones = ImpactZones(bodies.count)
        held = np.zeros((bodies.count, 3, 3))
        inverse_mass = bodies.inverse_mass.numpy().astype(float)[: bodies.moving_count]
        held[: bodies.moving_count] = np.eye(3) - inverse_mass * bodies.masses[: bodies.moving_count, None, None]
        held[bodies.moving_count :] = np.eye(3)
        x = bodies.x.numpy().astype(float)
        wanted = bodies.x_end.numpy().astype(float).copy()
        for _ in range(MAX_ZONE_PASSES):
            zones.join(contact_set.vertices_of(contact_set.contact_count - hits))
            contact_set.contact_count -= hits
            x_end = wanted.copy()
            ranges = zones.zones()
            for zone in ranges:
                moved = body_motion(x[zone], wanted[zone] - x[zone], bodies.masses[zone], held[zone])
                wanted_max = np.abs(wanted[zone] - x[zone]).max()
                if moved is None or np.abs(moved).max() > FARTHEST * wanted_max:
                    self.caught = zone
                    return CAUGHT
                x_end[zone] = x[zone] + moved
            changed = np.any(x_end != bodies.x_end.numpy(), axis=1)
            contact_set.changed.assign(changed.astype(np.int32))
            bodies.x_end.assign(x_end.astype(numpy_real))
            self._search_again()
            hits = contact_set.find_impacts(True)
            if not hits:
                self._stop_zones(ranges, x, held, h)
                self.zone_count = len(ranges)
                return None
        return "contacts between cloths could not be resolved."

    def _stop_zones(self, zones: list[np.ndarray], x: np.ndarray, held: np.ndarray, h: float) -> None:
        """Velocities of zones: those of a body too, with the momentum that they have."""
        v, x_end = self.bodies.v_end.numpy().astype(float).copy(), self.bodies.x_end.numpy()
        for zone in zones:
            moves = body_motion(x[zone], v[zone], self.bodies.masses[zone], held[zone])
            if moves is None:  # what holds it has velocities that no body has: only what is free follows the zone
                free = np.eye(3) - held[zone]
                moves = v[zone] + np.einsum("nij,nj->ni", free, (x_end[zone] - x[zone]) / h - v[zone])
            v[zone] = moves
        self.bodies.v_end.assign(v.astype(numpy_real))


@wp.kernel
def seen(
    # in
    searched: wp.array(dtype=vec3), mean: wp.array(dtype=vec3), thickness: wp.array(dtype=real), slack: real,
    # out
    x_seen_out: wp.array(dtype=vec3), reach_out: wp.array(dtype=real),
):
    i = wp.tid()
    x_seen_out[i] = searched[i] - mean[0]
    reach_out[i] = thickness[i] + slack


@wp.kernel
def find_astray(
    # in
    x_end: wp.array(dtype=vec3), slack: real,
    # in and out
    searched_out: wp.array(dtype=vec3),
    # out
    astray_out: wp.array(dtype=wp.int32), count_out: wp.array(dtype=wp.int32),
):
    """What is farther than `slack` from where it was searched will be searched where it is now."""
    i = wp.tid()
    astray_out[i] = 0
    if wp.length(x_end[i] - searched_out[i]) > slack:
        searched_out[i] = x_end[i]
        astray_out[i] = 1
        wp.atomic_add(count_out, 0, 1)


@wp.kernel
def mark_last(
    # in
    vertices: wp.array(dtype=wp.vec4i), count: wp.array(dtype=wp.int32),
    # out
    changed_out: wp.array(dtype=wp.int32),
):
    """The vertices of the last touches, as many as there are threads."""
    at = vertices[count[0] - 1 - wp.tid()]
    for c in range(4):
        changed_out[at[c]] = 1


@wp.kernel
def displacement(x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3)):
    i = wp.tid()
    d_out[i] = x_end[i] - x[i]


@wp.kernel
def place(
    # in
    x: wp.array(dtype=vec3), d: wp.array(dtype=vec3),
    # in and out
    x_end_out: wp.array(dtype=vec3),
    # out
    changed_out: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    before = x_end_out[i] - x[i]
    changed_out[i] = wp.where(before == d[i], 0, 1)
    if changed_out[i] != 0:
        x_end_out[i] = x[i] + d[i]
