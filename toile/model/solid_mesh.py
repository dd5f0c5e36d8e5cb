"""Triangle surface of a solid: read from a file, checked, and prepared for collisions.

    errors    NaN or infinity, no faces, an index out of range, degenerate triangles, repeated faces
    fixes     unused vertices (removed), winding (made consistent in each piece), optionally: flip, drop_degenerate
    warnings  slivers, edges of three or more triangles, inside out, open, a size that suggests other units

A surface is closed if every edge has two triangles and it has two sides. Vertices at exactly the same position on open
edges count as one for this, but stay separate vertices, so that a vertex sequence still matches.
An open surface is a thin one; its outside is the side from which its triangles are counterclockwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model import solid_messages as messages
from toile.model.mesh_check import position_problems, require_arrays
from toile.model.mesh_files import read
from toile.model.mesh_files.parts import select_part
from toile.model.mesh_files.scene_path import resolve_scene_path
from toile.model.mesh_files.triangulate import triangulate
from toile.model.mesh_repair import DEGENERATE, diagonal, relative_heights, repeated_corner
from toile.model.solid_topology import SurfaceEdges, Winding, find_edges, find_winding, join_open_edges, signed_volumes


@dataclass(frozen=True)
class SolidMesh:
    """Triangles of a solid, seen counterclockwise from outside."""

    positions: np.ndarray  # [m]  (vertices, 3) float64
    triangles: np.ndarray  # (triangles, 3) int32
    closed: bool
    volume: float  # [m^3], negative if it is inside out; 0 if it is not closed
    warnings: tuple[str, ...]  # problems found and how they were fixed; shown before the run
    representatives: np.ndarray  # (vertices,) int32: the vertex that represents all at the same position (see above)
    # (source vertices,) -> vertex here, -1 if it was removed; None if vertices are numbered as in the source
    numbering: np.ndarray | None = None

    @property
    def source_vertex_count(self) -> int:
        return len(self.positions) if self.numbering is None else len(self.numbering)

    def from_source(self, values: np.ndarray) -> np.ndarray:
        """Selects from values (..., source vertices, 3) those of the vertices here, in their order."""
        return values if self.numbering is None else values[..., np.flatnonzero(self.numbering >= 0), :]


def read_solid(
    folder: Path,
    file: str,
    allow_outside: bool = False,
    *,
    part: str | None = None,
    scale: float = 1.0,
    flip: bool = False,
    drop_degenerate: bool = False,
) -> SolidMesh:
    """Reads a solid from a file under `folder`; `part` is a group, object or prim, `scale` is meters per unit of it."""
    polygons = read(resolve_scene_path(folder, file, allow_outside))
    chosen = select_part(polygons, part)
    corner, _ = triangulate(chosen)
    warnings = list(chosen.warnings)
    larger = np.count_nonzero(chosen.sizes > 3)
    if larger:
        warnings.append(f"{larger} faces with more than 3 corners were cut into triangles.")
    with np.errstate(over="ignore"):  # infinite values are reported below
        positions = scale * chosen.positions
    mesh = _check_surface(positions, chosen.corners[corner], flip, drop_degenerate, warn_unused=part is None)
    return replace(mesh, warnings=(*warnings, *mesh.warnings))


def check_surface(
    positions: np.ndarray, triangles: np.ndarray, *, flip: bool = False, drop_degenerate: bool = False
) -> SolidMesh:
    """Prepares a surface for collisions, with warnings for everything found; raises InputError with all problems."""
    return _check_surface(positions, triangles, flip, drop_degenerate, warn_unused=True)


def require_closed(mesh: SolidMesh, what: str) -> None:
    """Raises InputError if the mesh has no inside; `what` needs one, such as "level_set"."""
    if mesh.closed:
        return
    edges = find_edges(mesh.representatives[mesh.triangles])
    if (edges.uses == 1).any():
        raise InputError(
            f"{what} needs a closed surface, but this mesh is open, so it has no inside: "
            f"{messages.count_edges(mesh.positions, edges, edges.uses == 1, *messages.OPEN)}. "
            "Close the holes, or use type: mesh, which treats an open surface as a thin one."
        )
    if (edges.uses > 2).any():
        raise InputError(
            f"{what} needs a closed surface, but the inside of this mesh is undefined: "
            f"{messages.count_edges(mesh.positions, edges, edges.uses > 2, *messages.NON_MANIFOLD)}. "
            "Remove inner faces, or use type: mesh."
        )
    raise InputError(
        f"{what} needs a closed surface, but this mesh has only one side, so it has no inside. Use type: mesh."
    )


def _check_surface(
    positions: np.ndarray, triangles: np.ndarray, flip: bool, drop_degenerate: bool, warn_unused: bool
) -> SolidMesh:
    positions, triangles = np.asarray(positions, np.float64), np.asarray(triangles)
    require_arrays(positions, triangles)
    if not_finite := [*position_problems(positions)]:
        raise InputError("\n".join(not_finite))
    height = np.where(repeated_corner(triangles), 0.0, relative_heights(positions[triangles]))
    number = np.flatnonzero(height > DEGENERATE)  # messages give the number of a triangle in the source
    problems = [] if drop_degenerate else [*messages.degenerate(triangles, height)]
    kept = triangles[number]
    representatives = join_open_edges(positions, kept) if len(kept) else np.arange(len(positions))
    if len(kept):
        problems += messages.repeated(positions, kept, representatives, number)
    elif drop_degenerate:
        problems.append(f"no triangle is left: all {len(triangles)} are degenerate.")
    if problems:
        raise InputError("\n".join(problems))

    edges = find_edges(representatives[kept])
    winding = find_winding(representatives[kept], edges)
    is_open = _pieces_with(edges.uses == 1, edges, winding)
    is_closed = ~(is_open | _pieces_with(edges.uses > 2, edges, winding) | winding.one_sided)
    turn = _outward(positions, kept, winding, is_closed)
    turned = np.where(turn[:, None], kept[:, [0, 2, 1]], kept)
    if flip:
        turned = turned[:, [0, 2, 1]]
    volumes = np.bincount(winding.piece, signed_volumes(positions, turned), len(is_closed))
    used = np.zeros(len(positions), bool)
    used[kept.ravel()] = True
    here = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    closed, across = bool(is_closed.all()), diagonal(positions[used])
    return SolidMesh(
        positions=positions[used],
        triangles=here[turned],
        closed=closed,
        volume=float(volumes.sum()) if closed else 0.0,
        warnings=(
            *messages.dropped(height),
            *(messages.unused(used) if warn_unused else ()),
            *messages.merged(representatives),
            *messages.flipped(turn, number, winding),
            *messages.non_manifold(positions, edges),
            *(messages.inside_out(volumes, across, flip) if closed else messages.open_surface(positions, edges)),
            *messages.slivers(triangles, height),
            *messages.unusual_size(across),
        ),
        representatives=here[representatives[used]],
        numbering=None if used.all() else here,
    )


def _pieces_with(chosen: np.ndarray, edges: SurfaceEdges, winding: Winding) -> np.ndarray:
    """Returns (pieces,) whether any edge of the piece is chosen."""
    has = chosen[edges.of_side].any(axis=1)
    return np.bincount(winding.piece, has, len(winding.one_sided)) > 0


def _outward(positions: np.ndarray, triangles: np.ndarray, winding: Winding, is_closed: np.ndarray) -> np.ndarray:
    """Returns which triangles to flip. A closed piece with inconsistent winding is made to face outward.

    A consistent piece stays as it is: facing inward, it may be the wall of a cavity.
    """
    pieces = len(is_closed)
    turns = np.bincount(winding.piece, winding.flip, pieces)
    volume = signed_volumes(positions, triangles) * np.where(winding.flip, -1.0, 1.0)
    inward = (np.bincount(winding.piece, volume, pieces) < 0.0) & is_closed & (turns > 0)
    return winding.flip ^ inward[winding.piece]
