"""Successively coarser regular grids in the plane of the cloth, and the weights of interpolation between them.

    x_i = sum_a P_ia x_a,    sum_a P_ia = 1

Every particle has uv, so that grids laid under the panels are coarse spaces for any triangulation. A grid covers the
rectangle around its panel from edge to edge; the weights are bilinear. A particle on a seam has several uv: each of
them has an equal share of its weights.

Source      Baraff & Witkin give every particle uv ([BW98] sec. 2.2, footnote 3 for several); the Galerkin products that
            go with interpolation by weights are those of any multigrid method
Symbols     P  weights of one level: rows are the finer, columns the coarser nodes
Deviations  A surface that cannot be laid flat has pieces in uv that are as small as its cells, and no grid fits under
            them. Its grids are three-dimensional, in world coordinates, and the weights are trilinear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components

# Ratio of the cell width of a grid to that of the next finer one, or of the mesh. With two, solves took a tenth fewer
# iterations and a sixth more time: there were more grids, and the first of them had twice the nodes.
COARSENING = 3
# The same ratio for the last grid, where that makes it small enough: one grid less saves a fifth of the time of a cycle
# on a GPU.
LAST_COARSENING = 3.5
# Panels of a cloth that have on average fewer corners than this are the cells of a curved surface, not pieces of cloth.
FEWEST_CORNERS = 30
# A grid with more nodes than this share of the next finer one is left out.
FEWER = 0.7
# Maximum number of nodes of the coarsest grid: its dense inverse takes less time than the other products of an update,
# from 51 x 51 particles on.
COARSEST = 64


@dataclass(frozen=True)
class Sites:
    """Positions of particles in the plane of their panel or in 3-d. A particle on a seam has several sites."""

    particles: np.ndarray  # (sites,) int
    panels: np.ndarray  # (sites,) int: pieces that are connected in uv, or in 3-d
    at: np.ndarray  # [m]  (sites, 3): u, v, 0 or x, y, z
    spacing: float  # [m]  approximate distance of neighbors in the mesh


def find_sites(triangles: np.ndarray, uv: np.ndarray, points: np.ndarray) -> Sites:
    """Finds the sites from the corners of triangles; `points` are the positions of the particles in 3-d."""
    corners = np.column_stack([triangles.ravel().astype(float), uv.reshape(-1, 2)])
    order = np.lexsort(corners.T[::-1])
    new = np.ones(len(order), bool)
    new[1:] = (corners[order[1:]] != corners[order[:-1]]).any(axis=1)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    found = corners[order[new]]
    particles, panels = found[:, 0].astype(np.int64), _pieces(number.reshape(-1, 3), len(found))
    e1, e2 = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    area = 0.5 * np.abs(e1[:, 0] * e2[:, 1] - e1[:, 1] * e2[:, 0]).sum()
    spacing = float(np.sqrt(area / max(len(points), 1)))

    cloth = _pieces(triangles, len(points))
    panel_count, cloth_count = panels.max(initial=-1) + 1, cloth.max(initial=-1) + 1
    of_panel = np.zeros(panel_count, np.int64)
    of_panel[panels] = cloth[particles]
    corner_counts = np.bincount(cloth[particles], minlength=cloth_count)
    is_flat = corner_counts >= FEWEST_CORNERS * np.bincount(of_panel, minlength=cloth_count)
    flat, curved = is_flat[cloth[particles]], np.flatnonzero(~is_flat[cloth])
    laid = np.column_stack([found[flat, 1:], np.zeros(np.count_nonzero(flat))])
    every = np.concatenate([panels[flat], panel_count + cloth[curved]])
    return Sites(
        np.concatenate([particles[flat], curved]),
        np.unique(every, return_inverse=True)[1].astype(np.int64),
        np.concatenate([laid, points[curved]]),
        spacing,
    )


def _pieces(triangles: np.ndarray, n: int) -> np.ndarray:
    """Returns the connected component of the triangles to which each of n corners belongs."""
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]]])
    graph = sparse.coo_array((np.ones(len(ends)), ends.T), (n, n))
    found: np.ndarray = connected_components(graph, directed=False)[1].astype(np.int64)
    return found


def interpolations(sites: Sites, n: int) -> list[sparse.csr_array]:
    """Returns P of every level, from the n particles to the coarsest grid."""
    count = int(sites.panels.max(initial=-1)) + 1
    d = sites.at.shape[1]
    low, high = np.full((count, d), np.inf), np.full((count, d), -np.inf)
    np.minimum.at(low, sites.panels, sites.at)
    np.maximum.at(high, sites.panels, sites.at)
    cells = np.maximum(1, np.rint((high - low) / (COARSENING * sites.spacing))).astype(np.int64)
    cells[high - low < 0.5 * sites.spacing] = 0  # the panel is flat along this axis
    width = np.where(high > low, high - low, 1.0)
    share = 1.0 / np.bincount(sites.particles, minlength=n)[sites.particles]
    average = sparse.csr_array((share, (sites.particles, np.arange(len(share)))), shape=(n, len(share)))
    panels, at = sites.panels, (sites.at - low[sites.panels]) / width[sites.panels]  # from 0 to 1
    found: list[sparse.csr_array] = []
    nodes = n
    while nodes > COARSEST:
        weights, node_panels, node_at = _onto_grid(panels, at, cells)
        if weights.shape[1] <= FEWER * nodes:
            found.append(weights if found else average @ weights)
            panels, at, nodes = node_panels, node_at, weights.shape[1]
        elif not cells.any():
            break
        cells = _coarser(cells)
    return found


def _coarser(cells: np.ndarray) -> np.ndarray:
    """Returns the number of cells of the next grid, along each axis of each panel."""
    if not (cells > 1).any():
        return np.zeros_like(cells)
    usual, last = (np.ceil(cells / by).astype(np.int64) for by in (COARSENING, LAST_COARSENING))
    usual_nodes, last_nodes = (np.prod(grid + 1, axis=1).sum() for grid in (usual, last))
    return last if last_nodes <= COARSEST < usual_nodes else usual


def _onto_grid(
    panels: np.ndarray, at: np.ndarray, cells: np.ndarray
) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """Returns the weights of points (0 to 1 in their panel) on the nodes of their panel's grid, and the panels and
    positions of these nodes. Only nodes that have a weight are kept.
    """
    m, d = cells[panels], at.shape[1]
    scaled = at * m
    cell = np.clip(np.floor(scaled).astype(np.int64), 0, np.maximum(m - 1, 0))
    part = scaled - cell
    sizes = np.prod(cells + 1, axis=1)
    first = np.cumsum(sizes) - sizes
    rows, keys, weights = [], [], []
    for corner in range(2**d):
        step = (corner >> np.arange(d)) & 1
        weight = np.prod(np.where(step, part, 1.0 - part), axis=1)
        node = cell + step
        key = np.zeros(len(at), np.int64)
        for axis in range(d):
            key = key * (m[:, axis] + 1) + node[:, axis]
        used = weight > 1e-9
        rows.append(np.flatnonzero(used))
        keys.append((key + first[panels])[used])
        weights.append(weight[used])
    kept, columns = np.unique(np.concatenate(keys), return_inverse=True)
    P = sparse.csr_array((np.concatenate(weights), (np.concatenate(rows), columns.ravel())), shape=(len(at), len(kept)))
    P.sort_indices()
    panel = np.searchsorted(first, kept, side="right") - 1
    index, node_at = kept - first[panel], np.zeros((len(kept), d))
    for axis in reversed(range(d)):
        side = cells[panel, axis] + 1
        node_at[:, axis] = index % side / np.maximum(side - 1, 1)
        index //= side
    return P, panel, node_at
