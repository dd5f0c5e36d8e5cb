"""Strain of triangles and edges, measured from positions alone, not taken from the energies.

    |w_u|/b_u - 1 along warp,    |w_v|/b_v - 1 along weft,    length/rest length - 1 along edges

Means are of absolute values, weighted by area.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import real, vec3
from toile.model.model import Model
from toile.step_limits import FEW_STRETCHED, HELPED, MAX_IMPROVEMENTS, MAX_OVERSTRETCH, MAX_STRETCH_CHANGE

# A frame's strain entry, in the order in which the kernels write it
STRAINS = ("warp_max", "warp_mean", "weft_max", "weft_mean", "edge_max")

INFINITE = wp.constant(real(np.inf))
STRETCH_CHANGE, OVERSTRETCH = wp.constant(real(MAX_STRETCH_CHANGE)), wp.constant(real(MAX_OVERSTRETCH))


class Changes(NamedTuple):
    """Largest changes of stretch in a step, over all triangles and both threads."""

    stretch: float  # increase of the distance from rest; infinite if a position is not finite. Decreases do not count
    lengthening: float  # the same without compression: in a fold that closes threads become shorter, and carry nothing
    excess: float  # lengthening of threads beyond the extension of their fabric; 0 if there is none
    # Share of all threads of triangles that became longer by more than MAX_STRETCH_CHANGE, or whose length exceeds
    # MAX_OVERSTRETCH times their extension and is more than before
    share: float
    grown: float  # share of all threads that became longer by more than MAX_STRETCH_CHANGE


class Strain:
    """Stretch of every triangle and edge of a model."""

    def __init__(
        self, model: Model, device: str, limited: Sequence[bool] | None = None,
        halves_excess: bool = False, limits_few: bool = False,
    ):  # fmt: skip
        """`limited` states for each cloth whether its energies keep it inside the extension of its fabric;
        `halves_excess` whether steps beyond it are halved, and `limits_few` whether a filter limits the stretch of few
        triangles."""
        self.model, self._max_improvements = model, 1 if halves_excess else MAX_IMPROVEMENTS
        self.leaves_few, self._share_before = limits_few and not halves_excess, 0.0
        self._triangles = wp.array(model.triangles, dtype=wp.vec3i, device=device)
        self._weights = wp.array(model.uv_weights.reshape(-1, 3), dtype=vec3, device=device)
        self._shares = wp.array(model.areas / max(model.areas.sum(), 1e-300), dtype=real, device=device)
        self._edges = wp.array(model.edges, dtype=wp.vec2i, device=device)
        self._lengths = wp.array(model.edge_lengths(0.0), dtype=real, device=device)
        self._b = wp.array(self._rest_stretch(0.0), dtype=real, device=device)
        self._moves = any(model.rest_stretch_changes(part) for part in range(len(model.parts)))
        self._found = wp.zeros(len(STRAINS), dtype=wp.float64, device=device)
        longest = model.extensions().reshape(-1, 2)
        for part, keeps_inside in zip(model.parts, limited or [False] * len(model.parts), strict=True):
            longest[part.triangles] = longest[part.triangles] if keeps_inside else np.inf
        self._longest = wp.array(longest.ravel(), dtype=real, device=device)
        self._changes = wp.zeros(len(Changes._fields), dtype=real, device=device)
        self._readback_changes, self._readback_found = Readback(self._changes), Readback(self._found)
        self._launch = Launcher(device)

    def changes(self, x_before: wp.array, x: wp.array) -> Changes:
        """Measures a step from x_before to x."""
        self._changes.zero_()
        inputs = [self._triangles, self._weights, self._b, self._longest, x_before, x, self._changes]
        self._launch(measure_changes, self.model.triangle_count, inputs)
        *largest, too_long, grown = self._readback_changes().tolist()
        stretch, lengthening, excess = largest
        threads = max(2 * self.model.triangle_count, 1)
        return Changes(stretch, lengthening, excess, too_long / threads, grown / threads)

    def needs_linearization(self, changes: Changes, added: int, in_contact: bool) -> bool:
        """Whether another linearization should be added to a step, after `added` others: it costs less than two steps
        of half the size. Where cloth is `in_contact`, few threads that are too long are left to a filter, and where one
        linearization hardly helped, another does not."""
        too_long = changes.stretch > MAX_STRETCH_CHANGE or changes.excess > 0.0
        if self.leaves_few and in_contact:
            helped = added == 0 or changes.share < HELPED * self._share_before
            too_long, self._share_before = changes.share > FEW_STRETCHED and helped, changes.share
        return too_long and added < self._max_improvements

    def few_too_long(self, changes: Changes, in_contact: bool) -> bool:
        """Whether few threads are too long, and a filter will shorten them."""
        return self.leaves_few and in_contact and 0.0 < changes.share <= FEW_STRETCHED

    def move(self, time: float) -> None:
        """Brings rest lengths to a time."""
        if self._moves:
            self._b.assign(self._rest_stretch(time))
            self._lengths.assign(self.model.edge_lengths(time))

    def summary(self, x: wp.array, time: float) -> dict[str, float]:
        """Returns the certificate's strain entry."""
        self.move(time)
        self._found.zero_()
        triangle_inputs = [self._triangles, self._weights, self._shares, self._b, x, self._found]
        self._launch(measure_triangles, self.model.triangle_count, triangle_inputs)
        self._launch(measure_edges, len(self.model.edges), [self._edges, self._lengths, x, self._found])
        return dict(zip(STRAINS, self._readback_found().tolist(), strict=True))

    def _rest_stretch(self, time: float) -> np.ndarray:
        """Returns b_u and b_v of every triangle, interleaved."""
        model = self.model
        parts = range(len(model.parts))
        b = [np.concatenate([np.ones(0), *(model.rest_stretch(p, axis, time) for p in parts)]) for axis in (0, 1)]
        return np.stack(b, axis=1).ravel()


