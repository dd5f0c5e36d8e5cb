"""Folds kept: cloth that is inside a solid, or nearly, is moved in front of it without ironing its wrinkles flat.

    phi <- f(phi),   f strictly increasing, f(phi) = phi above tau, f -> epsilon deep inside

    tau - bend <= phi <= tau       parabola whose slope goes from 1 to m, so that no crease appears at tau
    -deepest <= phi <= tau - bend  line of slope m: the room of the band is shared evenly by all depths that occur
    phi <= -deepest                hyperbola down to epsilon: what is deeper than was thought still keeps its order

The line is what an even share means: any other map keeps the wrinkles better at one depth and worse at another. Points
go along the normal until they are where f sends them, in a few steps, each with a new distance and a new normal.

Source      [BMF03] sec. 5.3
Symbols     phi  distance to the nearest solid [m]     m  slope [-], from f(-deepest) = epsilon + REST (tau - epsilon)
Deviations  The paper does not say which f. A point that cannot reach its distance, as between two solids less than two
            tau apart, stays at the best one found.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import warp as wp
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from toile.math.types import vec3
from toile.plugins import quantity
from toile.post.base import Finish, PostProcess

# Shares of the band from epsilon to tau: what is bent from slope 1 to m, and what is left for points below -deepest.
# Small, because all else is for the wrinkles.
BEND, REST = 0.1, 0.02

# Points are at their distance when nearer to it than this share of the band; most are after one step, and those near
# a sharp edge or in a grid of distances after a few.
TOLERANCE = 1e-6
MAX_STEPS = 12


class FoldProjection(PostProcess):
    """Moves what is inside solids into a band in front of them, in order of depth."""

    needs_solids: ClassVar[bool] = True

    epsilon: float = quantity(1e-3, unit="m", doc="distance that nothing comes below", ge=0)
    tau: float = quantity(1e-2, unit="m", doc="distance above which nothing is moved", gt=0)
    deepest: float = quantity(5e-3, unit="m", doc="how deep inside a solid cloth is likely to be", ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> FoldProjection:
        if self.epsilon >= self.tau:
            text = f"must be below tau = {self.tau:g} [m], so that there is room for wrinkles between the two."
            raise PydanticCustomError("at", "{text}", {"text": text, "path": ("epsilon",)})
        return self

    def start(self, solids: Any, device: str) -> Finish:
        return FoldProjector(self, solids, device)

    def target(self, phi: np.ndarray) -> np.ndarray:
        """f: the distance that points shall have."""
        band, bend = self.tau - self.epsilon, BEND * (self.tau - self.epsilon)
        rest = REST * band
        m = (band - rest - 0.5 * bend) / (self.tau + self.deepest - 0.5 * bend)
        below = np.clip(self.tau - phi, 0.0, bend)  # of tau, as far as the parabola goes
        parabola = self.tau - below + 0.5 * (1.0 - m) * below**2 / bend
        line = m * np.clip(self.tau - bend - phi, 0.0, self.tau - bend + self.deepest)
        too_deep = m * np.maximum(-self.deepest - phi, 0.0)
        tail = rest * too_deep / (rest + too_deep)
        return np.where(phi > self.tau, phi, parabola - line - tail)


class FoldProjector(Finish):
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
        """Distance to the nearest solid, its outward normal, and which points solids hold between them."""
        found = np.stack(self.solids.survey(wp.array(x, dtype=vec3, device=self.device), time))
        first = found["distance"].argmin(axis=0), np.arange(len(x))
        pinched = (found["pinched"] != 0).any(axis=0) | (np.count_nonzero(found["distance"] < 0.0, axis=0) > 1)
        return found["distance"][first].astype(float), found["normal"][first].astype(float), pinched
