"""Limited deformation rate: after each step the ends of springs that are too long are moved together.

    if |x_j - x_i| > (1 + tau_c) l0:    both ends move along the spring until its length is (1 + tau_c) l0

Springs are corrected one after the other, structural ones first, and all of them again in every pass. A held end does
not move and the other moves the whole distance; an end that may only slide moves as far as its free directions allow.

Source      [Pro95] sec. 5
Symbols     l0  length at rest [m]     tau_c  critical deformation rate, (length - l0)/l0 at most [-]
Deviations  The paper does not treat velocities; here they take the change of position over h, so that a sheet conserves
            its momentum. `velocities: kept` leaves them unchanged. Ends move about their center of mass, which is the
            paper's midpoint for equal masses: this conserves momentum as well. Springs are processed in the order of
            their colors, so that the result is the same on every device.
"""

from typing import ClassVar, Literal

import warp as wp

from toile.device.launcher import Launcher
from toile.filters._springs import SpringLists
from toile.filters.base import Correction, Filter, FilterContext
from toile.math.types import mat33, real, vec3
from toile.model.springs import FLEXION, SHEAR, STRUCTURAL
from toile.model.state import State
from toile.plugins import quantity


class StrainDeformationRate(Filter):
    """Limits how long springs get, by moving particles."""

    shear_fields: ClassVar[tuple[str, ...]] = ("shear",)
    limits_lengths: ClassVar[bool] = True

    structural: float | None = quantity(
        0.1, doc="tau_c of springs along the threads; none when null, as for the others", ge=0
    )
    shear: float | None = quantity(0.1, doc="tau_c of springs across the cells", ge=0)
    flexion: float | None = quantity(None, doc="tau_c of springs past one particle, which folds leave slack", ge=0)
    passes: int = quantity(1, doc="how often all springs are gone through in a step", ge=1, le=1000)
    velocities: Literal["consistent", "kept"] = quantity(
        "consistent", doc="whether velocities take the change of position over the step, or are kept"
    )

    def start(self, context: FilterContext) -> Correction:
        return DeformationRateLimit(self, context)


class DeformationRateLimit(Correction):
    """Shortens springs in several passes."""

    limits_strain = True
    reaction: wp.array

    def __init__(self, settings: StrainDeformationRate, context: FilterContext):
        self.settings, self.context = settings, context
        limits = {STRUCTURAL: settings.structural, SHEAR: settings.shear, FLEXION: settings.flexion}
        device = str(context.masses.device)
        self.springs = SpringLists(context.model, [kind for kind, tau in limits.items() if tau is not None], device)
        self.tau_c = vec3(*(tau or 0.0 for tau in limits.values()))
        self._x, self.reaction = (wp.zeros(len(context.masses), dtype=vec3, device=device) for _ in range(2))
        self._launch = Launcher(device)

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        constraints, corrections, x = self.context.constraints, self.context.corrections, state_out.x
        wp.copy(self._x, x)
        self.reaction.zero_()
        share = 1.0 / h if self.settings.velocities == "consistent" else 0.0
        for _ in range(self.settings.passes):
            for springs in self.springs.colors:
                of_springs = [springs.particles, springs.lengths, springs.kind, self.context.masses, self.tau_c]
                self._launch(shorten, len(springs), [*of_springs, constraints.S, share / h, x, self.reaction])
        self._launch(follow, len(x), [self._x, x, share, state_out.v, corrections.dx, corrections.dv])
        return None


@wp.kernel
def shorten(
    # model
    particles: wp.array(dtype=wp.vec2i), lengths: wp.array(dtype=real), kind: wp.array(dtype=wp.int32),
    masses: wp.array(dtype=real), tau_c: vec3,
    # in
    S: wp.array(dtype=mat33), rate: real,
    # in and out
    x_out: wp.array(dtype=vec3), reaction_out: wp.array(dtype=vec3),
):  # fmt: skip
    s = wp.tid()
    i, j = particles[s][0], particles[s][1]
    L = (real(1.0) + tau_c[kind[s]]) * lengths[s]
    d = x_out[j] - x_out[i]
    excess = wp.dot(d, d) - L * L
    if excess <= real(0.0):
        return
    # The ends move by s q_i and -s q_j. With both free, q_i + q_j is along d; with none, the spring cannot change.
    q_i, q_j = (S[i] * d) / masses[i], (S[j] * d) / masses[j]
    q = q_i + q_j
    dq, qq = wp.dot(d, q), wp.dot(q, q)
    if dq <= real(0.0):
        return
    # |d - s q| = L; where the free directions do not lead there, s leads as near as they do: the root is then zero.
    root = wp.sqrt(wp.max(dq * dq - qq * excess, real(0.0)))
    s_q = wp.min(excess / (dq + root), dq / qq)
    x_out[i] = x_out[i] + s_q * q_i
    x_out[j] = x_out[j] - s_q * q_j
    # The impulses are s d/h; where an end is held, its constraint exerts the opposite.
    reaction_out[i] = reaction_out[i] - (rate * s_q) * (d - S[i] * d)
    reaction_out[j] = reaction_out[j] + (rate * s_q) * (d - S[j] * d)


@wp.kernel
def follow(
    # in
    x_before: wp.array(dtype=vec3), x: wp.array(dtype=vec3), share: real,
    # in and out
    v_out: wp.array(dtype=vec3), dx_out: wp.array(dtype=vec3), dv_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Applies the change of position to velocities, and adds it to the corrections of the step."""
    i = wp.tid()
    change = x[i] - x_before[i]
    v_out[i] = v_out[i] + share * change
    dx_out[i] = dx_out[i] + change
    dv_out[i] = dv_out[i] + share * change
