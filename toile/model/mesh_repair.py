"""Repairs of cloth meshes: those that are always applied, and the optional ones that a shape offers.

Each function takes a mesh and returns a mesh, with one more warning if it changed something.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.spatial import cKDTree

from toile.model.mesh import Mesh

# Height of a triangle over its longest edge up to which it is a line within rounding, and has no normal.
DEGENERATE = 1e-12
# Vertices closer than this fraction of the bounding box coincide.
COINCIDENT = 1e-7
# Coordinates beyond this [m] leave fewer than 7 digits for a millimeter in float64.
FARTHEST = 1e6


def weld(mesh: Mesh) -> Mesh:
    """Merges coincident vertices; triangles and regions follow, corners keep their own uv."""
    if not _is_sound(mesh):
        return mesh
    representative = np.arange(mesh.vertex_count)
    while True:  # nearest neighbors only: all pairs of a thousand coincident points would be half a million
        kept = np.unique(representative)
        pairs = coincident(mesh.positions[kept])
        if not len(pairs):
            break
        graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(kept), len(kept)))
        _, label = connected_components(graph, directed=False)
        first = np.full(label.max() + 1, len(kept))
        np.minimum.at(first, label, np.arange(len(kept)))
        representative = kept[first[label]][np.searchsorted(kept, representative)]
    merged = mesh.vertex_count - len(kept)
    if not merged:
        return mesh
    welded = _renumbered(mesh, np.searchsorted(kept, representative), kept)
    return replace(welded, warnings=(*welded.warnings, f"{merged} coincident vertices were welded."))


def drop_degenerate(mesh: Mesh) -> Mesh:
    """Removes triangles that are points or lines in space or in uv."""
    if not _is_sound(mesh):
        return mesh
    flat = (relative_heights(mesh.positions[mesh.triangles]) <= DEGENERATE) | (relative_heights(mesh.uv) <= DEGENERATE)
    flat |= repeated_corner(mesh.triangles)
    if not flat.any():
        return mesh
    first = int(np.argmax(flat))
    warning = f"{np.count_nonzero(flat)} degenerate triangles were dropped, the first of them triangle {first}."
    return replace(mesh, triangles=mesh.triangles[~flat], uv=mesh.uv[~flat], warnings=(*mesh.warnings, warning))


def without_unused_vertices(mesh: Mesh) -> Mesh:
    used = np.zeros(mesh.vertex_count, bool)
    used[mesh.triangles.ravel()] = True
    if used.all():
        return mesh
    here = np.where(used, np.cumsum(used) - 1, -1)
    unused = int(np.argmin(used))
    warning = (
        f"{np.count_nonzero(~used)} vertices belong to no triangle and were removed, the first of them vertex "
        f"{unused}; selections by index keep the numbers of the source."
    )
    smaller = _renumbered(mesh, here, np.flatnonzero(used))
    return replace(smaller, warnings=(*mesh.warnings, warning))


def with_one_winding(mesh: Mesh) -> Mesh:
    """Makes neighbors traverse their shared edge in opposite directions; in each piece the minority is flipped."""
    one, two, same_way = _neighbors(mesh.triangles)
    if not same_way.any():
        return mesh
    m = mesh.triangle_count
    graph = coo_array((np.ones(len(one)), (one, two)), shape=(m, m)).tocsr()
    _, piece = connected_components(graph, directed=False)
    flip = np.zeros(m, bool)
    differs = {(int(a), int(b)): bool(s) for a, b, s in zip(one, two, same_way, strict=True)}
    for label in np.unique(piece[one[same_way]]):
        members = np.flatnonzero(piece == label)
        order, parents = breadth_first_order(graph, members[0], directed=False)
        for t in order[1:]:
            p = int(parents[t])
            flip[t] = flip[p] ^ differs[min(p, int(t)), max(p, int(t))]
        if 2 * np.count_nonzero(flip[members]) > len(members):
            flip[members] = ~flip[members]
    warnings = []
    if flip.any():
        t = int(np.argmax(flip))
        warnings.append(
            f"{np.count_nonzero(flip)} triangles faced the opposite way to their neighbors and were flipped, the first "
            f"of them triangle {t}."
        )
    if np.any(flip[one] ^ flip[two] ^ same_way):
        warnings.append("the surface has only one side (a Moebius strip), so its front and back are not defined.")
    turned = np.where(flip[:, None], [0, 2, 1], [0, 1, 2])
    return replace(
        mesh,
        triangles=np.take_along_axis(mesh.triangles, turned, axis=1),
        uv=np.take_along_axis(mesh.uv, turned[:, :, None], axis=1),
        warnings=(*mesh.warnings, *warnings),
    )


def with_positive_uv(mesh: Mesh) -> Mesh:
    """Mirrors uv islands back in u that are mirrored against the winding, about their own middle, so they stay put."""
    negative = mesh.uv_areas() < 0
    if not negative.any():
        return mesh
    one, two, _ = _neighbors(mesh.triangles)
    uv_set = [set(map(tuple, corners)) for corners in mesh.uv.tolist()]
    joined = np.array([len(uv_set[a] & uv_set[b]) >= 2 for a, b in zip(one, two, strict=True)], bool)
    joined &= negative[one] == negative[two]
    m = mesh.triangle_count
    graph = coo_array((np.ones(np.count_nonzero(joined)), (one[joined], two[joined])), shape=(m, m))
    count, island = connected_components(graph, directed=False)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, island, mesh.uv[:, :, 0].min(axis=1))
    np.maximum.at(high, island, mesh.uv[:, :, 0].max(axis=1))
    uv = mesh.uv.copy()
    uv[negative, :, 0] = (low + high)[island[negative], None] - uv[negative, :, 0]
    warning = (
        f"uv of {np.count_nonzero(negative)} triangles are mirrored against their winding, the first of them triangle "
        f"{np.argmax(negative)}; u was mirrored back there. Corners and sides still refer to the original uv."
    )
    return replace(mesh, uv=uv, plane=mesh.vertex_uv(), warnings=(*mesh.warnings, warning))


def _is_sound(mesh: Mesh) -> bool:
    """Returns whether a repair can run on the mesh at all; if not, the mesh check reports why."""
    in_range = (mesh.triangles >= 0).all() and (mesh.triangles < mesh.vertex_count).all()
    return bool(mesh.vertex_count and in_range and (np.abs(mesh.positions) <= FARTHEST).all())


def _renumbered(mesh: Mesh, here: np.ndarray, kept: np.ndarray) -> Mesh:
    """Renumbers vertices: `here` maps each vertex to its new number (-1: removed), `kept` lists those that remain."""
    source = np.arange(mesh.vertex_count) if mesh.numbering is None else mesh.numbering
    regions = {name: np.unique(here[region]) for name, region in mesh.regions.items()}
    return replace(
        mesh,
        positions=mesh.positions[kept],
        triangles=here[mesh.triangles].astype(np.int32),
        regions={name: region[region >= 0] for name, region in regions.items()},
        numbering=np.where(source >= 0, here[source], -1),
        plane=None if mesh.plane is None else mesh.plane[kept],
    )


def relative_heights(triangles: np.ndarray) -> np.ndarray:
    """Returns smallest height / longest edge of triangles (triangles, 3, 2 or 3); 0 for points, NaN if not finite."""
    with np.errstate(all="ignore"):
        edges = np.roll(triangles, -1, axis=1) - triangles
        longest = np.abs(edges).max(axis=(1, 2), keepdims=True)
        edges = edges / np.where(longest > 0, longest, 1.0)  # so that no square over- or underflows
        a, b = edges[:, 0], edges[:, 1]
        twice_area = (
            np.sqrt(np.sum(np.cross(a, b) ** 2, axis=1))
            if triangles.shape[2] == 3
            else np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
        )
        square = np.sum(edges**2, axis=2).max(axis=1)
        return twice_area / np.where(square > 0, square, 1.0)


def repeated_corner(triangles: np.ndarray) -> np.ndarray:
    return (triangles == np.roll(triangles, -1, axis=1)).any(axis=1)


def _neighbors(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns pairs of triangles sharing an edge (smaller number first), and whether their windings disagree there."""
    start, end = triangles.ravel(), np.roll(triangles, -1, axis=1).ravel()
    low, high = np.minimum(start, end), np.maximum(start, end)
    order = np.lexsort((np.arange(len(start)), high, low))
    twin = np.flatnonzero((low[order[1:]] == low[order[:-1]]) & (high[order[1:]] == high[order[:-1]]))
    one, two = order[twin], order[twin + 1]
    return one // 3, two // 3, start[one] == start[two]


def coincident(positions: np.ndarray) -> np.ndarray:
    """Returns (pairs, 2): each vertex with another one within the tolerance, smaller number first."""
    distinct, first, inverse = np.unique(positions + 0.0, axis=0, return_index=True, return_inverse=True)
    # Equal points are paired here; the tree would visit all of them for each.
    equal = np.stack([first[inverse.ravel()], np.arange(len(positions))], axis=1)
    pairs = [equal[equal[:, 0] != equal[:, 1]]]
    if len(distinct) > 1:
        tolerance = COINCIDENT * diagonal(positions)
        distance, neighbor = cKDTree(distinct).query(
            distinct, k=2, distance_upper_bound=np.nextafter(tolerance, np.inf)
        )
        near = distance[:, 1] <= tolerance
        pairs.append(np.stack([first[near], first[neighbor[near, 1]]], axis=1))
    return np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)


def diagonal(positions: np.ndarray) -> float:
    return float(np.linalg.norm(positions.max(axis=0) - positions.min(axis=0)))
