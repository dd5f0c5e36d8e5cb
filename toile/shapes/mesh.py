"""A cloth read from a file: OBJ, PLY or USD, with or without uv as its rest shape.

uv are rest lengths in meters ([BW98] sec. 2), which texture coordinates seldom are; the key `uv` selects their meaning:

    file     as they are, in the unit of the file: cut panels, in any start shape
    scaled   scaled uniformly so that the area in uv is the area in space
    rest     the lengths in space, each triangle laid flat; its u direction is that of the file's uv
             if there are any, and otherwise the projection of one horizontal axis onto the triangle

Laid triangles are placed by their center in the plane of the whole cloth, so that a flat sheet gets its natural uv.
A file without uv is read as `rest`, with a warning.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from toile.model import mesh as model
from toile.model.mesh_check import require_memory_for
from toile.model.mesh_files import PolygonMesh, read
from toile.model.mesh_files.parts import select_part
from toile.model.mesh_files.scene_path import resolve_scene_path
from toile.model.mesh_files.triangulate import triangulate
from toile.model.mesh_repair import drop_degenerate, weld
from toile.plugins import quantity
from toile.shapes.base import Shape


class Mesh(Shape):
    """Triangles, quads or larger faces from a file; its groups, objects or prims become regions."""

    file_field: ClassVar[str | None] = "file"

    file: str = quantity(doc="path under the scene's folder: .obj, .ply, .usd, .usda, .usdc or .usdz", min_length=1)
    part: str | None = quantity(None, doc="only this group, object or prim of the file; by default all of it")
    scale: float = quantity(1.0, doc="meters per unit of the file, for positions and uv (0.01 for centimeters)", gt=0)
    uv: Literal["file", "scaled", "rest"] = quantity("file", doc="rest shape: uv as lengths, uv scaled, or in space")
    weld: bool = quantity(False, doc="merge coincident vertices")
    drop_degenerate: bool = quantity(False, doc="remove triangles without area")

    def mesh(self, folder: Path, allow_outside: bool = False) -> model.Mesh:
        polygons = read(resolve_scene_path(folder, self.file, allow_outside))
        require_memory_for(len(polygons.positions))
        mesh = self._triangles(select_part(polygons, self.part))
        if self.weld:
            mesh = weld(mesh)
        return drop_degenerate(mesh) if self.drop_degenerate else mesh

    def _triangles(self, polygons: PolygonMesh) -> model.Mesh:
        corner, face = triangulate(polygons)
        warnings = list(polygons.warnings)
        larger = np.count_nonzero(polygons.sizes > 3)
        if larger:
            warnings.append(f"{larger} faces with more than 3 corners were cut into triangles.")
        positions = self.scale * polygons.positions
        triangles = polygons.corners[corner].astype(np.int32)
        regions = {
            name: np.unique(triangles[np.isin(face, faces)]).astype(np.int32) for name, faces in polygons.groups.items()
        }
        if polygons.uv is None or polygons.uv_corners is None:
            if self.uv != "rest":
                warnings.append("the file has no uv: lengths in space are used as rest lengths.")
            uv, plane = flatten_triangles(positions, triangles)
            return model.Mesh(positions, triangles, uv, regions, tuple(warnings), plane=plane)
        uv = self.scale * polygons.uv[polygons.uv_corners[corner]]
        mesh = model.Mesh(positions, triangles, uv, regions, tuple(warnings))
        if self.uv == "file":
            return mesh
        if self.uv == "rest":
            uv, _ = flatten_triangles(positions, triangles, uv)
            return replace(mesh, uv=uv, plane=mesh.vertex_uv())
        with np.errstate(all="ignore"):  # the mesh check reports values that are not finite
            area = np.sum(np.abs(mesh.uv_areas()))
            return replace(mesh, uv=uv * np.sqrt(_areas(positions[triangles]).sum() / area) if area > 0 else uv)


def flatten_triangles(
    positions: np.ndarray, triangles: np.ndarray, like: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns uv (triangles, 3, 2) that keep every length in space, and one uv (vertices, 2) for corners and sides.

    With `like` (triangles, 3, 2), u runs along the gradient of the u of `like`.
    """
    with np.errstate(all="ignore"):  # the mesh check reports degenerate or not finite triangles
        x = positions[triangles]
        normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
        across, up = _plane_axes(normals)
        center = np.stack([x.mean(axis=1) @ across, x.mean(axis=1) @ up], axis=1)
        normals = _unit(normals)
        along = np.broadcast_to(across, normals.shape) if like is None else _growth_of_u(x, like)
        u_axis = along - np.sum(along * normals, axis=1, keepdims=True) * normals
        # For triangles nearly perpendicular to the axis, use the other axis of the plane.
        steep = np.sum(u_axis**2, axis=1) < 1e-6 * np.sum(along**2, axis=1)
        fallback = up - np.sum(up * normals, axis=1, keepdims=True) * normals
        u_axis = _unit(np.where(steep[:, None], fallback, u_axis))
        v_axis = np.cross(normals, u_axis)
        arms = x - x.mean(axis=1, keepdims=True)
        uv = np.stack([np.einsum("tcd,td->tc", arms, u_axis), np.einsum("tcd,td->tc", arms, v_axis)], axis=2)
        uv = np.nan_to_num(uv + center[:, None], nan=0.0, posinf=0.0, neginf=0.0)  # the check reports positions, not uv
        # Left and right as seen by an observer for whom x grows to the right (y, on a sheet that faces x).
        leading = int(np.argmax(np.abs(across) > 0.1))
        plane = np.stack([positions @ across * np.sign(across[leading]), positions @ up], axis=1)
    return uv, plane


def _plane_axes(normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the axes (across, up) of the mean plane of the cloth, oriented like its triangles."""
    total = np.nan_to_num(normals).sum(axis=0)
    whole = np.sqrt(np.nan_to_num(normals**2).sum(axis=1)).sum()
    facing = total / np.linalg.norm(total) if np.linalg.norm(total) > 1e-3 * whole else np.array([0.0, 0.0, 1.0])
    # z is up on a hanging sheet; y on a lying one, as in the generated shapes.
    axis = np.array([0.0, 0.0, 1.0]) if abs(facing[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
    up = axis - (axis @ facing) * facing
    up /= np.linalg.norm(up)
    return np.cross(up, facing), up


def _growth_of_u(x: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """Returns the gradient of u over each triangle in space, up to a factor."""
    normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    edges = np.roll(x, -1, axis=1) - x  # edge c runs from corner c to c + 1; it lies opposite to corner c + 2
    opposite = np.roll(edges, -1, axis=1)
    return np.cross(normals[:, None], opposite * uv[:, :, :1]).sum(axis=1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))


def _areas(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.sqrt(np.sum(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]) ** 2, axis=1))
