"""Rest uv positions of the particles, and the connected uv chart of each.

Neighbors in one chart are close by construction, which contact must not treat as an overlap. Panels of one mesh may
overlap in uv, so charts are found by connectivity and not by panel.
"""

import numpy as np
from scipy import sparse

from toile.model.model import Model


def rest_uv_positions(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The rest uv position of each particle [m], and its connected uv chart; -1 on seams between charts."""
    n = model.particle_count
    particles = model.triangles.ravel()
    corners = np.column_stack([particles, model.uv.reshape(-1, 2)])
    points, index = np.unique(corners, axis=0, return_inverse=True)
    faces = index.reshape(-1, 3)
    links = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    graph = sparse.coo_matrix((np.ones(len(links)), links.T), (len(points), len(points)))
    piece = sparse.csgraph.connected_components(graph, directed=False)[1]
    owner = points[:, 0].astype(int)
    rest_uv, uv_chart = np.zeros((n, 3)), np.full(n, -1)
    places = np.bincount(owner, minlength=n)
    for axis in (0, 1):
        rest_uv[:, axis] = np.bincount(owner, points[:, 1 + axis], n) / np.maximum(places, 1)
    uv_chart[owner] = piece
    uv_chart[places != 1] = -1
    return rest_uv, uv_chart
