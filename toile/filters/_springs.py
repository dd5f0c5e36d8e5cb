"""Springs of all cloths, colored so that many of them can be processed in parallel.

Springs of one color share no particle. Processed color by color, a kernel that changes the two particles of each spring
gives the same result in parallel as one spring after the other in the order of this list. Structural springs come
first, then shear, then flexion.

Source      [Pro95] sec. 5, which takes springs in the order of its data structure
Deviations  none
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import warp as wp

from toile.math.types import numpy_real, real
from toile.model.model import Model
from toile.model.springs import springs_of


@wp.struct
class SpringArrays:
    """Springs for kernels."""

    particles: wp.array(dtype=wp.vec2i)
    lengths: wp.array(dtype=real)
    kind: wp.array(dtype=wp.int32)


@dataclass(frozen=True)
class SpringList:
    """Springs on the device."""

    particles: wp.array  # of vec2i, numbered in the whole model
    lengths: wp.array  # [m]  at rest
    kind: wp.array  # STRUCTURAL, SHEAR or FLEXION of toile/model/springs.py
    arrays: SpringArrays = field(init=False)  # the same for kernels

    def __post_init__(self) -> None:
        arrays = SpringArrays()
        arrays.particles, arrays.lengths, arrays.kind = self.particles, self.lengths, self.kind
        object.__setattr__(self, "arrays", arrays)

    def __len__(self) -> int:
        return len(self.lengths)

    def part(self, begin: int, end: int) -> "SpringList":
        return SpringList(self.particles[begin:end], self.lengths[begin:end], self.kind[begin:end])


class SpringLists:
    """Springs of some kinds: all of them sorted by color, and lists that may be launched at once."""

    def __init__(self, model: Model, kinds: Sequence[int], device: str):
        found = [springs_of(part).of(*kinds) for part in model.parts]
        pairs = np.concatenate([np.zeros((0, 2), np.int32), *(springs.particles for springs in found)])
        lengths = np.concatenate([np.zeros(0), *(springs.lengths for springs in found)])
        kind = np.concatenate([np.zeros(0, np.int32), *(springs.kind for springs in found)])
        color = _colors(pairs, kind)
        order = np.argsort(color, kind="stable")
        self.particles, self.lengths, self.kind = pairs[order], lengths[order], kind[order]  # the same on the host
        self.ends = np.cumsum(np.bincount(color))  # of each color
        self.all = SpringList(
            wp.array(self.particles, dtype=wp.vec2i, device=device),
            wp.array(self.lengths.astype(numpy_real), dtype=real, device=device),
            wp.array(self.kind.astype(np.int32), dtype=wp.int32, device=device),
        )
        # One entry per launch. A CPU processes springs in order anyway, and needs no split into colors.
        begins = [0, *self.ends[:-1]]
        each = [self.all.part(int(begin), int(end)) for begin, end in zip(begins, self.ends, strict=False)]
        self.colors = each if wp.get_device(device).is_cuda else [self.all][: len(each)]

    def __len__(self) -> int:
        return len(self.lengths)


def _colors(pairs: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Returns the color of each spring: the first that neither of its particles has; kinds do not share colors."""
    color = np.zeros(len(pairs), int)
    first = 0
    for each in np.unique(kind):
        chosen = np.flatnonzero(kind == each)
        taken = [0] * (int(pairs.max()) + 1)  # colors of the springs at each particle, as bits
        found = np.zeros(len(chosen), int)
        for k, (i, j) in enumerate(pairs[chosen].tolist()):
            both = taken[i] | taken[j]
            free = ~both & (both + 1)  # the lowest bit that is not set
            taken[i] |= free
            taken[j] |= free
            found[k] = free.bit_length() - 1
        color[chosen] = first + found
        first += int(found.max()) + 1
    return color
