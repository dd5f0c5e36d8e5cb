"""Common part of grid, folded sheet and ribbon: a flat rectangle cut into right triangles."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from toile.model.mesh import Mesh

# Limits belong to the entries, so that a message names the entry that is wrong.
Length = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=2)]
Diagonals = Literal["alternating", "single"]


def flat_sheet(size: tuple[float, float], resolution: tuple[int, int], diagonals: Diagonals) -> Mesh:
    """Makes a sheet in the xy plane, centered on the origin, row by row along u."""
    nu, nv = resolution
    u = np.linspace(-0.5 * size[0], 0.5 * size[0], nu)
    v = np.linspace(-0.5 * size[1], 0.5 * size[1], nv)
    uv = np.stack(np.meshgrid(u, v, indexing="xy"), axis=-1).reshape(-1, 2)
    i, j = np.meshgrid(np.arange(nu - 1), np.arange(nv - 1), indexing="xy")
    a = (j * nu + i).ravel()  # lower left corner of each cell, then around it
    b, c, d = a + 1, a + nu + 1, a + nu
    rising = np.stack([a, b, c, a, c, d], axis=1)
    falling = np.stack([a, b, d, b, c, d], axis=1)
    falls = (diagonals == "alternating") & ((i + j) % 2 == 1).ravel()
    cells = np.where(falls[:, None], falling, rising)
    triangles = cells.reshape(-1, 3).astype(np.int32)
    positions = np.column_stack([uv, np.zeros(len(uv))])
    quads = np.stack([a, b, c, d], axis=1).astype(np.int32)
    return Mesh(positions, triangles, uv[triangles], quads=quads)
