"""Limits on the lengths of springs at the end of a step, by impulses that change velocities.

    n . d <= (1 + a) l0,    |d| >= (1 - b) l0,    d = x_ij + h v_ij
    v_i <- v_i - lambda W_i n,    v_j <- v_j + lambda W_j n        lambda < 0 pulls, > 0 pushes, 0 within the limits

Springs are corrected one after the other, structural ones first, in several passes until none is outside its limits or
the passes are used up. An impulse that others make unnecessary is taken back, so that the passes converge to the
velocities within the limits that are nearest, in kinetic energy, to the unlimited ones. Impulses act along the springs
at the start of the step, which conserves linear and angular momentum.

A spring that turns by phi in a step has n . d = |d| cos phi. Each limit uses the form that demands less: a pull for the
whole of |d| grows with the rotation, and passes could drive neighbors ever farther across; a push for n . d would
stretch every spring that turns.

Source      [BMF03] sec. 3, "in the same manner" as [BFA02]; 10 % and 0 % are the paper's
Symbols     l0  length at rest [m]     a, b  extension and compression at most [-]     n = x_ij/|x_ij| at the start
            W = S/m  as in [BW98] eq. (13)     w = n . (W_i + W_j) n [1/kg]     lambda  impulse [N s]
Deviations  Passes are warm-started with the impulses of the step before, which saves many of them where cloth hangs. A
            spring that begins a step outside its limits comes back over a time: brought back in one short step it would
            be thrown. The paper limits all edges of its triangles. Here, on meshes of rows and columns of threads,
            compression is limited along the threads only: a sheared cell has one diagonal that is shorter, and if none
            could be, cloth would have to stretch wherever it is draped. Other meshes have the paper's limits on all
            edges.
"""

from itertools import accumulate, pairwise
from typing import ClassVar

import warp as wp

from toile.filters._springs import SpringArrays, SpringLists
from toile.filters.base import Correction, Filter, FilterContext, VelocityLimit
from toile.math.types import TINY, mat33, real, vec3
from toile.model.springs import SHEAR, STRUCTURAL
from toile.model.state_dict import StateDict
from toile.plugins import quantity

# A spring outside its limits by less than this fraction of its length is not corrected, so that cloth at rest at its
# limits keeps its bits.
TOLERANCE = 1e-4

# Time in which a spring that begins a step outside its limits is brought back [s]. Less adds speed, more leaves more
# springs outside.
RECOVERY = 1.0 / 30.0

# Length of a spring without a limit, in rest lengths
ANY_LENGTH = 1e6


class StrainVelocity(Filter):
    """Limits how long and how short springs get, by impulses along them."""

    shear_fields: ClassVar[tuple[str, ...]] = ("shear_extension", "shear_compression")
    limits_lengths: ClassVar[bool] = True

    extension: float | None = quantity(
        0.1, doc="springs along the threads, and edges of other meshes, at most longer by; null: no limit", ge=0
    )
    compression: float | None = quantity(0.0, doc="the same at most shorter by", ge=0, lt=1)
    shear_extension: float | None = quantity(0.1, doc="diagonals of cells at most longer by", ge=0)
    shear_compression: float | None = quantity(None, doc="diagonals of cells at most shorter by", ge=0, lt=1)
    passes: int = quantity(10, doc="how often all springs are gone through at most", ge=1, le=10000)

    def start(self, context: FilterContext) -> Correction:
        return StrainVelocityLimit(self, context)


@wp.struct
class LengthLimits:
    """Limits of springs for kernels; lengths by kind of spring, in rest lengths."""

    longest: vec3
    shortest: vec3
    tolerance: real
    recovery: real  # [s]


