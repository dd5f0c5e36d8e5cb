"""Common part of hinge energies: the rigidity and damping of each hinge, and its weight in the mesh.

    weight = |e|^2 / (A0 + A1),    D = (D_weft du^2 + D_warp dv^2) / (du^2 + dv^2)    for an edge (du, dv) in uv

With E = weight D theta^2 / 2 near flat, D is the rigidity of the plate for any size and shape of triangles, within the
limits of all hinge models (docs/papers.md). An edge along u folds the weft, so it takes D_weft.

Symbols     e  shared edge at rest [m]     A0, A1  rest areas [m^2]     theta  angle, 0 when flat [rad]
            D_warp, D_weft  bending rigidity when warp or weft threads curve [N m]
"""

from dataclasses import dataclass

import numpy as np

from toile.energies.base import Energy, first_not_none
from toile.model.model import Model
from toile.plugins import quantity


@dataclass(frozen=True)
class Hinges:
    """The hinges of one cloth."""

    particles: np.ndarray  # (hinges, 4): flap, flap, edge start, edge end
    weight: np.ndarray  # |e|^2 / (A0 + A1) [-]
    rigidity: np.ndarray  # D [N m]
    damping: float  # damping / rigidity [s]


class HingeEnergy(Energy):
    """Resistance to bending at the edges between triangles."""

    rigidity_warp: float | None = quantity(None, unit="N m", doc="if the warp curves; by default the fabric's", ge=0)
    rigidity_weft: float | None = quantity(None, unit="N m", doc="if the weft curves; by default the fabric's", ge=0)
    rigidity: float | None = quantity(None, unit="N m", doc="both directions", ge=0)
    damping: float | None = quantity(None, unit="s", doc="damping / rigidity; by default the fabric's", ge=0)

    def hinges(self, model: Model, part: int | None) -> Hinges:
        cloth = model.parts[part]
        D_warp = first_not_none(self.rigidity_warp, self.rigidity, cloth.fabric.bend_warp)
        D_weft = first_not_none(self.rigidity_weft, self.rigidity, cloth.fabric.bend_weft)
        edge = model.hinge_uv[cloth.hinges]
        squared = np.sum(edge**2, axis=1)
        return Hinges(
            model.hinges[cloth.hinges],
            squared / model.areas[model.hinge_triangles[cloth.hinges]].sum(axis=1),
            (D_weft * edge[:, 0] ** 2 + D_warp * edge[:, 1] ** 2) / squared,
            first_not_none(self.damping, cloth.fabric.damping),
        )
