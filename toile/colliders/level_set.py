"""Level set: body parts as distance fields, combined by the minimum; queries are many times faster than on a mesh.

    phi(p) = min over parts of phi_k(R_k^T (p - o_k)),    normal = grad phi / |grad phi|

Each part has its field in its own frame, baked once, so a rigid part moves at no cost, with the velocity of its frame.
A part that deforms has a field per frame of its vertex sequence; between two of them,

    phi(p, t) = (1 - s) phi_0(p - u_0) + s phi_1(p - u_1)

where u_0 and u_1 are the displacements of the material at p relative to the two frames, taken from the closest point
of the surface, like the velocity.

A point is pinched if it is inside two parts, or within `pinch_margin` of two that face each other there.

Source      [BMF03] sec. 5.1
Symbols     phi  distance [m]     R_k, o_k  frame of part k     s  fraction of the time between two keyframes
Deviations  Parts stay separate and are combined in the query, not on one grid. Between keyframes the surface is
            advected and its distance is not only blended, so that a fast limb does not vanish half way.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

import numpy as np
import warp as wp
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from toile.colliders._level_set_bake import bake_mesh, bake_shape
from toile.colliders._level_set_cache import cached
from toile.colliders._level_set_field import (
    NO_GRADIENT,
    Baked,
    Field,
    FieldKeyframe,
    Reading,
    box_distance,
    on_device,
    read,
    read_vector,
)
from toile.colliders.base import Collider, Functions, Solid, sweep_by_distance
from toile.errors import InputError
from toile.math.solid import Closest, MaterialPoint
from toile.math.types import mat33, precision, real, vec3
from toile.model.solid_mesh import SolidMesh, require_closed
from toile.plugins import choice, quantity

if TYPE_CHECKING:
    from toile.model.vertex_sequence import VertexSequence

    Part = Collider
else:
    Part = Annotated[choice("colliders"), "colliders"]

# Default width of the fine grid on either side of the surface [cells].
BAND_CELLS = 5.0
# Fixed-point iterations for the material point in the pose of a field.
TRACES = wp.constant(2)
# Keyframes of a part in memory: the two around the current time, and those that a rejected step returns to.
MAX_KEYFRAMES = 4

BEYOND = wp.constant(real(1e30))


@wp.struct
class PartShape:
    """One part: its frame within the solid at both ends of the step, and its interpolation between two fields."""

    R_start: mat33
    R: mat33
    o: vec3
    v: vec3  # [m/s]
    w: vec3  # [rad/s]
    moves: wp.int32  # 1: v, w or velocities in its frame are not zero
    deforms: wp.int32
    share: real  # weight of the second field
    drift: real  # [m]  largest displacement of the surface since the pose of the first field
    next_drift: real  # [m]  the same for the second field


@wp.struct
class LevelSetShape:
    """Part k has the fields 2 k and 2 k + 1: those of the keyframes around the current time, or twice the same."""

    parts: wp.array(dtype=PartShape)
    fields: wp.array(dtype=Field)
    pinch_margin: real


@wp.func
def way_back(fields: wp.array(dtype=Field), f: wp.int32, p: vec3) -> vec3:
    """Returns the position of the material at p in the pose of the field."""
    y = vec3(p)
    for _ in range(TRACES):
        y = p - read_vector(fields, f, fields[f].far_move, fields[f].near_move, y)
    return y


@wp.func
def velocity_at(fields: wp.array(dtype=Field), f: wp.int32, y: vec3) -> vec3:
    """Returns the velocity of the material that was at y in the pose of the field."""
    return read_vector(fields, f, fields[f].far_velocity, fields[f].near_velocity, y)


@wp.func
def read_deforming(shape: LevelSetShape, k: wp.int32, p: vec3) -> Reading:
    """Evaluates distance, gradient and velocity in the frame of a part that deforms."""
    one, two = 2 * k, 2 * k + 1
    y = way_back(shape.fields, one, p)
    reading = read(shape.fields, one, y)
    reading.velocity = velocity_at(shape.fields, one, y)
    s = shape.parts[k].share
    following = reading
    if s > real(0.0):
        y = way_back(shape.fields, two, p)
        following = read(shape.fields, two, y)
        following.velocity = velocity_at(shape.fields, two, y)
    sure = reading.near * following.near
    nearer = wp.min(reading.distance, following.distance)
    reading.distance = (real(1.0) - s) * reading.distance + s * following.distance
    reading.gradient = (real(1.0) - s) * reading.gradient + s * following.gradient
    reading.velocity = (real(1.0) - s) * reading.velocity + s * following.velocity
    if sure == 0 and nearer > real(0.0):
        # Far away: the surface cannot be closer than it was, minus its displacement since.
        at_least = wp.max(
            read(shape.fields, one, p).distance - shape.parts[k].drift,
            read(shape.fields, two, p).distance - shape.parts[k].next_drift,
        )
        reading.distance = wp.where(at_least > real(0.0), at_least, nearer)
    return reading


@wp.func
def velocity_within(shape: LevelSetShape, k: wp.int32, p: vec3) -> vec3:
    """Returns the velocity of the material at p in the part's frame."""
    if shape.parts[k].deforms == 0:
        return vec3()
    f, s = shape.fields, shape.parts[k].share
    one, two = 2 * k, 2 * k + 1
    v = velocity_at(f, one, way_back(f, one, p))
    if s > real(0.0):
        v = (real(1.0) - s) * v + s * velocity_at(f, two, way_back(f, two, p))
    return v


