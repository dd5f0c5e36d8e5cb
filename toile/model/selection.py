"""Selection of particles of one cloth: by index, corner, edge, box, region, or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from toile.model.mesh import Mesh
from toile.plugins import nearest, quantity

Corner = Literal["lower_left", "lower_right", "upper_left", "upper_right"]
Side = Literal["left", "right", "lower", "upper"]

# Particles this close to an extreme of uv lie on that side [fraction of the uv size].
SIDE_TOLERANCE = 1e-6


class Selection(BaseModel):
    """Particles of a cloth; several criteria select the union of their particles."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    indices: tuple[int, ...] = quantity((), doc="vertex numbers, counted from 0 within the cloth or its file")
    corners: tuple[Corner, ...] = quantity((), doc="corners in uv: lower_left, lower_right, upper_left, upper_right")
    edges: tuple[Side, ...] = quantity((), doc="sides in uv: left, right (ends of u), lower, upper (ends of v)")
    box: tuple[tuple[float, float, float], tuple[float, float, float]] | None = quantity(
        None, unit="m", doc="minimum and maximum corner of a box in world coordinates, at the start"
    )
    region: str | None = quantity(None, doc="a named region of the cloth")
    all: bool = quantity(False, doc="every particle")

    def resolve(self, mesh: Mesh) -> np.ndarray:
        """Returns sorted vertex indices; raises ValueError with a message for the user."""
        selected = np.unique(np.concatenate([np.zeros(0, np.int64), *self._parts(mesh)]))
        if not len(selected):
            raise ValueError("selects no particle: give indices, corners, edges, box, region or all.")
        return selected.astype(np.int32)

    def _parts(self, mesh: Mesh) -> Iterator[np.ndarray]:
        if self.indices:
            yield self._numbered(mesh)
        if self.corners or self.edges:
            yield from self._in_plane(mesh)
        if self.box is not None:
            inside = np.all((mesh.positions >= self.box[0]) & (mesh.positions <= self.box[1]), axis=1)
            if not inside.any():
                low, high = mesh.positions.min(axis=0), mesh.positions.max(axis=0)
                extent = " to ".join(f"({x:.4g}, {y:.4g}, {z:.4g})" for x, y, z in (low, high))
                raise ValueError(f"no particle starts inside the box: the cloth starts within {extent} m.")
            yield np.flatnonzero(inside)
        if self.region is not None:
            if self.region not in mesh.regions:
                hint = nearest(self.region, mesh.regions) if mesh.regions else " The cloth has no regions."
                raise ValueError(f'no region "{self.region}".{hint}')
            yield mesh.regions[self.region]
        if self.all:
            yield np.arange(mesh.vertex_count)

    def _numbered(self, mesh: Mesh) -> np.ndarray:
        """Returns vertices by their numbers in the source, which may have had more vertices."""
        count = mesh.vertex_count if mesh.numbering is None else len(mesh.numbering)
        for index in self.indices:
            if not 0 <= index < count:
                raise ValueError(f"vertex {index} does not exist: the cloth has vertices 0 to {count - 1}.")
        indices = np.asarray(self.indices)
        if mesh.numbering is None:
            return indices
        here = mesh.numbering[indices]
        if (here < 0).any():
            raise ValueError(f"vertex {indices[here < 0][0]} was removed: no triangle uses it.")
        return here

    def _in_plane(self, mesh: Mesh) -> Iterator[np.ndarray]:
        uv = mesh.vertex_uv()
        low, high = uv.min(axis=0), uv.max(axis=0)
        size = np.maximum(high - low, np.finfo(float).tiny)
        if np.isnan(size[0]) and (self.corners or {"left", "right"} & set(self.edges)):
            raise ValueError(
                "the cloth is closed along u: it has no corners, and no left or right side. Give edges "
                "lower or upper, a region, a box or indices."
            )
        for corner in self.corners:
            target = np.array([low[0] if "left" in corner else high[0], low[1] if "lower" in corner else high[1]])
            yield np.array([np.argmin(np.sum(((uv - target) / size) ** 2, axis=1))])
        for side in self.edges:
            axis = 0 if side in ("left", "right") else 1
            end = low if side in ("left", "lower") else high
            yield np.flatnonzero(np.abs(uv[:, axis] - end[axis]) <= SIDE_TOLERANCE * size[axis])
