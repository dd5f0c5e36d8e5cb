"""The triangle surface of a solid: read from a file, judged, and made fit to collide with.

    stops    NaN or infinity, nothing there, an index out of range, degenerate triangles, repeated faces
    treats   unused vertices (removed), winding (made to agree within each piece), on request: flip, drop_degenerate
    tells    slivers, edges of three or more triangles, inside out, open, a size that suggests other units

A surface is closed when every edge has two triangles and it has two sides. Vertices at exactly the same place on open
edges count as one for this, but stay apart as vertices, so that a vertex sequence still matches.
An open surface is a thin one; the side its triangles face, seen counterclockwise, is the solid's outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.mesh_check import LARGEST, SLIVER, SMALLEST
from toile.model.mesh_files import read
from toile.model.mesh_files.inside import resolve_inside
from toile.model.mesh_files.parts import select_part
from toile.model.mesh_files.polygons import cut_into_triangles
from toile.model.mesh_repair import DEGENERATE, FARTHEST, heights, repeated_corner, size
from toile.model.solid_topology import (
    Edges,
    Winding,
    find_edges,
    find_winding,
    join_open_edges,
    repeated_faces,
    signed_volumes,
)

# Volume over the cube of the size: below it is rounding.
NO_VOLUME = 1e-12
OPEN = "open edge", "open edges"
CROWDED = "edge of more than two triangles", "edges of more than two triangles"
NAMED = 5  # how many of many are named in a message


@dataclass(frozen=True)
class SolidMesh:
    """Triangles of a solid, seen counterclockwise from outside."""

    positions: np.ndarray  # [m]  (vertices, 3) float64
    triangles: np.ndarray  # (triangles, 3) int32
    closed: bool
    volume: float  # [m^3], negative when it is inside out; 0 when it is not closed
    warnings: tuple[str, ...]  # what was found and how it was treated; shown before the run
    places: np.ndarray  # (vertices,) int32: the vertex that stands for all at the same place; see the top of this file
    # (source vertices,) -> vertex here, -1 when it was removed; None when the numbering is that of the source
    numbering: np.ndarray | None = None

    @property
    def source_vertex_count(self) -> int:
        return len(self.positions) if self.numbering is None else len(self.numbering)

    def from_source(self, values: np.ndarray) -> np.ndarray:
        """Of values (..., source vertices, 3), those of the vertices here, in their order."""
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
    """The solid in a file under `folder`; `part` is one group, object or prim of it, `scale` metres per unit of it."""
    polygons = read(resolve_inside(folder, file, allow_outside))
    chosen = select_part(polygons, part)
    corner, _ = cut_into_triangles(chosen)
    told = list(chosen.warnings)
    larger = np.count_nonzero(chosen.sizes > 3)
    if larger:
        told.append(f"{larger} faces with more than 3 corners were cut into triangles.")
    with np.errstate(over="ignore"):  # what becomes infinite is told
        positions = scale * chosen.positions
    mesh = _judge(positions, chosen.corners[corner], flip, drop_degenerate, tell_unused=part is None)
    return replace(mesh, warnings=(*told, *mesh.warnings))


def judge(
    positions: np.ndarray, triangles: np.ndarray, *, flip: bool = False, drop_degenerate: bool = False
) -> SolidMesh:
    """The surface ready to collide with, with warnings for all that was found; InputError says what cannot be used."""
    return _judge(positions, triangles, flip, drop_degenerate, tell_unused=True)


def require_closed(mesh: SolidMesh, what: str) -> None:
    """InputError when there is no inside; `what` is what needs one, such as "level_set"."""
    if mesh.closed:
        return
    edges = find_edges(mesh.places[mesh.triangles])
    if (edges.uses == 1).any():
        raise InputError(
            f"{what} needs a closed surface, and this mesh is open, so it has no inside: "
            f"{_count_edges(mesh.positions, edges, edges.uses == 1, *OPEN)}. "
            "Close the holes, or use type: mesh, which takes an open surface as a thin one."
        )
    if (edges.uses > 2).any():
        raise InputError(
            f"{what} needs a closed surface, and the inside of this mesh is undefined: "
            f"{_count_edges(mesh.positions, edges, edges.uses > 2, *CROWDED)}. "
            "Remove inner faces, or use type: mesh."
        )
    raise InputError(
        f"{what} needs a closed surface, and this mesh has only one side, so it has no inside. Use type: mesh."
    )


def _judge(
    positions: np.ndarray, triangles: np.ndarray, flip: bool, drop_degenerate: bool, tell_unused: bool
) -> SolidMesh:
    positions, triangles = np.asarray(positions, np.float64), np.asarray(triangles)
    _require_arrays(positions, triangles)
    _require_finite(positions)
    height = np.where(repeated_corner(triangles), 0.0, heights(positions[triangles]))
    number = np.flatnonzero(height > DEGENERATE)  # triangles are named by their number in the source
    problems = [] if drop_degenerate else [*_degenerate(triangles, height)]
    kept = triangles[number]
    places = join_open_edges(positions, kept) if len(kept) else np.arange(len(positions))
    if len(kept):
        problems += _repeated(positions, kept, places, number)
    elif drop_degenerate:
        problems.append(f"nothing is left: all {len(triangles)} triangles are degenerate.")
    if problems:
        raise InputError("\n".join(problems))

    edges = find_edges(places[kept])
    winding = find_winding(places[kept], edges)
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
    closed, across = bool(is_closed.all()), size(positions[used])
    return SolidMesh(
        positions=positions[used],
        triangles=here[turned],
        closed=closed,
        volume=float(volumes.sum()) if closed else 0.0,
        warnings=(
            *_dropped(height),
            *(_unused(used) if tell_unused else ()),
            *_joined(places),
            *_turned(turn, number, winding),
            *_not_a_surface(positions, edges),
            *(_inside_out(volumes, across, flip) if closed else _open(positions, edges)),
            *_slivers(triangles, height),
            *_wrong_size(across),
        ),
        places=here[places[used]],
        numbering=None if used.all() else here,
    )


def _pieces_with(chosen: np.ndarray, edges: Edges, winding: Winding) -> np.ndarray:
    """(pieces,) whether any edge of the piece is among those chosen."""
    has = chosen[edges.of_side].any(axis=1)
    return np.bincount(winding.piece, has, len(winding.one_sided)) > 0


def _outward(positions: np.ndarray, triangles: np.ndarray, winding: Winding, is_closed: np.ndarray) -> np.ndarray:
    """Which triangles to turn. A closed piece that did not agree with itself is made to face outward.

    A piece that agrees stays as it is: facing inward, it may be the wall of a hollow.
    """
    pieces = len(is_closed)
    turns = np.bincount(winding.piece, winding.turn, pieces)
    volume = signed_volumes(positions, triangles) * np.where(winding.turn, -1.0, 1.0)
    inward = (np.bincount(winding.piece, volume, pieces) < 0.0) & is_closed & (turns > 0)
    return winding.turn ^ inward[winding.piece]


# Errors


def _require_arrays(positions: np.ndarray, triangles: np.ndarray) -> None:
    """What must hold before any entry is looked up."""
    n = len(positions)
    if n == 0:
        raise InputError("the mesh is empty: it has no vertices.")
    if len(triangles) == 0:
        raise InputError(f"the mesh has no faces ({n} {'vertex' if n == 1 else 'vertices'} alone).")
    if positions.shape != (n, 3) or triangles.shape[1:] != (3,) or not np.issubdtype(triangles.dtype, np.integer):
        raise InputError("positions must be (vertices, 3) and triangles (triangles, 3), of whole numbers.")
    wrong = ((triangles < 0) | (triangles >= n)).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise InputError(f"{_triangle(triangles, t)} refers to a vertex that does not exist; there are 0 to {n - 1}.")


def _require_finite(positions: np.ndarray) -> None:
    wrong = ~np.isfinite(positions).all(axis=1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"vertex {i} = {_place(positions[i])}: not finite ({np.count_nonzero(wrong)} such vertices).")
    far = (np.abs(positions) > FARTHEST).any(axis=1)
    if far.any():
        i = int(np.argmax(far))
        raise InputError(
            f"vertex {i} = {_place(positions[i])}: farther than {FARTHEST:g} m from the origin. Set a scale."
        )


def _degenerate(triangles: np.ndarray, height: np.ndarray) -> Iterator[str]:
    flat = np.flatnonzero(height <= DEGENERATE)
    if len(flat):
        more = f" and {len(flat) - NAMED} more" if len(flat) > NAMED else ""
        first = ", ".join(_triangle(triangles, int(t)) for t in flat[:NAMED])
        yield (
            f"{first}{more}: degenerate, the corners lie on a line or coincide. "
            "Repair the mesh, or set drop_degenerate: true to leave them out."
        )


def _repeated(positions: np.ndarray, triangles: np.ndarray, places: np.ndarray, number: np.ndarray) -> Iterator[str]:
    pairs = repeated_faces(positions, triangles, places)
    if len(pairs):
        one, two = pairs[0]
        yield (
            f"triangles {number[one]} and {number[two]} are the same face: "
            f"vertices {', '.join(map(str, triangles[one]))} ({len(pairs)} repeated). Remove the repeated ones."
        )


# Warnings


def _dropped(height: np.ndarray) -> Iterator[str]:
    flat = height <= DEGENERATE
    if flat.any():
        yield f"left out {_count(flat, 'degenerate triangle', 'degenerate triangles')}, the first of them triangle {np.argmax(flat)}."


def _unused(used: np.ndarray) -> Iterator[str]:
    if not used.all():
        yield (
            f"removed {_count(~used, 'vertex', 'vertices')} of no triangle, the first of them vertex "
            f"{np.argmin(used)}; vertex sequences keep the numbers of the source."
        )


def _joined(places: np.ndarray) -> Iterator[str]:
    apart = places != np.arange(len(places))
    if apart.any():
        i = int(np.argmax(apart))
        yield (
            f"{_count(apart, 'vertex', 'vertices')} on open edges exactly where another is, such as {i} and "
            f"{places[i]}: the surface counts as joined there."
        )


def _turned(turn: np.ndarray, number: np.ndarray, winding: Winding) -> Iterator[str]:
    if turn.any():
        yield (
            f"turned {_count(turn, 'triangle', 'triangles')} to face the same way as the rest of the piece, "
            f"the first of them triangle {number[np.argmax(turn)]}."
        )
    if winding.one_sided.any():
        yield "the surface has only one side (a Moebius strip), so front and back mean nothing on it."


def _not_a_surface(positions: np.ndarray, edges: Edges) -> Iterator[str]:
    many = edges.uses > 2
    if many.any():
        yield (
            f"{_count_edges(positions, edges, many, *CROWDED)}: "
            "the mesh counts as open, and which side is outside is uncertain there."
        )


def _inside_out(volumes: np.ndarray, across: float, flip: bool) -> Iterator[str]:
    total = volumes.sum()
    inward = volumes < 0.0
    if abs(total) <= NO_VOLUME * across**3:
        yield "the closed surface encloses no volume: a sheet with two sides. It has no inside; one side is enough."
    elif total < 0.0:
        remedy = "leave out flip: true" if flip else "set flip: true to turn it"
        yield f"the solid is inside out: its signed volume is {total:.4g} m^3. Cloth would be pulled in; {remedy}."
    elif inward.any():
        yield (
            f"{np.count_nonzero(inward)} of {len(volumes)} closed pieces face inward (signed volume "
            f"{volumes[inward].sum():.4g} m^3): right for a hollow in another piece, wrong for one that stands alone."
        )


def _open(positions: np.ndarray, edges: Edges) -> Iterator[str]:
    rim = edges.uses == 1
    if rim.any():
        yield (
            f"the mesh is open ({_count_edges(positions, edges, rim, *OPEN)}): it is used as a thin surface, "
            "and the side from which its triangles run counterclockwise is outside."
        )


def _slivers(triangles: np.ndarray, height: np.ndarray) -> Iterator[str]:
    thin = (height > DEGENERATE) & (height < SLIVER)
    if thin.any():
        worst = int(np.argmin(np.where(thin, height, np.inf)))
        yield (
            f"{_count(thin, 'sliver', 'slivers')} among the triangles: the worst, {_triangle(triangles, worst)}, is "
            f"{height[worst]:.2g} of its longest edge high, and its normal is uncertain."
        )


def _wrong_size(across: float) -> Iterator[str]:
    if not SMALLEST <= across <= LARGEST:
        yield f"the solid is {across:.3g} m across, outside {SMALLEST:g} to {LARGEST:g} m: is it in metres? Set scale."


def _count_edges(positions: np.ndarray, edges: Edges, chosen: np.ndarray, one: str, many: str) -> str:
    a, b = edges.ends[int(np.argmax(chosen))]
    first = "" if np.count_nonzero(chosen) == 1 else "the first "
    return f"{_count(chosen, one, many)}, {first}from {_place(positions[a])} to {_place(positions[b])} m"


def _count(chosen: np.ndarray, one: str, many: str) -> str:
    count = np.count_nonzero(chosen)
    return f"{count} {one if count == 1 else many}"


def _triangle(triangles: np.ndarray, t: int) -> str:
    return f"triangle {t} (vertices {', '.join(map(str, triangles[t]))})"


def _place(point: np.ndarray) -> str:
    return f"({', '.join(f'{value:.4g}' for value in point)})"
