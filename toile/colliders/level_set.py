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
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import warp as wp
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from toile.colliders._closest_points import closest_points
from toile.colliders._level_set_bake import bake_mesh, bake_shape
from toile.colliders._level_set_cache import cached
from toile.colliders._level_set_field import BakedField, Field, FieldKeyframe, upload
from toile.colliders._level_set_query import FUNCTIONS, LevelSetShape, PartShape
from toile.colliders.base import SURFACE_TOLERANCE, Collider, ContactSurface, Solid
from toile.errors import InputError
from toile.math.solid import Pose
from toile.math.types import mat33, numpy_real, precision, vec3
from toile.model.solid_mesh import require_closed
from toile.plugins import choice, quantity

if TYPE_CHECKING:
    Part = Collider
else:
    Part = Annotated[choice("colliders"), "colliders"]

# Default width of the fine grid on either side of the surface [cells].
BAND_CELLS = 5.0
# Contact surfaces follow the field in so many steps, where it is nearer than this [cells].
SHIFTS, NEAR_CELLS = 3, 2.0
# Keyframes of a part in memory: the two around the current time, and those that a rejected step returns to.
MAX_KEYFRAMES = 4


class LevelSet(Collider):
    """Closed meshes and shapes as distance fields on grids."""

    exact: ClassVar[bool] = False

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
            if not part.bounded:
                raise _wrong(f"a {part.type_name()} is infinite and fits on no grid. List it as a separate solid.", i)
            if isinstance(part, LevelSet):
                raise _wrong("a level set cannot contain a level set. List its parts here.", i)
            for name in ("friction", "name"):
                if getattr(part, name) != type(part).model_fields[name].default:
                    raise _wrong(f"a part has no {name} of its own. Set it on the level set.", i, name)
        return self

    def smallest_radius(self) -> float:
        return min(part.smallest_radius() for part in self.parts)

    def check(self, folder: Path, allow_outside: bool) -> None:
        lines = []
        for i, part in enumerate(self.parts):
            try:
                part.check(folder, allow_outside)
                mesh = part.mesh(folder, allow_outside)
                if mesh is not None:
                    require_closed(mesh, "level_set")
            except InputError as error:
                lines += [f"parts[{i}]: {line}" for line in str(error).splitlines()]
        if lines:
            raise InputError("\n".join(lines))

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        self.check(folder, allow_outside)
        return LevelSetSolid(self, [part.build(folder, allow_outside, device) for part in self.parts], device)


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
            _Part(part, settings, device) if part.sequence is None else _SequencePart(part, settings, device)
            for part in parts
        ]
        first = np.cumsum([0, *(len(part.positions) for part in parts)])
        triangles = np.concatenate([part.triangles + first[i] for i, part in enumerate(parts)]).astype(np.int32)
        shape = LevelSetShape()
        shape.pinch_margin = settings.pinch_margin
        shape.parts = wp.zeros(len(parts), dtype=PartShape, device=device)
        shape.fields = wp.zeros(2 * len(parts), dtype=Field, device=device)
        self._still, self.cell = False, settings.cell
        super().__init__(settings, FUNCTIONS, shape, (self._inner_vertices(0.0), triangles))
        self.deform(0.0, 0.0)

    @property
    def moves(self) -> bool:
        return super().moves or any(part.solid.moves for part in self.parts)

    def deform(self, begin: float, end: float) -> float:
        if self._still:
            return 0.0
        for part in self.parts:
            part.move_to(begin, end)
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
        return self.placed(self._inner_vertices(time), time)

    def contact_surface(self, gap: float) -> ContactSurface:
        """Returns the surfaces of the parts, moved to where their fields say that the surface is.

        Vertices of cloth are held in front of the field, which is up to cell^2 / (4 r) inside a part of radius r, and
        rounds its edges.
        """
        surfaces = [part.solid.contact_surface(gap) for part in self.parts]
        starts = [surface.vertices(0.0) for surface in surfaces]
        first = np.cumsum([0, *map(len, starts)])
        triangles = np.concatenate([surface.triangles + first[i] for i, surface in enumerate(surfaces)])
        x = self.placed(np.concatenate(starts), 0.0)
        if not any(part.solid.moves for part in self.parts):
            triangles = triangles[~self._buried(x[triangles])]
        shifts = self._shifts(x, SURFACE_TOLERANCE * gap) @ self.frame(0.0)[0]
        own = [  # in the frame of each part, because parts may move in this one
            shift @ part.solid.frame(0.0)[0]
            for part, shift in zip(self.parts, np.split(shifts, first[1:-1]), strict=True)
        ]

        def vertices(time: float) -> np.ndarray:
            moved = [
                surface.vertices(time) + shift @ part.solid.frame(time)[0].T
                for surface, part, shift in zip(surfaces, self.parts, own, strict=True)
            ]
            return self.placed(np.concatenate(moved), time)

        return ContactSurface(self, triangles.astype(np.int32), vertices, surfaces[0].thickness)

    def _shifts(self, positions: np.ndarray, distance: float) -> np.ndarray:
        """Returns what moves positions in the world at time 0, near the surface, to a distance from its field."""
        x = positions.copy()
        for _ in range(SHIFTS):
            found = self._closest_points(x)
            off = distance - found["distance"]
            x += np.where(np.abs(off) < NEAR_CELLS * self.cell, off, 0.0)[:, None] * found["normal"]
        return x - positions

    def _buried(self, corners: np.ndarray) -> np.ndarray:
        """Returns which triangles (triangles, 3, 3) are inside, in the world at time 0: no point of a triangle is
        farther from any corner than its longest edge."""
        phi = self._closest_points(corners.reshape(-1, 3))["distance"].reshape(-1, 3)
        longest = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).max(axis=1)
        return np.asarray(phi.min(axis=1) < -longest - self.cell)

    def _closest_points(self, x: np.ndarray) -> np.ndarray:
        """Returns the closest points of positions in the world at time 0, as records of Closest."""
        device = self.shape.parts.device
        poses = wp.array(np.stack([self.move(0.0, 0.0)]), dtype=Pose, device=device)
        return closest_points(self, poses, 0, wp.array(x.astype(numpy_real), dtype=vec3, device=device))

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
        self.fields = [upload(self._bake(), self.device)] * 2

    def _bake(self) -> BakedField:
        solid, cell = self.solid, self.settings.cell
        if solid.is_mesh:
            return self._bake_mesh(solid.positions, False)
        surface = (solid.positions, solid.triangles)
        return bake_shape(solid.functions, solid.shape, surface, cell, self._band, self.device)

    def _bake_mesh(self, positions: np.ndarray, deforms: bool) -> BakedField:
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

    def move_to(self, begin: float, end: float) -> None:
        """Moves the part to the end of a step."""
        R_start, _, _, _ = self.solid.frame(begin)
        R, o, v, w = self.solid.frame(end)
        self.shape.R_start, self.shape.R = mat33(*R_start.ravel()), mat33(*R.ravel())
        self.shape.o, self.shape.v, self.shape.w = vec3(*o), vec3(*v), vec3(*w)
        self.shape.moves = int(self.solid.moves)


class _SequencePart(_Part):
    """A part that deforms, with the fields of the keyframes around the current time."""

    def _prepare(self) -> None:
        assert self.solid.sequence is not None
        self.sequence = self.solid.sequence
        self.shape.deforms = 1
        self._corners = wp.array(self.solid.triangles.ravel(), dtype=wp.int32, device=self.device)
        self._keyframes: dict[int, FieldKeyframe] = {}

    def move_to(self, begin: float, end: float) -> None:
        super().move_to(begin, end)
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