class StrainVelocityLimit(VelocityLimit):
    """Iterates over the springs until they are within their limits."""

    def __init__(self, settings: StrainVelocity, context: FilterContext):
        super().__init__(context)
        self.settings = settings
        device = str(context.masses.device)
        self.springs = SpringLists(context.model, [STRUCTURAL, SHEAR], device)
        # By kind of spring, in rest lengths
        longer = (settings.extension, settings.shear_extension)
        shorter = (settings.compression, settings.shear_compression)
        self.limits = LengthLimits()
        self.limits.tolerance, self.limits.recovery = TOLERANCE, RECOVERY
        self.limits.longest = vec3(*(ANY_LENGTH if a is None else 1.0 + a for a in longer), ANY_LENGTH)
        self.limits.shortest = vec3(*(0.0 if b is None else 1.0 - b for b in shorter), 0.0)
        # Impulses of the present candidate, and of the last accepted step (for the warm start)
        self.impulses, self.kept = (wp.zeros(len(self.springs), dtype=real, device=device) for _ in range(2))
        self.h, self.h_kept = 0.0, 0.0
        ends = pairwise(accumulate((len(springs) for springs in self.springs.colors), initial=0))
        self.colors = [
            (springs, self.impulses[begin:end], self.kept[begin:end])
            for springs, (begin, end) in zip(self.springs.colors, ends, strict=True)
        ]
        self.changed = wp.zeros(1, dtype=wp.int32, device=device)  # whether a pass found a spring to correct

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        self._find_impulses(x, v, h)
        self.reaction.zero_()
        for springs, impulses, _ in self.colors:
            inputs = [springs.particles, x, self.context.constraints.S, impulses, h, self.reaction]
            self._launch(add_reaction, len(springs), inputs)

    def _find_impulses(self, x: wp.array, v: wp.array, h: float) -> None:
        self.h = h
        self.impulses.zero_()
        if not self._pass(x, v, h, only_check=True):
            return  # the impulses of the step before are not needed now
        if self.h_kept > 0.0:
            share = h / self.h_kept
            for springs, impulses, kept in self.colors:
                at = [springs.particles, self.context.masses, x, self.context.constraints.S, kept, share]
                self._launch(warm_start, len(springs), [*at, impulses, v])
        for _ in range(self.settings.passes):
            if not self._pass(x, v, h):
                return

    def _pass(self, x: wp.array, v: wp.array, h: float, only_check: bool = False) -> bool:
        """Corrects every spring once. Returns whether any was outside its limits."""
        self.changed.zero_()
        for springs, impulses, _ in self.colors:
            model = [springs.arrays, self.context.masses, self.limits]
            at = [x, self.context.constraints.S, h, only_check]
            self._launch(limit_springs, len(springs), [*model, *at, impulses, v, self.changed])
        return bool(self.changed.numpy()[0])

    def accept(self) -> None:
        wp.copy(self.kept, self.impulses)
        self.h_kept = self.h

    def state_dict(self) -> StateDict:
        return {"impulses": self.kept.numpy(), "h": self.h_kept}

    def load_state_dict(self, state_dict: StateDict) -> None:
        self.kept.assign(state_dict["impulses"])
        self.h_kept = float(state_dict["h"])


@wp.kernel
def warm_start(
    # model
    particles: wp.array(dtype=wp.vec2i), masses: wp.array(dtype=real),
    # in
    x: wp.array(dtype=vec3), S: wp.array(dtype=mat33), kept: wp.array(dtype=real), share: real,
    # in and out
    impulses_out: wp.array(dtype=real), v_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Applies the impulses of the step before, scaled to the present step."""
    s = wp.tid()
    i, j = particles[s][0], particles[s][1]
    n = wp.normalize(x[j] - x[i])
    impulse = share * kept[s]
    impulses_out[s] = impulse
    v_out[i] = v_out[i] - impulse * (S[i] * n) / masses[i]
    v_out[j] = v_out[j] + impulse * (S[j] * n) / masses[j]


@wp.kernel
def add_reaction(
    # model
    particles: wp.array(dtype=wp.vec2i),
    # in
    x: wp.array(dtype=vec3), S: wp.array(dtype=mat33), impulses: wp.array(dtype=real), h: real,
    # in and out
    reaction_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Adds the force by which constraints resist the impulses in held directions."""
    s = wp.tid()
    i, j = particles[s][0], particles[s][1]
    force = (impulses[s] / h) * wp.normalize(x[j] - x[i])
    reaction_out[i] = reaction_out[i] + (force - S[i] * force)
    reaction_out[j] = reaction_out[j] - (force - S[j] * force)


@wp.kernel
def limit_springs(
    # model
    springs: SpringArrays, masses: wp.array(dtype=real), limits: LengthLimits,
    # in
    x: wp.array(dtype=vec3), S: wp.array(dtype=mat33), h: real, only_check: wp.bool,
    # in and out
    impulses_out: wp.array(dtype=real), v_out: wp.array(dtype=vec3), changed_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Corrects the impulse of each spring so that it is within its limits."""
    s = wp.tid()
    i, j = springs.particles[s][0], springs.particles[s][1]
    rest, kind = springs.lengths[s], springs.kind[s]
    x_ij = x[j] - x[i]
    length = wp.length(x_ij)
    n = x_ij / wp.max(length, TINY)
    W_i, W_j = S[i] * n / masses[i], S[j] * n / masses[j]
    w = wp.dot(n, W_i + W_j)
    if w <= real(0.0):
        return  # both ends are held, or there is no direction
    still = wp.max(real(1.0) - h / limits.recovery, real(0.0))  # fraction of an existing violation that may remain
    high, low = limits.longest[kind] * rest, limits.shortest[kind] * rest
    high += still * wp.max(length - high, real(0.0))
    low -= still * wp.max(low - length, real(0.0))
    d = x_ij + h * (v_out[j] - v_out[i])
    along = wp.dot(n, d)
    # The smallest n . d for the present component of d across n.
    low = wp.sqrt(wp.max(low * low - (wp.dot(d, d) - along * along), real(0.0)))
    # The impulse leads to the largest length if that takes a pull, and else to the smallest if that takes a push.
    before = real(1.0) * impulses_out[s]
    after = before + (high - along) / (h * w)
    if after > real(0.0):
        after = wp.max(before + (low - along) / (h * w), real(0.0))
    impulse = after - before
    if wp.abs(impulse) * h * w <= limits.tolerance * rest:
        return
    changed_out[0] = 1
    if not only_check:
        impulses_out[s] = after
        v_out[i] = v_out[i] - impulse * W_i
        v_out[j] = v_out[j] + impulse * W_j
