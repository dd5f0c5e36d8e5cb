"""Damped penalty springs between cloths in contact, as a force of the linear system.

    find pairs -> distribute the area -> position alteration -> force and matrix -> solve -> check the active springs

A spring joins the closest points of a pair (pairs.py), its stiffness is per area of cloth in contact (strength.py), and
it has a damper and friction and only pushes (forces.py).

Source      [BW98] sec. 6
Deviations  The set of active springs is found with the solve, not before it: where a spring would pull, or one is
            missing, the system is corrected and solved again. Other deviations are listed in the files of the parts.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import warp as wp

from toile.contact.broad_phase.broad_phase import BroadPhase
from toile.contact.narrow_phase.elements import EDGE_EDGE, VERTEX_TRIANGLE, make_elements
from toile.contact.narrow_phase.thickness import make_rest_geometry
from toile.contact.penalty.forces import (
    COUNTS,
    activate_compressed,
    add_damping,
    add_forces,
    alter,
    correct_active_set,
    count_wrong,
    linearize,
    measure_energy,
)
from toile.contact.penalty.pairs import FoundSpring, PenaltySpring, find_springs, make_surface, write_springs
from toile.contact.penalty.strength import SpringLaw, add_normals, find_deepest, set_strength, sum_weights
from toile.device.append_buffer import AppendBuffer, fill
from toile.device.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import numpy_real, real, vec3
from toile.model.model import Model
from toile.step_limits import MAX_SPRINGS_WRONG

if TYPE_CHECKING:
    from toile.system.terms import Linearization

# Acceleration that pairs are searched with, besides their velocities: gravity [m/s^2]
SEARCH_ACCELERATION = 10.0
# Entries allocated at first; buffers grow when full.
INITIAL_CAPACITY = 1024


class PenaltySprings:
    """All penalty springs of a scene (terms.PenaltyForce)."""

    name: ClassVar[str] = "penalty"
    is_contact: ClassVar[bool] = True

    def __init__(self, model: Model, law: SpringLaw, thickness: float, device: str):
        """`thickness` [m] is that of cloths without a thickness of their own."""
        self.device, self.law, n = device, law, model.particle_count
        self.broad_phase = BroadPhase(model.edges, model.triangles, n, n, device)
        self.couplings = Couplings(device)
        self.springs, self._energies = self._reserve(0)
        self._found = AppendBuffer(FoundSpring, INITIAL_CAPACITY, device, keyed=True)
        area = np.bincount(model.triangles.ravel(), np.repeat(model.areas / 3.0, 3), n)
        self._area = wp.array(area.astype(numpy_real), dtype=real, device=device)
        thicknesses = model.thicknesses(thickness)
        self._rest = make_rest_geometry(model, thicknesses, device)
        self._thinnest = float(np.min(thicknesses, initial=np.inf))
        self.thickest = float(np.max(thicknesses, initial=0.0))
        self._reach = wp.zeros(n, dtype=real, device=device)
        self._elements = make_elements(self.broad_phase.edges, self.broad_phase.triangles)
        self._surface = make_surface(model, device)
        self._x_end, self._normal = (wp.zeros(n, dtype=vec3, device=device) for _ in range(2))
        self._deepest, self._sum = (wp.zeros(2 * n, dtype=real, device=device) for _ in range(2))
        self._counts = wp.zeros(int(COUNTS), dtype=wp.int32, device=device)
        self._launch = Launcher(device)

    @property
    def count(self) -> int:
        """Springs of this step."""
        return int(self.couplings.count.numpy()[0])

    def _reserve(self, capacity: int) -> tuple[wp.array, wp.array]:
        self.couplings.reserve(capacity)
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays
        springs = wp.zeros(capacity, dtype=PenaltySpring, device=self.device)
        return springs, wp.zeros(capacity, dtype=real, device=self.device)

    def move(self, time: float) -> None:
        """Nothing depends on time."""

    def detect(self, x: wp.array, v: wp.array, h: float) -> None:
        """Finds the springs of a step of h that starts with x and v."""
        broad, n = self.broad_phase, len(x)
        # A pair that is not searched may fall to half its thickness in this step, and is found in the next.
        slack = max(SEARCH_ACCELERATION * h * h - 0.5 * self._thinnest, 0.0)
        self._launch.split(extrapolate, n, [self._rest.thickness, x, v, h, slack, self._x_end, self._reach])
        pairs = broad.find(x, self._x_end, self._reach)
        self._found.count = 0
        for kind, array, count in (
            (VERTEX_TRIANGLE, pairs.vertex_triangle, pairs.vertex_triangle_count),
            (EDGE_EDGE, pairs.edge_edge, pairs.edge_edge_count),
        ):
            inputs = [int(kind), self._elements, self._surface, self._rest, array, x, self._x_end, slack]
            fill([self._found], self._launch, find_springs, count, inputs, kept=self._found.count)
        count = self._found.count
        if count > self.couplings.capacity:
            self.springs, self._energies = self._reserve(2 * count)
        c = self.couplings
        c.count.fill_(count)
        out = [c.particles, c.weights, self.springs]
        self._launch.split(write_springs, count, [self._found.values, self._found.order(), *out])
        for array in (self._normal, self._deepest, self._sum):
            array.zero_()
        groups = [c.count, c.particles, c.weights]
        self._launch(add_normals, len(broad.triangles), [broad.triangles, x, self._normal])
        self._launch(find_deepest, c.capacity, [*groups, self.springs, self._normal, self._deepest])
        self._launch(sum_weights, c.capacity, [*groups, self.springs, self._normal, self._deepest, self._sum])
        at_start = [self._area, self.law, *groups, self._normal, self._deepest, self._sum, v]
        self._launch(set_strength, c.capacity, [*at_start, self.springs])

    def alter(self, masses: wp.array, y_out: wp.array) -> None:
        """Adds the position alteration of overlaps beyond half the rest length; it keeps the center of mass."""
        c = self.couplings
        groups = [c.count, c.particles, c.weights, self.springs]
        self._launch(alter, c.capacity, [self._area, masses, self.law, *groups, y_out])

    def linearize(self, at: "Linearization", f_out: wp.array, A_out: BlockMatrix) -> None:
        """Adds to the force and to the diagonal of A; off-diagonal blocks go to the couplings."""
        c = self.couplings
        state = [c.count, c.particles, c.weights, self.springs, at.x, at.v_at, at.h * at.h, at.h]
        self._launch(linearize, c.capacity, [A_out.diagonal, *state, f_out, A_out.values, c.blocks])

    def check(
        self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array, last: bool, pulls_out: wp.array
    ) -> bool:
        """Checks the active springs at x and v of a solve; False if the system must be solved again.

        In that case A and the residual b are corrected. Pulls are not reported: a few wrong springs keep acting.
        """
        c = self.couplings
        self._counts.zero_()
        self._launch(count_wrong, c.capacity, [c.count, c.particles, c.weights, self.springs, x, v, self._counts])
        wrong, deep, active = self._counts.numpy()
        if last or not (wrong > MAX_SPRINGS_WRONG * active or deep):
            return True
        state = [c.count, c.particles, c.weights, x, v, h * h, h]
        out = [self.springs, b_out, A_out.values, c.blocks]
        self._launch(correct_active_set, c.capacity, [A_out.diagonal, *state, *out])
        return False

    def activate(self, x: wp.array, v: wp.array) -> None:
        """Activates the springs that are compressed at x and v; integrators without a linear solve call this."""
        c = self.couplings
        self._launch(activate_compressed, c.capacity, [c.count, c.particles, c.weights, x, v, self.springs])

    def add_damping(self, u: wp.array, y_out: wp.array) -> None:
        """y += -df/dv u, for active springs."""
        c = self.couplings
        self._launch(add_damping, c.capacity, [c.count, c.particles, c.weights, self.springs, u, y_out])

    def largest_rates(self, masses: np.ndarray) -> tuple[float, float]:
        """Bounds of -df/dx and -df/dv by mass [1/s^2, 1/s], for layers that are compressed from both sides."""
        k = 4.0 * float(self.law.stiffness) * float(np.max(self._area.numpy() / masses, initial=0.0))
        return k, k * float(self.law.damping)

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None:
        c = self.couplings
        self._launch(add_forces, c.capacity, [c.count, c.particles, c.weights, self.springs, x, v, f_out])

    def measure(self, x: wp.array, v: wp.array) -> float:
        """Energy in the springs of the last step [J]."""
        c = self.couplings
        self._launch(measure_energy, c.capacity, [c.count, c.particles, c.weights, self.springs, x, self._energies])
        return float(np.sum(self._energies.numpy()[: self.count], dtype=np.float64))


@wp.kernel
def extrapolate(
    # model
    first: wp.int32, thickness: wp.array(dtype=real),
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, slack: real,
    # out
    x_end_out: wp.array(dtype=vec3), reach_out: wp.array(dtype=real),
):  # fmt: skip
    """Extrapolates the positions by the velocities, and sets the margins of the search."""
    i = first + wp.tid()
    x_end_out[i] = x[i] + h * v[i]
    # Boxes of both elements are grown: together by the mean of their thicknesses, and the slack.
    reach_out[i] = real(0.5) * (thickness[i] + slack)
