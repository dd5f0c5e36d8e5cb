"""Elements of a mesh that come into contact, and the four vertices of a pair of them.

    vertex-triangle    x0 | x1 x2 x3
    edge-edge          x0 x1 | x2 x3

For both kinds, vertex 0 belongs to the first element and vertex 3 to the second.

Source      [BFA02] sec. 6
Deviations  none
"""

import warp as wp

VERTEX_TRIANGLE, EDGE_EDGE = wp.constant(0), wp.constant(1)


@wp.struct
class MeshElements:
    """Vertices of each edge and triangle of a mesh."""

    edges: wp.array(dtype=wp.vec2i)
    triangles: wp.array(dtype=wp.vec3i)


def make_elements(edges: wp.array, triangles: wp.array) -> MeshElements:
    """The elements as kernels take them; to be made once, because packed launches are keyed by identity."""
    elements = MeshElements()
    elements.edges, elements.triangles = edges, triangles
    return elements


@wp.func
def pair_vertices(elements: MeshElements, kind: wp.int32, pair: wp.vec2i) -> wp.vec4i:
    """The vertices of a vertex and a triangle, or of two edges."""
    if kind == VERTEX_TRIANGLE:
        t = elements.triangles[pair[1]]
        return wp.vec4i(pair[0], t[0], t[1], t[2])
    e, f = elements.edges[pair[0]], elements.edges[pair[1]]
    return wp.vec4i(e[0], e[1], f[0], f[1])
