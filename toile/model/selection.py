"""A set of particles of one cloth: by index, corner, edge, box, region, or all of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from toile.model.mesh import Mesh
from toile.plugins import nearest, quantity

Corner = Literal["lower_left", "lower_right", "upper_left", "upper_right"]
Side = Literal["left", "right", "lower", "upper"]

# Particles this close to an extreme of uv lie on that side [fraction of the uv size]
SIDE_TOLERANCE = 1e-6


class Selection(BaseModel):
    """Particles of a cloth; when several of these are given, all of them together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    indices: tuple[int, ...] = quantity((), doc="vertex numbers, counted from 0 within the cloth")
    corners: tuple[Corner, ...] = quantity((), doc="corners in uv: lower_left, lower_right, upper_left, upper_right")
    edges: tuple[Side, ...] = quantity((), doc="sides in uv: left, right (ends of u), lower, upper (ends of v)")
    box: tuple[tuple[float, float, float], tuple[float, float, float]] | None = quantity(
        None, unit="m", doc="smallest and largest corner of a box in the world, at the start"
    )
    region: str | None = quantity(None, doc="a named region of the cloth")
    all: bool = quantity(False, doc="every particle")

    def resolve(self, mesh: Mesh) -> np.ndarray:
        """Sorted vertex indices. ValueError says what is wrong in words for the user."""
        chosen = [np.zeros(0, np.int64)]
        if self.indices:
            indices = np.asarray(self.indices)
            wrong = indices[(indices < 0) | (indices >= mesh.vertex_count)]
            if len(wrong):
                raise ValueError(f"vertex {wrong[0]} does not exist: the cloth has vertices 0 to {mesh.vertex_count - 1}.")
            chosen.append(indices)
        uv = mesh.vertex_uv()
        low, high = uv.min(axis=0), uv.max(axis=0)
        size = np.maximum(high - low, np.finfo(float).tiny)
        for corner in self.corners:
            target = np.array([low[0] if "left" in corner else high[0], low[1] if "lower" in corner else high[1]])
            chosen.append(np.array([np.argmin(np.sum(((uv - target) / size) ** 2, axis=1))]))
        for side in self.edges:
            axis = 0 if side in ("left", "right") else 1
            end = low if side in ("left", "lower") else high
            chosen.append(np.flatnonzero(np.abs(uv[:, axis] - end[axis]) <= SIDE_TOLERANCE * size[axis]))
        if self.box is not None:
            inside = np.all((mesh.positions >= self.box[0]) & (mesh.positions <= self.box[1]), axis=1)
            if not inside.any():
                raise ValueError(f"no particle starts inside the box {self.box[0]} to {self.box[1]}.")
            chosen.append(np.flatnonzero(inside))
        if self.region is not None:
            if self.region not in mesh.regions:
                hint = nearest(self.region, mesh.regions) if mesh.regions else " The cloth has no regions."
                raise ValueError(f'no region "{self.region}".{hint}')
            chosen.append(mesh.regions[self.region])
        if self.all:
            chosen.append(np.arange(mesh.vertex_count))
        selected = np.unique(np.concatenate(chosen))
        if not len(selected):
            raise ValueError("selects no particle: give indices, corners, edges, box, region or all.")
        return selected.astype(np.int32)
