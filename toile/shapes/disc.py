"""A disc of concentric rings with nearly equilateral triangles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toile.model.mesh import Mesh
from toile.plugins import quantity
from toile.shapes.base import Shape


class Disc(Shape):
    """A disc in the xy plane. Ring i has 6 i vertices, so that n rings have 1 + 3 n (n + 1)."""

    radius: float = quantity(0.5, unit="m", doc="radius", gt=0)
    rings: int = quantity(20, doc="number of rings around the center", ge=1)

    def expected_vertex_count(self) -> int:
        return 3 * self.rings * (self.rings + 1) + 1

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        uv = [np.zeros((1, 2))]
        triangles: list[tuple[int, int, int]] = []
        first = [0, *(1 + 3 * ring * (ring - 1) for ring in range(1, self.rings + 1))]
        for ring in range(1, self.rings + 1):
            angle = 2.0 * np.pi * np.arange(6 * ring) / (6 * ring)
            uv.append(self.radius * ring / self.rings * np.column_stack([np.cos(angle), np.sin(angle)]))
            for sector in range(6):
                for k in range(ring):
                    outer = first[ring] + (sector * ring + k) % (6 * ring)
                    next_outer = first[ring] + (sector * ring + k + 1) % (6 * ring)
                    inner_count = max(1, 6 * (ring - 1))
                    inner = first[ring - 1] + (sector * (ring - 1) + k) % inner_count
                    triangles.append((inner, outer, next_outer))
                    if k < ring - 1:
                        next_inner = first[ring - 1] + (sector * (ring - 1) + k + 1) % inner_count
                        triangles.append((inner, next_outer, next_inner))
        plane = np.concatenate(uv)
        faces = np.array(triangles, dtype=np.int32)
        return Mesh(np.column_stack([plane, np.zeros(len(plane))]), faces, plane[faces])
