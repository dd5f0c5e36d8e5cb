"""A triangle mesh as a solid, moved rigidly by keyframes or deformed by a vertex sequence.

    distance = sign |p - c|,    c the closest point of the surface

On a mesh that deforms, a material point has coordinates relative to its triangle:

    q = a + s (b - a) + t (c - a) + height n

Symbols     a, b, c, n  corners and unit normal of the triangle     s, t, height  material coordinates
Deviations  none
"""

from pathlib import Path
from typing import ClassVar

import numpy as np
import warp as wp
from pydantic import PrivateAttr

from toile.colliders.base import Collider, Functions, Solid, sweep_by_distance
from toile.math.solid import MaterialPoint
from toile.math.surface import ON_SURFACE, DistanceSurface, closest_on_surface, corner, foot_on
from toile.math.triangle import INSIDE
from toile.math.types import numpy_real, real, vec3
from toile.model.sequence_settings import SequenceSettings
from toile.model.solid_mesh import SolidMesh, read_solid
from toile.model.vertex_sequence import VertexSequence
from toile.plugins import quantity

# Error of the closest point in Warp's search, in single precision, as a fraction of the mesh's size. On long thin
# triangles it would be larger; those are tested one by one.
MISPLACED = 3e-5
SINGLE_ROUNDING = 6e-8  # relative error of one operation in single precision


@wp.func
def attach(shape: DistanceSurface, p: vec3, face: wp.int32) -> vec3:
    """Returns s, t and height; the point itself if the material does not move in its frame."""
    if shape.deforms == 0:
        return p
    a = corner(shape, face, 0)
    ab, ac = corner(shape, face, 1) - a, corner(shape, face, 2) - a
    arm = p - shape.center - a
    n = wp.cross(ab, ac)
    squared = wp.dot(n, n)
    s, t = wp.dot(wp.cross(arm, ac), n) / squared, wp.dot(wp.cross(ab, arm), n) / squared
    return vec3(s, t, wp.dot(arm, n) / wp.sqrt(squared))


@wp.func
def material(shape: DistanceSurface, anchor: vec3, face: wp.int32, normal: vec3, h: real) -> MaterialPoint:
    found = MaterialPoint()
    found.point = anchor
    found.normal = normal
    if shape.deforms == 0:
        return found
    i, j, k = shape.corners[3 * face], shape.corners[3 * face + 1], shape.corners[3 * face + 2]
    a, ab, ac = shape.x[i], shape.x[j] - shape.x[i], shape.x[k] - shape.x[i]
    v, v_ab, v_ac = shape.v[i], shape.v[j] - shape.v[i], shape.v[k] - shape.v[i]
    n = wp.cross(ab, ac)
    length = wp.length(n)
    n /= length
    dn_dt = (wp.cross(v_ab, ac) + wp.cross(ab, v_ac)) / length
    dn_dt -= wp.dot(dn_dt, n) * n
    q = a + anchor[0] * ab + anchor[1] * ac + anchor[2] * n
    found.point = q + shape.center
    found.velocity = v + anchor[0] * v_ab + anchor[1] * v_ac + anchor[2] * dn_dt
    # As in `closest`: beside an edge or a vertex the normal points away from there, not along the triangle's.
    found.normal = n
    foot = foot_on(shape, q, face)
    if foot.part != INSIDE and foot.squared > ON_SURFACE * ON_SURFACE * wp.dot(q, q):
        found.normal = foot.arm / wp.sqrt(foot.squared)
        if wp.dot(found.normal, normal) < real(0.0):
            found.normal = -found.normal
    return found


FUNCTIONS = Functions(
    DistanceSurface, closest_on_surface, attach, material, sweep_by_distance(DistanceSurface, closest_on_surface)
)


class Mesh(Collider):
    """Triangles, quads or larger faces from a file; a closed surface is a solid, an open one is thin."""

    file: str = quantity(doc="path under the scene's folder: .obj, .ply, .usd, .usda, .usdc or .usdz", min_length=1)
    part: str | None = quantity(None, doc="only this group, object or prim of the file; by default all of it")
    scale: float = quantity(1.0, doc="meters per unit of the file and its sequence (0.01 for centimeters)", gt=0)
    flip: bool = quantity(False, doc="flip all triangles, for a mesh that is inside out")
    drop_degenerate: bool = quantity(False, doc="remove triangles without area")
    sequence: SequenceSettings | None = quantity(None, doc="vertex sequence that deforms it")

    _read: tuple[SolidMesh, VertexSequence | None] | None = PrivateAttr(None)

    def check(self, folder: Path, allow_outside: bool) -> None:
        self.read(folder, allow_outside)

    def read(self, folder: Path, allow_outside: bool) -> tuple[SolidMesh, VertexSequence | None]:
        """Returns the surface and its frames; read only once, because a scene is checked before it is built."""
        if self._read is None:
            mesh = read_solid(
                folder, self.file, allow_outside,
                part=self.part, scale=self.scale, flip=self.flip, drop_degenerate=self.drop_degenerate,
            )  # fmt: skip
            frames = None if self.sequence is None else self.sequence.read(mesh, folder, allow_outside, self.scale)
            self._read = mesh, frames
        return self._read

    def mesh(self, folder: Path, allow_outside: bool) -> SolidMesh:
        return self.read(folder, allow_outside)[0]

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        return MeshSolid(self, *self.read(folder, allow_outside), device)


