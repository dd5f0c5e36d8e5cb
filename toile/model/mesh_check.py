"""Checks of a cloth mesh before the simulation: errors that stop the run, automatic fixes, and warnings.

    errors    NaN or infinity, no faces, degenerate triangles, no uv area, repeated faces, edges of three triangles
    fixes     unused vertices (removed), winding (made consistent), mirrored uv (mirrored back)
    warnings  slivers, coincident vertices, a size that suggests other units, uv that are not lengths

The optional repairs, `weld` and `drop_degenerate`, are in mesh_repair.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from toile.errors import InputError
from toile.model.mesh import Mesh, face_sides
from toile.model.mesh_files import require_memory
from toile.model.mesh_repair import (
    DEGENERATE,
    FARTHEST,
    coincident,
    diagonal,
    relative_heights,
    repeated_corner,
    with_one_winding,
    with_positive_uv,
    without_unused_vertices,
)

# Height of a triangle over its longest edge below which bending weights |e|^2 / A lock the cloth and swamp the matrix.
SLIVER = 1e-6
# Usual sizes of cloth [m]; a file outside this range is probably in other units.
SMALLEST, LARGEST = 1e-3, 100.0
# Ratio of uv area to area in space beyond which uv are probably texture coordinates and not lengths.
UV_RATIO = 2.0
# Memory that a run needs per vertex at least: mesh, state, matrix blocks and their copies, hinges [bytes].
BYTES_PER_VERTEX = 4000


def check(mesh: Mesh) -> Mesh:
    """Returns the mesh ready to simulate, with warnings for everything found; raises InputError with all problems."""
    require_arrays(mesh.positions, mesh.triangles)
    if mesh.uv.shape != (*mesh.triangles.shape, 2):
        raise InputError(f"uv must be (triangles, 3, 2), but is {mesh.uv.shape}.")
    require_memory_for(mesh.vertex_count)
    problems = [*_not_finite(mesh)] or [*_broken_triangles(mesh), *_broken_topology(mesh.triangles)]
    if problems:
        raise InputError("\n".join(problems))
    mesh = without_unused_vertices(mesh)
    mesh = with_one_winding(mesh)
    mesh = with_positive_uv(mesh)
    return replace(mesh, warnings=(*mesh.warnings, *_oddities(mesh)))


def require_memory_for(vertex_count: int) -> None:
    """Raises InputError if a mesh with this number of vertices does not fit into memory; called before it is made."""
    if vertex_count > np.iinfo(np.int32).max:
        raise InputError(f"{vertex_count:.3g} vertices exceed the range of 32-bit indices. Use a coarser mesh.")
    require_memory(BYTES_PER_VERTEX * vertex_count, f"simulating {vertex_count} vertices")


# Errors


def require_arrays(positions: np.ndarray, triangles: np.ndarray) -> None:
    """Checks shapes and index ranges of cloth or solids, which all other checks rely on."""
    n = len(positions)
    if n == 0:
        raise InputError("the mesh is empty: it has no vertices. Export it again.")
    if len(triangles) == 0:
        raise InputError(f"the mesh has no faces, only {n} {'vertex' if n == 1 else 'vertices'}. Export it with faces.")
    if positions.shape != (n, 3) or triangles.shape[1:] != (3,) or not np.issubdtype(triangles.dtype, np.integer):
        raise InputError("positions must be (vertices, 3) and triangles (triangles, 3) integers.")
    wrong = ((triangles < 0) | (triangles >= n)).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise InputError(f"{triangle_text(triangles, t)} refers to a vertex outside of 0 to {n - 1}.")


def position_problems(positions: np.ndarray) -> Iterator[str]:
    """Yields a message if a position of cloth or solids is not finite, or too far away."""
    wrong = ~np.isfinite(positions).all(axis=1)
    if wrong.any():
        i = int(np.argmax(wrong))
        yield f"vertex {i} = {_vector(positions[i])}: not finite ({np.count_nonzero(wrong)} such vertices)."
    elif (far := (np.abs(positions) > FARTHEST).any(axis=1)).any():
        i = int(np.argmax(far))
        yield f"vertex {i} = {_vector(positions[i])}: farther than {FARTHEST:g} m from the origin. Set a scale."


def _not_finite(mesh: Mesh) -> Iterator[str]:
    yield from position_problems(mesh.positions)
    wrong = ~np.isfinite(mesh.uv).all(axis=(1, 2))
    if wrong.any():
        first = triangle_text(mesh.triangles, int(np.argmax(wrong)))
        yield f"{first} has uv that are not finite ({np.count_nonzero(wrong)} such)."
    elif (far := (np.abs(mesh.uv) > FARTHEST).any(axis=(1, 2))).any():
        yield f"{triangle_text(mesh.triangles, int(np.argmax(far)))} has uv larger than {FARTHEST:g} m. Set a scale."


def _broken_triangles(mesh: Mesh) -> Iterator[str]:
    flat = (relative_heights(mesh.positions[mesh.triangles]) <= DEGENERATE) | repeated_corner(mesh.triangles)
    if flat.any():
        yield (
            f"{triangle_text(mesh.triangles, int(np.argmax(flat)))} is degenerate: its corners lie on a line or "
            f"coincide ({np.count_nonzero(flat)} such). Repair it, or set drop_degenerate: true to leave them out."
        )
    flat_uv = (relative_heights(mesh.uv) <= DEGENERATE) & ~flat
    if flat_uv.any():
        yield (
            f"{triangle_text(mesh.triangles, int(np.argmax(flat_uv)))} has no area in uv "
            f"({np.count_nonzero(flat_uv)} such). "
            "Unwrap it, or set uv: rest to use lengths in space."
        )


def _broken_topology(triangles: np.ndarray) -> Iterator[str]:
    key = np.sort(triangles, axis=1)
    _, first, inverse, counts = np.unique(key, axis=0, return_index=True, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[inverse.ravel()] > 1)
    if len(repeated):
        second = next(int(t) for t in repeated if first[inverse.ravel()[t]] != t)
        one = int(first[inverse.ravel()[second]])
        yield (
            f"triangles {one} and {second} are the same face: vertices {', '.join(map(str, triangles[one]))} "
            f"({np.sum(counts - 1)} repeated). Remove the repeated ones."
        )
        return  # their edges have three triangles for the same reason
    ends = np.sort(face_sides(triangles), axis=1)
    edges, inverse, counts = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
    if (counts > 2).any():
        edge = int(np.argmax(counts > 2))
        of = np.flatnonzero(inverse.ravel() == edge) // 3
        yield (
            f"edge {edges[edge][0]}-{edges[edge][1]} belongs to {counts[edge]} triangles "
            f"({', '.join(map(str, of[:4]))}{', ...' if len(of) > 4 else ''}): bending is undefined there "
            f"({np.count_nonzero(counts > 2)} such edges). Separate the layers."
        )


# Warnings


def _oddities(mesh: Mesh) -> Iterator[str]:
    x = mesh.positions[mesh.triangles]
    across = diagonal(mesh.positions)
    for ratios, where in ((relative_heights(x), ""), (relative_heights(mesh.uv), " in uv")):
        worst = int(np.argmin(ratios))
        if ratios[worst] < SLIVER:
            yield (
                f"{np.count_nonzero(ratios < SLIVER)} triangles are slivers{where}; the worst, "
                f"{triangle_text(mesh.triangles, worst)}, has height / longest edge = {ratios[worst]:.2g}. "
                "Expect stiff spots."
            )
    pairs = coincident(mesh.positions)
    if len(pairs):
        vertices = len(np.unique(pairs))
        a, b = pairs[0]
        yield (
            f"{vertices} vertices coincide with others, such as {a} and {b}: the cloth is not connected there. "
            "Set weld: true to join them."
        )
    if not SMALLEST <= across <= LARGEST:
        yield f"the cloth is {across:.3g} m across, outside {SMALLEST:g} to {LARGEST:g} m: is it in meters?"
    space = 0.5 * np.sqrt(np.sum(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]) ** 2, axis=1)).sum()
    ratio = np.abs(mesh.uv_areas()).sum() / space
    if not 1.0 / UV_RATIO <= ratio <= UV_RATIO:
        yield (
            f"the cloth in uv has {ratio:.3g} times its area in space: uv are rest lengths in meters. "
            "If they are texture coordinates, set uv: scaled or uv: rest."
        )


def triangle_text(triangles: np.ndarray, t: int) -> str:
    return f"triangle {t} (vertices {', '.join(map(str, triangles[t]))})"


def _vector(values: np.ndarray) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})"
