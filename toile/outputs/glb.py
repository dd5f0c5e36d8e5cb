"""Binary glTF NAME.glb: one file that web pages and viewers play, with the whole run as morph targets.

    x_n = x_0 + d_n      positions at frame n: those of the start plus the target of that frame with weight 1

The weights are keys of one animation at the times of the frames, with linear interpolation between them, so at those
times a player shows exactly the frames. Cloths and solids are a node each; solids that stand still have no targets.
Units are meters, y is up and v points down in textures, as glTF requires. Where uv is discontinuous, as on a seam,
copies of vertices follow those of the cloth; solids have copies at sharp edges. Materials are the fabrics, with their
properties as `extras`.

Source      glTF 2.0 specification (Khronos), secs. 3.7.2.2 (morph targets), 3.11 (animations)
Symbols     x_0  positions at the first frame [m]     d_n  float32 difference of frame n to it [m]
Deviations  none. x_0 + d_n differs from the frame by up to 2^-24 |d_n|, because float32 rounds the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toile.errors import ToileError
from toile.model.frame import Frame, SolidSurface, Surface
from toile.outputs._atomic import Draft, Spool
from toile.outputs._gltf import FLOAT, INDICES, VERTICES, Document, Json, bounds
from toile.outputs._materials import Material, materials
from toile.outputs._names import file_name
from toile.outputs._uv_seams import split_by_uv
from toile.outputs._y_up import y_up
from toile.outputs.base import Output, Writer
from toile.plugins import quantity
from toile.render.normals import VertexNormals
from toile.render.palette import ROUGHNESS
from toile.render.solid_mesh import split_sharp


class Glb(Output):
    """For web pages, viewers and game engines."""

    normals: bool = quantity(True, doc="also write normals, for smooth shading; the file is twice as large")

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return GlbWriter(folder / f"{file_name(name)}.glb", name, surface, self.normals)


class GlbWriter(Writer):
    """Stores targets in an unnamed file until all are known: the description of the file comes first in it."""

    def __init__(self, path: Path, name: str, surface: Surface, normals: bool):
        self.name, self.surface = name, surface
        self.materials, numbers = materials(surface)
        cloths = [_cloth(surface, i, numbers[i], normals) for i in range(len(surface.parts))]
        solids = [_solid(solid, numbers[-1], normals) for solid in surface.solids]
        self.shapes = [*cloths, *solids]
        self._begin([*(surface.rest[part.vertices] for part in surface.parts), *(s.rest for s in surface.solids)])
        self.moving = [shape for shape in self.shapes if shape.moves]
        self.times: list[float] = []
        self.draft = Draft(path)
        self.targets = Spool(path, (sum(shape.rows for shape in self.moving), 3), np.float32)

    def write(self, frame: Frame) -> None:
        cloths = (frame.positions[part.vertices] for part in self.surface.parts)
        points = [*cloths, *self.surface.solids_at(frame)]
        if not self.times:
            self._begin(points)
        else:
            moved = [shape.target(own) for shape, own in zip(self.shapes, points, strict=True) if shape.moves]
            self.targets.append(np.concatenate([np.zeros((0, 3), np.float32), *moved]))
        self.times.append(frame.time)

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing(), self.draft.part.open("wb") as file:
                file.writelines(self._pieces())
        finally:
            self.targets.close()
        return [self.draft.path]

    def discard(self) -> None:
        self.targets.close()
        self.draft.discard()

    def _begin(self, points: list[np.ndarray]) -> None:
        for shape, own in zip(self.shapes, points, strict=True):
            shape.begin(own)

    def _pieces(self) -> Iterator[bytes | memoryview]:
        document = Document(self.name)
        for material in self.materials:
            document.add("materials", _material(material))
        meshes = [_add_mesh(document, shape) for shape in self.shapes]
        if self.targets.count and self.moving:
            self._add_run(document, [meshes[i] for i, shape in enumerate(self.shapes) if shape.moves])
        try:
            yield document.head()
        except OverflowError as error:
            raise ToileError(
                f"{self.draft.path}: {error.args[0] / 2**30:.1f} GiB, and a .glb holds at most 4. "
                "Leave out normals, or choose another format such as usd."
            ) from error
        yield from document.data
        yield from (array.data for array in self.targets.arrays())

    def _add_run(self, document: Document, meshes: list[Json]) -> None:
        """Adds the targets, and their weights at every frame: all 0 at the start, and then one target at a time."""
        count = self.targets.count
        times = np.array(self.times) - self.times[0]
        sampler = {
            "input": document.add_array(times.astype(np.float32), box=True),
            "output": document.add_array(np.eye(count + 1, count, -1, dtype=np.float32).reshape(-1)),
            "interpolation": "LINEAR",
        }
        channels = [{"sampler": 0, "target": {"node": mesh["node"], "path": "weights"}} for mesh in meshes]
        document.add("animations", {"name": "run", "samplers": [sampler], "channels": channels})
        size = 12 * self.targets.shape[0]
        view = document.reserve(size * count, VERTICES, byteStride=12)
        offset = 0
        for shape, mesh in zip(self.moving, meshes, strict=True):
            starts = range(offset, offset + size * count, size)
            targets = [_add_target(document, shape, view, k, at) for k, at in enumerate(starts)]
            document.lists["meshes"][mesh["mesh"]] |= {
                "weights": [0.0] * count,
                "extras": {"targetNames": [f"frame {k}" for k in range(1, count + 1)]},
            }
            document.lists["meshes"][mesh["mesh"]]["primitives"][0]["targets"] = targets
            offset += 12 * shape.rows


@dataclass
class MorphShape:
    """One cloth or solid with the vertices of glTF, each of which has one uv and one normal."""

    name: str
    material: int
    moves: bool
    origin: np.ndarray  # the vertex of the run that each is a copy of
    triangles: np.ndarray
    uv: np.ndarray | None = None
    normals: Callable[[np.ndarray], np.ndarray] | None = None  # of these vertices, at given positions of the run's
    start: np.ndarray = field(init=False)  # positions at the first frame, then normals
    boxes: list[Json] = field(default_factory=list)  # bounds of each target

    @property
    def rows(self) -> int:
        return len(self.origin) * (1 if self.normals is None else 2)

    def begin(self, points: np.ndarray) -> None:
        self.start = self._drawn(points)

    def target(self, points: np.ndarray) -> np.ndarray:
        difference = self._drawn(points) - self.start
        self.boxes.append(bounds(difference[: len(self.origin)]))
        return difference

    def _drawn(self, points: np.ndarray) -> np.ndarray:
        drawn = y_up(points[self.origin])
        return drawn if self.normals is None else np.concatenate([drawn, y_up(self.normals(points))])


def _cloth(surface: Surface, number: int, material: int, smooth: bool) -> MorphShape:
    part = surface.parts[number]
    triangles = surface.triangles[part.triangles] - part.vertices.start
    count = part.vertices.stop - part.vertices.start
    split = split_by_uv(triangles, surface.uv[part.triangles], count)
    # In glTF the origin of a texture is its upper left corner.
    uv = np.column_stack([split.uv[:, 0], np.float32(1.0) - split.uv[:, 1]])
    normals = VertexNormals(triangles, count) if smooth else None
    return MorphShape(
        part.name, material, True, split.origin, split.triangles, uv,
        None if normals is None else lambda points: normals.at(points)[split.origin],  # smooth across seams
    )  # fmt: skip


def _solid(solid: SolidSurface, material: int, smooth: bool) -> MorphShape:
    if not smooth:
        return MorphShape(solid.name, material, solid.moves, np.arange(len(solid.rest)), solid.triangles)
    origin, triangles = split_sharp(solid.rest, solid.triangles)
    normals = VertexNormals(triangles, len(origin))
    return MorphShape(
        solid.name, material, solid.moves, origin, triangles, normals=lambda points: normals.at(points[origin])
    )


def _material(about: Material) -> Json:
    surface = {"baseColorFactor": [*about.color, 1.0], "metallicFactor": 0.0, "roughnessFactor": ROUGHNESS}
    properties = {key: {"value": value, "unit": unit} for key, (value, unit) in about.properties.items()}
    material = {"name": about.name, "pbrMetallicRoughness": surface, "doubleSided": True}
    return material | ({"extras": properties} if properties else {})


def _add_mesh(document: Document, shape: MorphShape) -> Json:
    """Adds a shape and returns the numbers of its mesh and of its node."""
    count = len(shape.origin)
    attributes = {"POSITION": document.add_array(shape.start[:count], VERTICES, box=True)}
    if shape.normals is not None:
        attributes["NORMAL"] = document.add_array(shape.start[count:], VERTICES)
    if shape.uv is not None:
        attributes["TEXCOORD_0"] = document.add_array(shape.uv, VERTICES)
    indices = document.add_array(shape.triangles.astype(np.uint32).ravel(), INDICES)
    primitive = {"attributes": attributes, "indices": indices, "material": shape.material}
    mesh = document.add("meshes", {"name": shape.name, "primitives": [primitive]})
    return {"mesh": mesh, "node": document.add("nodes", {"name": shape.name, "mesh": mesh})}


def _add_target(document: Document, shape: MorphShape, view: int, number: int, at: int) -> Json:
    """Adds the accessors of one target, whose bytes start at `at` in their view, and returns its entry."""
    count = len(shape.origin)
    entry = {"bufferView": view, "byteOffset": at, "componentType": FLOAT, "count": count, "type": "VEC3"}
    target = {"POSITION": document.add("accessors", entry | shape.boxes[number])}
    if shape.normals is not None:
        target["NORMAL"] = document.add("accessors", entry | {"byteOffset": at + 12 * count})
    return target
