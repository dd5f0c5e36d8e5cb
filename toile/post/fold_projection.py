"""Fold-preserving projection: cloth inside or close to a solid moves in front of it without flattening its wrinkles.

    phi <- f(phi),   f strictly increasing, f(phi) = phi above tau, f -> epsilon deep inside

    tau - bend <= phi <= tau       parabola whose slope changes from 1 to m, so that no crease appears at tau
    -deepest <= phi <= tau - bend  line of slope m: all depths that occur share the width of the band evenly
    phi <= -deepest                hyperbola down to epsilon: points deeper than expected still keep their order

Any map other than the line preserves wrinkles better at one depth and worse at another. Points move along the normal
to their target distance f in a few steps, each with a new distance and a new normal.

Source      [BMF03] sec. 5.3
Symbols     phi  distance to the nearest solid [m]     m  slope [-], from f(-deepest) = epsilon + REST (tau - epsilon)
Deviations  The paper does not specify f. A point that cannot reach its distance, as between two solids less than two
            tau apart, stays at the best position found.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import warp as wp
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from toile.math.types import vec3
from toile.plugins import quantity
from toile.post.base import FrameProcessor, PostProcess

# Shares of the band from epsilon to tau: the parabola from slope 1 to m, and the part left for points below -deepest.
# Both are small, because the remainder is for the wrinkles.
BEND, REST = 0.1, 0.02

# Points have reached their distance within this share of the band. Most need one step, those near a sharp edge or in
# a distance grid a few.
TOLERANCE = 1e-6
MAX_STEPS = 12


class FoldProjection(PostProcess):
    """Moves cloth inside solids into a band in front of them, in order of depth."""

    needs_solids: ClassVar[bool] = True

    epsilon: float = quantity(1e-3, unit="m", doc="minimum distance after the projection", ge=0)
    tau: float = quantity(1e-2, unit="m", doc="distance above which points are not moved", gt=0)
    deepest: float = quantity(5e-3, unit="m", doc="expected maximum depth of cloth inside a solid", ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> FoldProjection:
        if self.epsilon >= self.tau:
            text = f"must be below tau = {self.tau:g} [m], so that wrinkles fit between the two."
            raise PydanticCustomError("at", "{text}", {"text": text, "path": ("epsilon",)})
        return self

    def start(self, solids: Any, device: str) -> FrameProcessor:
        return FoldProjector(self, solids, device)

    def target(self, phi: np.ndarray) -> np.ndarray:
        """Returns f(phi): the target distance of points."""
        band, bend = self.tau - self.epsilon, BEND * (self.tau - self.epsilon)
        rest = REST * band
        m = (band - rest - 0.5 * bend) / (self.tau + self.deepest - 0.5 * bend)
        below = np.clip(self.tau - phi, 0.0, bend)  # depth below tau within the parabola
        parabola = self.tau - below + 0.5 * (1.0 - m) * below**2 / bend
        line = m * np.clip(self.tau - bend - phi, 0.0, self.tau - bend + self.deepest)
        too_deep = m * np.maximum(-self.deepest - phi, 0.0)
        tail = rest * too_deep / (rest + too_deep)
        return np.where(phi > self.tau, phi, parabola - line - tail)


class FoldProjector(FrameProcessor):
    def __init__(self, settings: FoldProjection, solids: Any, device: str):
        self.settings, self.solids, self.device = settings, solids, device

    def apply(self, positions: np.ndarray, time: float) -> np.ndarray:
        if not len(self.solids) or not len(positions):
            return positions
        phi, normal, pinched = self._nearest(positions, time)
        moved = np.flatnonzero((phi < self.settings.tau) & ~pinched)
        x, phi, normal = positions[moved], phi[moved], normal[moved]
        target = self.settings.target(phi)
        best, error = x.copy(), np.abs(phi - target)
        for _ in range(MAX_STEPS):
            if not (error > TOLERANCE * (self.settings.tau - self.settings.epsilon)).any():
                break
            x = x + (target - phi)[:, None] * normal
            phi, normal, _ = self._nearest(x, time)
            better = np.abs(phi - target) < error
            best[better], error[better] = x[better], np.abs(phi - target)[better]
        result = positions.copy()
        result[moved] = best
        return result

    def _nearest(self, x: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns distance to the nearest solid, its outward normal, and which points are pinched between solids."""
        found = np.stack(self.solids.closest_points(wp.array(x, dtype=vec3, device=self.device), time))
        first = found["distance"].argmin(axis=0), np.arange(len(x))
        pinched = (found["pinched"] != 0).any(axis=0) | (np.count_nonzero(found["distance"] < 0.0, axis=0) > 1)
        return found["distance"][first].astype(float), found["normal"][first].astype(float), pinched
