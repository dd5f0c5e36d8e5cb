"""Messages about the surface of a solid: errors that stop the run, and warnings. Each function yields lines or none.

Triangles and vertices have their numbers in the source.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toile.model.mesh_check import LARGEST, SLIVER, SMALLEST, triangle_text
from toile.model.mesh_repair import DEGENERATE
from toile.model.solid_topology import SurfaceEdges, Winding, repeated_faces

# Volume over the cube of the size below which it is rounding.
NO_VOLUME = 1e-12
FLAT = "degenerate triangle", "degenerate triangles"
OPEN = "open edge", "open edges"
NON_MANIFOLD = "edge of more than two triangles", "edges of more than two triangles"
NAMED = 5  # at most this many items are listed in a message


# Errors


def degenerate(triangles: np.ndarray, height: np.ndarray) -> Iterator[str]:
    flat = np.flatnonzero(height <= DEGENERATE)
    if len(flat):
        more = f" and {len(flat) - NAMED} more" if len(flat) > NAMED else ""
        first = ", ".join(triangle_text(triangles, int(t)) for t in flat[:NAMED])
        yield (
            f"{first}{more}: degenerate, its corners lie on a line or coincide. "
            "Repair the mesh, or set drop_degenerate: true to leave them out."
        )


def repeated(
    positions: np.ndarray, triangles: np.ndarray, representatives: np.ndarray, number: np.ndarray
) -> Iterator[str]:
    pairs = repeated_faces(positions, triangles, representatives)
    if len(pairs):
        one, two = pairs[0]
        yield (
            f"triangles {number[one]} and {number[two]} are the same face: "
            f"vertices {', '.join(map(str, triangles[one]))} ({len(pairs)} repeated). Remove the repeated ones."
        )


# Warnings


def dropped(height: np.ndarray) -> Iterator[str]:
    flat = height <= DEGENERATE
    if flat.any():
        yield f"left out {_count(flat, *FLAT)}, the first of them triangle {np.argmax(flat)}."


def unused(used: np.ndarray) -> Iterator[str]:
    if not used.all():
        yield (
            f"removed {_count(~used, 'unused vertex', 'unused vertices')}, the first of them vertex "
            f"{np.argmin(used)}; vertex sequences keep the numbers of the source."
        )


def merged(representatives: np.ndarray) -> Iterator[str]:
    apart = representatives != np.arange(len(representatives))
    if apart.any():
        i = int(np.argmax(apart))
        yield (
            f"{_count(apart, 'vertex', 'vertices')} on open edges at the same position as another, such as {i} and "
            f"{representatives[i]}: the surface is treated as connected there."
        )


def flipped(turn: np.ndarray, number: np.ndarray, winding: Winding) -> Iterator[str]:
    if turn.any():
        yield (
            f"flipped {_count(turn, 'triangle', 'triangles')} to face the same way as their piece, "
            f"the first of them triangle {number[np.argmax(turn)]}."
        )
    if winding.one_sided.any():
        yield "the surface has only one side (a Moebius strip), so its front and back are not defined."


def non_manifold(positions: np.ndarray, edges: SurfaceEdges) -> Iterator[str]:
    many = edges.uses > 2
    if many.any():
        yield (
            f"{count_edges(positions, edges, many, *NON_MANIFOLD)}: "
            "the mesh is treated as open, and its outside is uncertain there."
        )


def inside_out(volumes: np.ndarray, across: float, flip: bool) -> Iterator[str]:
    total = volumes.sum()
    inward = volumes < 0.0
    if abs(total) <= NO_VOLUME * across**3:
        yield "the closed surface encloses no volume: a sheet with two sides. It has no inside; keep one side only."
    elif total < 0.0:
        remedy = "remove flip: true" if flip else "set flip: true to flip it"
        yield f"the solid is inside out: its signed volume is {total:.4g} m^3. It does not keep cloth out; {remedy}."
    elif inward.any():
        yield (
            f"{np.count_nonzero(inward)} of {len(volumes)} closed pieces face inward (signed volume "
            f"{volumes[inward].sum():.4g} m^3): right for a cavity in another piece, wrong for a separate one."
        )


def open_surface(positions: np.ndarray, edges: SurfaceEdges) -> Iterator[str]:
    rim = edges.uses == 1
    if rim.any():
        yield (
            f"the mesh is open ({count_edges(positions, edges, rim, *OPEN)}): it is treated as a thin surface, "
            "and the side from which its triangles are counterclockwise is outside."
        )


def slivers(triangles: np.ndarray, height: np.ndarray) -> Iterator[str]:
    thin = (height > DEGENERATE) & (height < SLIVER)
    if thin.any():
        worst = int(np.argmin(np.where(thin, height, np.inf)))
        yield (
            f"{_count(thin, 'sliver', 'slivers')} among the triangles: the worst, {triangle_text(triangles, worst)}, "
            f"has height / longest edge = {height[worst]:.2g}, and its normal is uncertain."
        )


def unusual_size(across: float) -> Iterator[str]:
    if not SMALLEST <= across <= LARGEST:
        yield f"the solid is {across:.3g} m across, outside {SMALLEST:g} to {LARGEST:g} m: is it in meters? Set scale."


def count_edges(positions: np.ndarray, edges: SurfaceEdges, chosen: np.ndarray, one: str, many: str) -> str:
    a, b = edges.ends[int(np.argmax(chosen))]
    first = "" if np.count_nonzero(chosen) == 1 else "the first "
    return f"{_count(chosen, one, many)}, {first}from {_place(positions[a])} to {_place(positions[b])} m"


def _count(chosen: np.ndarray, one: str, many: str) -> str:
    count = np.count_nonzero(chosen)
    return f"{count} {one if count == 1 else many}"


def _place(point: np.ndarray) -> str:
    return f"({', '.join(f'{value:.4g}' for value in point)})"