@wp.func
def stretch_along(weights: vec3, corners: wp.vec3i, x: wp.array(dtype=vec3)) -> real:
    return wp.length(weights[0] * x[corners[0]] + weights[1] * x[corners[1]] + weights[2] * x[corners[2]])


@wp.kernel
def measure_changes(
    # model
    triangles: wp.array(dtype=wp.vec3i), weights: wp.array(dtype=vec3),
    # in
    b: wp.array(dtype=real), longest: wp.array(dtype=real), x_before: wp.array(dtype=vec3), x: wp.array(dtype=vec3),
    # out
    changes_out: wp.array(dtype=real),
):  # fmt: skip
    """Writes the fields of `Changes`."""
    t = wp.tid()
    for axis in range(2):
        w = weights[2 * t + axis]
        rest = b[2 * t + axis]
        before = stretch_along(w, triangles[t], x_before)
        now = stretch_along(w, triangles[t], x)
        change, longer = wp.abs(now - rest) - wp.abs(before - rest), now - wp.max(before, rest)
        # NaN counts as infinite: a maximum would drop it.
        if not (change < INFINITE):
            change = INFINITE
        wp.atomic_max(changes_out, 0, change)
        allowed = wp.max(before, rest * (real(1.0) + longest[2 * t + axis]))
        wp.atomic_max(changes_out, 1, longer)
        wp.atomic_max(changes_out, 2, (now - allowed) / rest)
        most = wp.max(before, rest * (real(1.0) + OVERSTRETCH * longest[2 * t + axis]))
        if longer > STRETCH_CHANGE or now > most:
            wp.atomic_add(changes_out, 3, real(1.0))
        if longer > STRETCH_CHANGE:
            wp.atomic_add(changes_out, 4, real(1.0))


@wp.kernel
def measure_triangles(
    # model
    triangles: wp.array(dtype=wp.vec3i), weights: wp.array(dtype=vec3), shares: wp.array(dtype=real),
    # in
    b: wp.array(dtype=real), x: wp.array(dtype=vec3),
    # out
    found_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    t = wp.tid()
    for axis in range(2):
        strain = stretch_along(weights[2 * t + axis], triangles[t], x) / b[2 * t + axis] - real(1.0)
        wp.atomic_max(found_out, 2 * axis, wp.float64(strain))
        wp.atomic_add(found_out, 2 * axis + 1, wp.float64(shares[t] * wp.abs(strain)))


@wp.kernel
def measure_edges(
    # model
    edges: wp.array(dtype=wp.vec2i), lengths: wp.array(dtype=real),
    # in
    x: wp.array(dtype=vec3),
    # out
    found_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    e = wp.tid()
    strain = wp.length(x[edges[e][1]] - x[edges[e][0]]) / lengths[e] - real(1.0)
    wp.atomic_max(found_out, 4, wp.float64(strain))