@wp.func
def velocity_of(shape: LevelSetShape, k: wp.int32, p: vec3, velocity: vec3) -> vec3:
    """Returns the velocity in the solid's frame of material at p with a velocity in the part's frame."""
    R = shape.parts[k].R
    return shape.parts[k].v + wp.cross(shape.parts[k].w, R * p) + R * velocity


@wp.func
def way_out(shape: LevelSetShape, k: wp.int32, p: vec3) -> vec3:
    """Returns the direction away from the center of the part: the normal where the gradient vanishes."""
    arm = p - real(0.5) * (shape.fields[2 * k].surface_low + shape.fields[2 * k].surface_high)
    length = wp.length(arm)
    if length > NO_GRADIENT:
        return arm / length
    return vec3(real(0.0), real(0.0), real(1.0))


@wp.func
def attach(shape: LevelSetShape, p: vec3, face: wp.int32) -> vec3:
    """Returns p in the frame of its part."""
    return wp.transpose(shape.parts[face].R) * (p - shape.parts[face].o)


@wp.func
def closest(shape: LevelSetShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    found.distance = BEYOND
    other = real(found.distance)
    other_normal = vec3()
    for k in range(shape.parts.shape[0]):
        R = shape.parts[k].R
        q = wp.transpose(R) * (p - shape.parts[k].o)
        low, high = shape.fields[2 * k].surface_low, shape.fields[2 * k].surface_high
        if k > 0 and box_distance(low, high, q) - shape.parts[k].drift > wp.max(found.distance, shape.pinch_margin):
            continue
        reading = Reading()
        if shape.parts[k].deforms == 0:  # noqa: SIM108  in a kernel the conditional expression evaluates both
            reading = read(shape.fields, 2 * k, q)
        else:
            reading = read_deforming(shape, k, q)
        length = wp.length(reading.gradient)
        normal = (real(1.0) / wp.max(length, NO_GRADIENT)) * (R * reading.gradient)
        if length <= NO_GRADIENT:
            normal = R * way_out(shape, k, q)
        if reading.distance < found.distance:
            other = found.distance
            other_normal = found.normal
            found.distance = reading.distance
            found.normal = normal
            found.face = k
            found.velocity = reading.velocity
        elif reading.distance < other:
            other = reading.distance
            other_normal = normal
    if other < real(0.0) or (
        wp.max(found.distance, other) < shape.pinch_margin and wp.dot(found.normal, other_normal) < real(0.0)
    ):
        found.pinched = 1
    if shape.parts[found.face].moves != 0:
        surface = attach(shape, p - found.distance * found.normal, found.face)
        found.velocity = velocity_of(shape, found.face, surface, found.velocity)
    return found


@wp.func
def material(shape: LevelSetShape, anchor: vec3, face: wp.int32, normal: vec3, h: real) -> MaterialPoint:
    """Moves with the part, and with its surface if that deforms: by the velocity of the material on arrival."""
    found = MaterialPoint()
    velocity = velocity_within(shape, face, anchor)
    velocity = velocity_within(shape, face, anchor + h * velocity)
    q = anchor + h * velocity
    R = shape.parts[face].R
    found.point = R * q + shape.parts[face].o
    found.velocity = velocity_of(shape, face, q, velocity)
    found.normal = R * (wp.transpose(shape.parts[face].R_start) * normal)
    if shape.parts[face].deforms != 0:
        gradient = read_deforming(shape, face, q).gradient
        if wp.length(gradient) > NO_GRADIENT:
            found.normal = R * wp.normalize(gradient)
    return found


FUNCTIONS = Functions(LevelSetShape, closest, attach, material, sweep_by_distance(LevelSetShape, closest))


class LevelSet(Collider):
    """Closed meshes and shapes as distance fields on grids."""

    cell: float = quantity(0.01, unit="m", doc="width of a cell; features smaller than two cells are rounded", gt=0)
    band: float | None = quantity(
        None, unit="m", doc="width of the fine grid on either side of the surface; by default 5 cells", gt=0
    )
    pinch_margin: float = quantity(
        0.002, unit="m", doc="distance from two opposing parts below which cloth counts as pinched", ge=0
    )
    parts: tuple[Part, ...] = quantity(
        doc="closed solids of other types, placed and moved within this one", min_length=1
    )

    @model_validator(mode="after")
    def _usable(self) -> "LevelSet":
        for i, part in enumerate(self.parts):
            if part.type_name() == "plane":
                raise _wrong("a plane is infinite and does not fit on a grid. List it as a separate solid.", i)
            if part.type_name() == self.type_name():
                raise _wrong("a level set cannot contain a level set. List its parts here.", i)
            for name in ("friction", "name"):
                if getattr(part, name) != type(part).model_fields[name].default:
                    raise _wrong(f"a part has no {name} of its own. Set it on the level set.", i, name)
        return self

    def check(self, folder: Path, allow_outside: bool) -> None:
        lines = []
        for i, part in enumerate(self.parts):
            try:
                part.check(folder, allow_outside)
                if isinstance(part, _HasMesh):
                    require_closed(part.read(folder, allow_outside)[0], "level_set")
            except InputError as error:
                lines += [f"parts[{i}]: {line}" for line in str(error).splitlines()]
        if lines:
            raise InputError("\n".join(lines))

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        self.check(folder, allow_outside)
        return LevelSetSolid(self, [part.build(folder, allow_outside, device) for part in self.parts], device)


@runtime_checkable
class _HasMesh(Protocol):
    """Settings of a part that is read from a file."""

    def read(self, folder: Path, allow_outside: bool) -> tuple[SolidMesh, Any]: ...


def _wrong(text: str, *path: str | int) -> PydanticCustomError:
    return PydanticCustomError("at", "{text}", {"text": text, "path": ("parts", *path)})


def _of_parts(warnings: Sequence[Sequence[str]]) -> list[str]:
    """Returns the warnings of all parts, prefixed with the number of the part."""
    return [f"parts[{i}]: {text}" for i, texts in enumerate(warnings) for text in texts]


class LevelSetSolid(Solid):
    """A level set on a device: its parts and their fields."""

    def __init__(self, settings: LevelSet, parts: list[Solid], device: str):
        self.warnings = tuple(_of_parts([part.warnings for part in parts]))
        self.parts = [
            _SequencePart(part, settings, device) if getattr(part, "sequence", None) else _Part(part, settings, device)
            for part in parts
        ]
        first = np.cumsum([0, *(len(part.positions) for part in parts)])
        triangles = np.concatenate([part.triangles + first[i] for i, part in enumerate(parts)]).astype(np.int32)
        shape = LevelSetShape()
        shape.pinch_margin = settings.pinch_margin
        shape.parts = wp.zeros(len(parts), dtype=PartShape, device=device)
        shape.fields = wp.zeros(2 * len(parts), dtype=Field, device=device)
        self._still = False
        super().__init__(settings, FUNCTIONS, shape, (self._inner_vertices(0.0), triangles))
        self.deform(0.0, 0.0)

    @property
    def moves(self) -> bool:
        return super().moves or any(part.solid.moves for part in self.parts)

    def deform(self, begin: float, end: float) -> float:
        if self._still:
            return 0.0
        for part in self.parts:
            part.bring(begin, end)
        fields = [field for part in self.parts for field in part.fields]
        self.shape.parts.assign(wp.array([part.shape for part in self.parts], dtype=PartShape, device="cpu"))
        self.shape.fields.assign(wp.array(fields, dtype=Field, device="cpu"))
        self._still = not any(part.solid.moves for part in self.parts)
        moves = self._inner_vertices(end) - self._inner_vertices(begin)
        return float(np.sqrt(np.max(np.sum(moves**2, axis=1))))

    def teleports(self, frame_time: float) -> list[str]:
        return [*super().teleports(frame_time), *_of_parts([part.solid.teleports(frame_time) for part in self.parts])]

    def content(self) -> list[np.ndarray]:
        return [array for part in self.parts for array in part.solid.content()]

    def vertices(self, time: float) -> np.ndarray:
        R, o, _, _ = self.frame(time)
        return self._inner_vertices(time) @ R.T + o

    def _inner_vertices(self, time: float) -> np.ndarray:
        return np.concatenate([part.solid.vertices(time) for part in self.parts])


class _Part:
    """A rigid part and its field."""

    def __init__(self, solid: Solid, settings: LevelSet, device: str):
        self.solid, self.settings, self.device = solid, settings, device
        self.shape = PartShape()
        self.fields: list[Field] = []
        self._prepare()

    def _prepare(self) -> None:
        self.fields = [on_device(self._bake(), self.device)] * 2

    def _bake(self) -> Baked:
        solid, cell = self.solid, self.settings.cell
        if solid.settings.type_name() == "mesh":
            return self._bake_mesh(solid.positions, False)
        surface = (solid.positions, solid.triangles)
        return bake_shape(solid.functions, solid.shape, surface, cell, self._band, self.device)

    def _bake_mesh(self, positions: np.ndarray, deforms: bool) -> Baked:
        cell, triangles = self.settings.cell, self.solid.triangles
        parameters = (cell, self._band, deforms, precision, str(wp.get_device(self.device)).split(":")[0])
        return cached(
            parameters,
            (positions, triangles),
            lambda: bake_mesh(positions, triangles, cell, self._band, self.device, deforms),
        )

    @property
    def _band(self) -> float:
        band = self.settings.band
        return BAND_CELLS * self.settings.cell if band is None else band

    def bring(self, begin: float, end: float) -> None:
        """Moves the part to the end of a step."""
        R_start, _, _, _ = self.solid.frame(begin)
        R, o, v, w = self.solid.frame(end)
        self.shape.R_start, self.shape.R = mat33(*R_start.ravel()), mat33(*R.ravel())
        self.shape.o, self.shape.v, self.shape.w = vec3(*o), vec3(*v), vec3(*w)
        self.shape.moves = int(self.solid.moves)


class _SequencePart(_Part):
    """A part that deforms, with the fields of the keyframes around the current time."""

    def _prepare(self) -> None:
        self.sequence: VertexSequence = self.solid.sequence
        self.shape.deforms = 1
        self._corners = wp.array(self.solid.triangles.ravel(), dtype=wp.int32, device=self.device)
        self._keyframes: dict[int, FieldKeyframe] = {}

    def bring(self, begin: float, end: float) -> None:
        super().bring(begin, end)
        sequence = self.sequence
        frames = float(np.clip((end - sequence.start) * sequence.fps, 0.0, sequence.frame_count - 1))
        k = int(frames)
        positions, velocities = sequence.at(end)
        one = self._keyframe(k)
        two = self._keyframe(k + 1) if frames > k else one
        self.fields, self.shape.share = [one.field, two.field], frames - k
        self.shape.drift = one.carry(positions, velocities, self._corners)
        self.shape.next_drift = two.carry(positions, velocities, self._corners) if two is not one else self.shape.drift

    def _keyframe(self, k: int) -> FieldKeyframe:
        """Returns the field of frame k, baked or loaded on first use."""
        if k not in self._keyframes:
            positions = self.sequence.positions[k].astype(np.float64)
            while len(self._keyframes) >= MAX_KEYFRAMES:
                del self._keyframes[next(iter(self._keyframes))]
            self._keyframes[k] = FieldKeyframe(self._bake_mesh(positions, True), positions, self.device)
        self._keyframes[k] = self._keyframes.pop(k)  # least recently used first
        return self._keyframes[k]
