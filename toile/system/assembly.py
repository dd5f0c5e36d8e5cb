"""Assembly: terms on the same particles are linearized together, so that each block of the matrix is written once."""

from typing import Any

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.energies.base import combine
from toile.linear.block_matrix import BlockMatrix
from toile.math.types import precision
from toile.system.kernels import SystemArrays, make_kernels
from toile.system.terms import Linearization, Term


class Batch:
    """Terms on the same particles, linearized by one kernel: their blocks are summed before they are scattered."""

    def __init__(self, terms: list[Term], A: BlockMatrix):
        self.terms, self.device = terms, A.device
        formulas, rest, uniform = terms[0].formulas, terms[0].elements.rest, terms[0].uniform
        for term in terms[1:]:
            formulas = combine(formulas, term.formulas)
            joined = np.zeros(len(rest), formulas.Rest.numpy_dtype())
            joined["first"], joined["second"] = rest, term.elements.rest
            pair = formulas.Uniform()
            pair.first, pair.second = uniform, term.uniform
            rest, uniform = joined, pair
        self.kernels = make_kernels("_".join(term.name for term in terms), formulas)
        self._slots = wp.array(_slots(terms[0], A), dtype=wp.int32, device=self.device)
        self._particles = terms[0]._particles
        # A single term may change in time, and its arrays are read; several terms are constant, and are copied here.
        self._rest = terms[0]._rest if len(terms) == 1 else wp.array(rest, dtype=formulas.Rest, device=self.device)
        self._uniform = uniform
        self._launch = Launcher(self.device)

    @property
    def uniform(self) -> Any:
        return self.terms[0].uniform if len(self.terms) == 1 else self._uniform

    def put(self, A: BlockMatrix) -> None:
        """Updates the slots after its only term has got other elements."""
        self._slots.assign(_slots(self.terms[0], A))

    def linearize(self, at: Linearization, system_out: SystemArrays) -> None:
        """Adds forces and blocks."""
        model = [self._particles, self._slots, self._rest]
        inputs = [*model, self.uniform, at.x, at.x_tension, at.v, at.v_at, at.h * at.h, at.h, system_out]
        self._launch.by_color(self.kernels.linearize, self.terms[0].ends, inputs)

    def add_damping(self, x: wp.array, v: wp.array, u: wp.array, y_out: wp.array) -> None:
        """y += -df/dv u, at x and v."""
        inputs = [self._particles, self._rest, self.uniform, x, v, u, y_out]
        self._launch.by_color(self.kernels.add_damping, self.terms[0].ends, inputs)


def _slots(term: Term, A: BlockMatrix) -> np.ndarray:
    """Returns the slots of the matrix for the blocks of each element."""
    particles = term.elements.particles
    points = particles.shape[1]
    return A.slots(np.repeat(particles, points, axis=1), np.tile(particles, (1, points)))


def batches(terms: list[Term], A: BlockMatrix) -> list[Batch]:
    """Groups terms that can be linearized together: on the same particles, in the same order, and constant.

    In single precision external forces are kept apart: their blocks alone make the row sums (linear/block_matrix.py).
    """
    groups: list[list[Term]] = []
    for term in terms:
        for group in groups:
            first = group[0]
            alike = precision == "double" or term.formulas.external == first.formulas.external
            constant = term.constant and first.constant
            if alike and constant and np.array_equal(term.elements.particles, first.elements.particles):
                group.append(term)
                break
        else:
            groups.append([term])
    return [Batch(group, A) for group in groups]
