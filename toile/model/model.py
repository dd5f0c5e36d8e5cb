"""Constants of a run: topology, masses, uv, and the particles of each cloth.

These are host arrays, made once. Code that launches kernels copies what they need to the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toile.model.mesh import Mesh, edge_keys, face_sides, find_edges

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ClothPart:
    """One cloth inside the arrays of the model."""

    name: str
    mesh: Mesh
    fabric: Any  # scene.schema.Fabric
    rest_stretch: tuple  # of scene.schema.RestStretch
    particles: slice
    triangles: slice
    hinges: slice
    thickness: float | None  # [m]  distance kept from other cloth; None means the default


@dataclass(frozen=True)
class Model:
    """All cloths of a scene as one set of particles."""

    parts: tuple[ClothPart, ...]
    masses: np.ndarray  # [kg]  one third of each triangle to each of its corners ([BW98] sec. 2.2)
    triangles: np.ndarray  # (triangles, 3) int32
    areas: np.ndarray  # [m^2]  in uv
    uv: np.ndarray  # [m]  (triangles, 3, 2)
    uv_weights: np.ndarray  # [1/m]  (triangles, 2, 3): w_u = sum_a uv_weights[0, a] x_a, w_v likewise ([BW98] eq. (9))
    edges: np.ndarray  # (edges, 2) int32
    edge_triangles: np.ndarray  # (triangles, 3) int32: edge from corner 0 to 1, 1 to 2, 2 to 0
    hinges: np.ndarray  # (hinges, 4) int32: flap, flap, edge start, edge end
    hinge_triangles: np.ndarray  # (hinges, 2) int32
    hinge_uv: np.ndarray  # [m]  (hinges, 2): the shared edge as a vector in uv

    @property
    def particle_count(self) -> int:
        return len(self.masses)

    @property
    def triangle_count(self) -> int:
        return len(self.triangles)

    @property
    def start(self) -> np.ndarray:
        """Positions of the particles in the meshes [m]."""
        return np.concatenate([np.zeros((0, 3)), *(part.mesh.positions for part in self.parts)])

    def part_named(self, name: str | None) -> ClothPart:
        """Returns the cloth with this name; None means the only one."""
        if name is None:
            return self.parts[0]
        return next(part for part in self.parts if part.name == name)

    def thicknesses(self, default: float) -> np.ndarray:
        """Returns the thickness of the cloth at each particle [m]: its own, or the default."""
        found = np.full(self.particle_count, default)
        for part in self.parts:
            if part.thickness is not None:
                found[part.particles] = part.thickness
        return found

    def rest_stretch_changes(self, part: int | None) -> bool:
        """Returns whether b_u or b_v of a cloth changes in time."""
        return any(not isinstance(keys, float) for r in self.parts[part or 0].rest_stretch for keys in (r.warp, r.weft))

    def rest_stretch(self, part: int | None, axis: int, time: float) -> np.ndarray:
        """Returns b_u (axis 0) or b_v (axis 1) of each triangle of a cloth; in a region if all its corners are."""
        cloth = self.parts[part or 0]
        b = np.ones(cloth.triangles.stop - cloth.triangles.start)
        for entry in cloth.rest_stretch:
            inside = np.zeros(cloth.mesh.vertex_count, bool)
            inside[slice(None) if entry.region is None else cloth.mesh.regions[entry.region]] = True
            keys = (entry.warp, entry.weft)[axis]
            value = keys if isinstance(keys, float) else np.interp(time, *np.transpose(keys))
            b[inside[cloth.mesh.triangles].all(axis=1)] = value
        return b

    def largest_rest_stretch(self) -> float:
        """Returns the largest b of any cloth at any time; 1 if no region has one."""
        entries = [keys for part in self.parts for entry in part.rest_stretch for keys in (entry.warp, entry.weft)]
        values = [[keys] if isinstance(keys, float) else [value for _, value in keys] for keys in entries]
        return max([1.0, *(value for each in values for value in each)])

    def extensions(self) -> np.ndarray:
        """Returns the strain limits of every triangle, warp and weft interleaved; infinite where there is no limit."""
        found = np.full((self.triangle_count, 2), np.inf)
        for part in self.parts:
            for axis, longest in enumerate((part.fabric.extension_warp, part.fabric.extension_weft)):
                if longest is not None:
                    found[part.triangles, axis] = longest
        return found.ravel()

    def edge_lengths(self, time: float) -> np.ndarray:
        """Returns the rest length of each edge [m]: in uv, stretched by b_u and b_v; the mean over its triangles."""
        parts = range(len(self.parts))
        b = [np.concatenate([np.ones(0), *(self.rest_stretch(p, axis, time) for p in parts)]) for axis in (0, 1)]
        sides = (np.roll(self.uv, -1, axis=1) - self.uv) * np.stack(b, axis=1)[:, None]
        where, count = self.edge_triangles.ravel(), len(self.edges)
        return np.bincount(where, np.linalg.norm(sides, axis=2).ravel(), count) / np.bincount(where, minlength=count)


def build_model(
    names: Sequence[str],
    meshes: Sequence[Mesh],
    fabrics: Sequence[Any],
    stretches: Sequence[tuple],
    thicknesses: Sequence[float | None] | None = None,
) -> Model:
    """Builds one model from several cloths."""
    thicknesses = [None] * len(meshes) if thicknesses is None else thicknesses
    parts, triangles, hinges, hinge_triangles, edges, hinge_uv, edge_triangles = [], [], [], [], [], [], []
    first_particle = first_triangle = first_hinge = first_edge = 0
    for name, mesh, fabric, stretch, thickness in zip(names, meshes, fabrics, stretches, thicknesses, strict=True):
        topology = find_edges(mesh.triangles)
        parts.append(
            ClothPart(
                name,
                mesh,
                fabric,
                stretch,
                slice(first_particle, first_particle + mesh.vertex_count),
                slice(first_triangle, first_triangle + mesh.triangle_count),
                slice(first_hinge, first_hinge + len(topology.hinges)),
                thickness,
            )
        )
        triangles.append(mesh.triangles + first_particle)
        hinges.append(topology.hinges + first_particle)
        hinge_triangles.append(topology.hinge_triangles + first_triangle)
        hinge_uv.append(_hinge_uv(mesh, topology.hinge_triangles, topology.hinge_edges))
        edges.append(topology.edges + first_particle)
        edge_triangles.append(_edge_triangles(mesh, topology.edges) + first_edge)
        first_particle += mesh.vertex_count
        first_triangle += mesh.triangle_count
        first_hinge += len(topology.hinges)
        first_edge += len(topology.edges)

    def joined(arrays: list[np.ndarray], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.concatenate(arrays).astype(dtype) if arrays else np.zeros((0, *shape), dtype)

    faces = joined(triangles, (3,), np.int32)
    uv = joined([mesh.uv for mesh in meshes], (3, 2), float)
    areas = 0.5 * np.abs(_cross(uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]))
    density = np.repeat([fabric.density for fabric in fabrics], [mesh.triangle_count for mesh in meshes])
    masses = np.bincount(faces.ravel(), np.repeat(density * areas / 3.0, 3), first_particle)
    return Model(
        tuple(parts),
        masses,
        faces,
        areas,
        uv,
        _uv_weights(uv),
        joined(edges, (2,), np.int32),
        joined(edge_triangles, (3,), np.int32),
        joined(hinges, (4,), np.int32),
        joined(hinge_triangles, (2,), np.int32),
        joined(hinge_uv, (2,), float),
    )


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _uv_weights(uv: np.ndarray) -> np.ndarray:
    """Returns the inverse of the uv edge matrix ([BW98] eq. (9)) as weights of the three corners."""
    e1, e2 = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    determinant = _cross(e1, e2)
    w_u = np.stack([e2[:, 1], -e1[:, 1]], axis=1) / determinant[:, None]
    w_v = np.stack([-e2[:, 0], e1[:, 0]], axis=1) / determinant[:, None]
    both = np.stack([w_u, w_v], axis=1)  # (triangles, 2, corners 1 and 2)
    return np.concatenate([-both.sum(axis=2, keepdims=True), both], axis=2)


def _hinge_uv(mesh: Mesh, hinge_triangles: np.ndarray, hinge_edges: np.ndarray) -> np.ndarray:
    """Returns the shared edge in uv. On a seam it has one image per triangle: length and direction are averaged."""
    rows = hinge_triangles[:, :, None]
    corners = mesh.uv[rows, hinge_edges]  # (hinges, 2 triangles, 2 ends, 2)
    vectors = corners[:, :, 1] - corners[:, :, 0]
    lengths = np.linalg.norm(vectors, axis=2)
    # Panels may have any angle in the plane, so only |du| and |dv| can be compared across a seam.
    mean = np.abs(vectors).mean(axis=1)
    return mean * (lengths.mean(axis=1) / np.linalg.norm(mean, axis=1))[:, None]


def _edge_triangles(mesh: Mesh, edges: np.ndarray) -> np.ndarray:
    """Returns the edge of each side of the triangles (triangles, 3); `edges` are sorted."""
    sides = edge_keys(face_sides(mesh.triangles), mesh.vertex_count)
    return np.searchsorted(edge_keys(edges, mesh.vertex_count), sides).astype(np.int32).reshape(-1, 3)