class MeshSolid(Solid):
    """A mesh on a device. Its BVHs are built once, and refitted to moving vertices."""

    is_mesh: ClassVar[bool] = True

    def __init__(self, settings: Collider, mesh: SolidMesh, sequence: VertexSequence | None, device: str):
        super().__init__(settings, FUNCTIONS, DistanceSurface(), (mesh.positions, mesh.triangles))
        self.sequence = sequence
        self.warnings = (*mesh.warnings, *(() if sequence is None else sequence.warnings))
        x = mesh.positions if sequence is None else sequence.at(0.0)[0]
        self._time: float | None = None  # time of the vertices on the device, if they move
        self._center = 0.5 * (x.min(axis=0) + x.max(axis=0))
        arms = x - self._center
        at = mesh.representatives[mesh.triangles]
        sides = np.sort(np.stack([at, np.roll(at, -1, axis=1)], axis=2), axis=2)
        shape = self.shape
        shape.center, shape.deforms = vec3(*self._center), int(sequence is not None)
        shape.x = wp.array(arms, dtype=vec3, device=device)
        shape.v = wp.zeros_like(shape.x)
        shape.corners = wp.array(mesh.triangles.ravel(), dtype=wp.int32, device=device)
        shape.around_edge = wp.array(cyclic_next(sides.reshape(-1, 2)), dtype=wp.int32, device=device)
        shape.around_vertex = wp.array(cyclic_next(at.reshape(-1, 1)), dtype=wp.int32, device=device)
        self._tree = wp.Mesh(wp.array(arms, dtype=wp.vec3f, device=device), shape.corners)
        shape.tree = self._tree.id
        thin = thin_triangles(x, mesh.triangles)
        shape.thin = wp.array(thin, dtype=wp.int32, device=device)
        self._thin = mesh.triangles[thin]
        if len(thin):
            boxes = [wp.array(end, dtype=wp.vec3f, device=device) for end in self._thin_boxes(arms)]
            self._thin_tree = wp.Bvh(*boxes)
            shape.thin_boxes = self._thin_tree.id

    @property
    def moves(self) -> bool:
        return super().moves or self.sequence is not None

    def deform(self, begin: float, end: float) -> float:
        if self.sequence is None:
            return 0.0
        before, _ = self.sequence.at(begin)
        positions, velocities = self.sequence.at(end)
        if end != self._time:
            self._fit(positions - self._center, velocities)
            self._time = end
        return float(np.sqrt(np.max(np.sum((positions - before) ** 2, axis=1))))

    def content(self) -> list[np.ndarray]:
        return [*super().content(), *([] if self.sequence is None else [self.sequence.positions])]

    def vertices(self, time: float) -> np.ndarray:
        if self.sequence is None:
            return super().vertices(time)
        return self.placed(self.sequence.at(time)[0], time)

    def _fit(self, arms: np.ndarray, velocities: np.ndarray) -> None:
        self.shape.x.assign(arms.astype(numpy_real))
        self.shape.v.assign(velocities.astype(numpy_real))
        self._tree.points.assign(arms.astype(np.float32))
        self._tree.refit()
        if len(self._thin):
            lowers, uppers = self._thin_boxes(arms)
            self._thin_tree.lowers.assign(lowers.astype(np.float32))
            self._thin_tree.uppers.assign(uppers.astype(np.float32))
            self._thin_tree.refit()

    def _thin_boxes(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return arms[self._thin].min(axis=1), arms[self._thin].max(axis=1)


def thin_triangles(positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Returns triangles whose closest point Warp may misplace too far. It divides by the square of the area."""
    x = positions[triangles]
    longest = np.linalg.norm(np.roll(x, -1, axis=1) - x, axis=2).max(axis=1)
    height = np.linalg.norm(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]), axis=1) / longest
    size = np.linalg.norm(np.ptp(positions, axis=0))
    return np.flatnonzero(4.0 * SINGLE_ROUNDING * longest**3 > MISPLACED * size * height**2).astype(np.int32)


def cyclic_next(keys: np.ndarray) -> np.ndarray:
    """Returns for every row the next one with the same key, cyclically: (rows,) int32."""
    _, key, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(key.ravel(), kind="stable")
    end = np.cumsum(count)
    following = np.arange(1, len(keys) + 1)
    following[end - 1] = end - count
    ring = np.empty(len(keys), np.int32)
    ring[order] = order[following]
    return ring
