"""Intersecting triangles of a run, counted at frames or after steps by an exact test of positions alone.

The test shares no code with the contacts (toile/contact/intersection_audit.py). Of what they report only this enters: a
solid that pinches cloth leaves it no room, so that its triangles and those with a pinched vertex may intersect.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from toile.colliders.base import ContactSurface
from toile.contact.intersection_audit import Audit
from toile.errors import InputError
from toile.model.model import Model

AUDITS = ("none", "frame", "step")
# Number of pairs of triangles that a warning names; all of them are in intersections.obj.
PAIRS_SHOWN = 3


class Intersections:
    """Counts pairs of intersecting triangles: at the start, and then at every frame or after every step."""

    def __init__(self, scene: Any, model: Model, surfaces: Sequence[ContactSurface], when: str | None, device: str):
        """`when` is one of AUDITS; by default every frame of a scene with contact between cloths. Triangles of solids
        whose faces and edges take part count too: they must not cut the cloth.
        """
        self.untangles = any(item.resolves_cloth_contact for item in scene.filters)
        energies = (*scene.forces, *(energy for cloth in scene.cloth for energy in cloth.energies))
        in_contact = self.untangles or any(energy.acts_between_cloths for energy in energies)
        self.when = when or ("frame" if in_contact else "none")
        if self.when not in AUDITS:
            raise InputError(f'audit = "{when}": must be one of {", ".join(AUDITS)}.')
        self.surfaces = surfaces
        self.cloth_count = model.triangle_count
        first_vertices = np.cumsum([model.particle_count, *(len(surface.vertices(0.0)) for surface in surfaces)])
        of_solids = [surface.triangles + first for surface, first in zip(surfaces, first_vertices[:-1], strict=True)]
        self._audit = Audit(np.concatenate([model.triangles, *of_solids]), model.particle_count, device)
        names = [f'cloth "{part.name}"' for part in model.parts] + [
            f'solid "{surface.solid.name}"' for surface in surfaces
        ]
        counts = [part.triangles.stop - part.triangles.start for part in model.parts]
        counts += [len(surface.triangles) for surface in surfaces]
        self._owners = list(zip(names, np.cumsum([0, *counts])[:-1].tolist(), strict=True))
        self._triangles = model.triangles
        # The solid that each triangle of the audit belongs to; -1 for cloth
        self._solid = np.concatenate(
            [np.full(self.cloth_count, -1), *(np.full(len(s.triangles), s.solid.index) for s in surfaces)]
        ).astype(int)
        self._pairs = np.zeros((0, 2), np.int64)  # of the last count
        self._largest: int | None = None  # since the frame before
        self.start: int | None = None

    def begin(self, x: wp.array, strict: bool, time: float = 0.0) -> list[str]:
        """Counts the intersections at the start; returns a warning if there are any, or raises an InputError."""
        if self.when == "none" and not strict:
            return []
        self._count(x, time)
        self.start, self._largest = self._largest, None
        if not self.start:
            return []
        number = "1 pair of triangles intersects" if self.start == 1 else f"{self.start} pairs of triangles intersect"
        found = f"{number} at the start: {'; '.join(self._first(x, time))}."
        if strict:
            raise InputError(f"{found} Move them apart, or leave out --strict to run nevertheless.")
        then = "pairs are left as they are"
        if self.untangles:
            then = "pairs are pulled apart, and they and what is next to them may pass through each other until then"
        return [
            f"{found} The run goes on: these {then}; the certificate counts them. They are red in pictures, and "
            "alone in intersections.obj. --strict makes this an error."
        ]

    def after_step(self, x: wp.array, time: float, pinched_by: np.ndarray | None) -> None:
        """`pinched_by` names the solids that pinch each particle."""
        if self.when == "step":
            self._count(x, time, pinched_by)

    def of_frame(self, x: wp.array, time: float, pinched_by: np.ndarray | None) -> int | None:
        """Returns the count at the frame, or the largest after any of its steps; None when nothing was counted."""
        if self.when == "frame":
            self._count(x, time, pinched_by)
        largest, self._largest = self._largest, None
        return largest

    def find(self, x: wp.array, time: float, pinched_by: np.ndarray | None) -> None:
        """Finds the intersecting triangles without counting them."""
        if self.when != "none":
            self._pairs = self._find(x, time, pinched_by)

    def triangles(self) -> np.ndarray:
        """Returns the triangles of the cloths in the intersections of the last count, sorted."""
        found = np.unique(self._pairs)
        return found[found < self.cloth_count]

    def _count(self, x: wp.array, time: float, pinched_by: np.ndarray | None = None) -> None:
        self._pairs = self._find(x, time, pinched_by)
        self._largest = max(len(self._pairs), self._largest or 0)

    def _find(self, x: wp.array, time: float, pinched_by: np.ndarray | None) -> np.ndarray:
        """Intersecting triangles, without those of solids and cloth that they pinch; cloth comes first in a pair."""
        pairs = self._audit.pairs(self._positions(x, time))
        if pinched_by is None or not len(pairs):
            return pairs
        solid = self._solid[pairs[:, 1]]
        of_solid = np.flatnonzero(solid >= 0)
        by = pinched_by[self._triangles[pairs[of_solid, 0]]]  # by vertex and solid
        return np.delete(pairs, of_solid[(by == solid[of_solid, None, None]).any(axis=(1, 2))], axis=0)

    def _positions(self, x: wp.array, time: float) -> wp.array | np.ndarray:
        if not self.surfaces:
            return x
        return np.concatenate([x.numpy().astype(float), *(surface.vertices(time) for surface in self.surfaces)])

    def _first(self, x: wp.array, time: float) -> list[str]:
        """Describes the first pairs of triangles, and where they intersect [m]."""
        first = self._pairs[:PAIRS_SHOWN]
        places = self._audit.points(self._positions(x, time), first)
        described = [
            f"{self._describe(i)} and {self._describe(j)} at ({', '.join(f'{c:.4g}' for c in place)}) m"
            for (i, j), place in zip(first.tolist(), places.tolist(), strict=True)
        ]
        left = len(self._pairs) - len(described)
        return [*described, f"{left} more"] if left else described

    def _describe(self, triangle: int) -> str:
        name, first = next(owner for owner in reversed(self._owners) if owner[1] <= triangle)
        return f"{name} triangle {triangle - first}"
