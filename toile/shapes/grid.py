"""A rectangular sheet of right triangles, with alternating or single diagonals.

Alternating diagonals bend the same in every direction with `bend_angle`; single ones do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from toile.model.mesh import Mesh
from toile.plugins import quantity
from toile.shapes.base import Shape

# Limits stand at the entries, so that a message names the one that is wrong.
Length = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=2)]


class Grid(Shape):
    """size = width along u (x) and height along v (y); centred on the origin."""

    size: tuple[Length, Length] = quantity((1.0, 1.0), unit="m", doc="width along u and height along v")
    resolution: tuple[Count, Count] = quantity((51, 51), doc="vertices along u and along v")
    diagonals: Literal["alternating", "single"] = quantity("alternating", doc="how each cell is cut in two")

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        nu, nv = self.resolution
        u = np.linspace(-0.5 * self.size[0], 0.5 * self.size[0], nu)
        v = np.linspace(-0.5 * self.size[1], 0.5 * self.size[1], nv)
        uv = np.stack(np.meshgrid(u, v, indexing="xy"), axis=-1).reshape(-1, 2)
        i, j = np.meshgrid(np.arange(nu - 1), np.arange(nv - 1), indexing="xy")
        a = (j * nu + i).ravel()  # lower left corner of each cell, then around it
        b, c, d = a + 1, a + nu + 1, a + nu
        rising = np.stack([a, b, c, a, c, d], axis=1)
        falling = np.stack([a, b, d, b, c, d], axis=1)
        if self.diagonals == "alternating":
            cells = np.where(((i + j) % 2 == 0).ravel()[:, None], rising, falling)
        else:
            cells = rising
        triangles = cells.reshape(-1, 3).astype(np.int32)
        positions = np.column_stack([uv, np.zeros(len(uv))])
        return Mesh(positions, triangles, uv[triangles])
