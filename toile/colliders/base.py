"""Base of all colliders: a surface in its own frame, its motion, and triangles to draw.

A collider is four Warp functions on a struct of its own (`shape`), all in the solid's frame:

    closest(shape, p, reach)                    closest point of the surface within `reach` -> Closest
    attach(shape, p, face)                      p in coordinates that move with the material
    material(shape, anchor, face, normal, h)    that material point at the end of the step -> MaterialPoint
    sweep(shape, p, q, gap)                     the first s in [0, 1] at which p + s (q - p) is within `gap`; 2 if none

A rigid shape writes only `closest`: its material does not move in its frame, and a path is followed by sphere tracing,
in steps as long as the distance (`rigid_functions`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import warp as wp

from toile.math.solid import MaterialPoint, Pose
from toile.math.types import real, vec3
from toile.model.motion import Motion, Vector, rotation_matrix
from toile.model.solid_mesh import SolidMesh
from toile.model.solid_shapes import Surface
from toile.model.vertex_sequence import VertexSequence, motion_teleports
from toile.plugins import Plugin, quantity

# Limit on the steps along a path. A path that grazes the surface needs many; it counts as a contact.
MAX_SWEEP_STEPS = wp.constant(48)
# Thickness of contacts between triangles of cloth and of solids, and tolerance of the triangles that stand for a curved
# solid: fractions of the distance at which vertices are held. Contacts begin at twice the thickness: flat cloth at
# rest, which its vertices hold already, must not be in contact besides.
SURFACE_THICKNESS, SURFACE_TOLERANCE = 0.2, 0.25


class Collider(Plugin):
    """Settings of a solid: its start pose, its motion, its friction."""

    bounded: ClassVar[bool] = True  # whether it has a finite size, and can be part of a level set
    exact: ClassVar[bool] = True  # whether its distance is exact, or sampled

    name: str | None = quantity(None, doc="name in the certificate and exports; by default its type and number")
    translation: Vector = quantity((0.0, 0.0, 0.0), unit="m", doc="start position of the solid's origin")
    rotation: Vector = quantity((0.0, 0.0, 0.0), unit="deg", doc="rotation vector (axis times angle), applied first")
    friction: float = quantity(0.3, doc="Coulomb friction coefficient between cloth and this solid", ge=0)
    sharp: Literal["auto"] | bool = quantity(
        "auto",
        doc="test its faces and edges against cloth triangles too, with self_contact; auto: where its curvature asks "
        "for it, false: hold vertices only",
    )
    motion: Motion | None = quantity(None, doc="keyframes of its motion; by default it rotates about its origin")

    def check(self, folder: Path, allow_outside: bool) -> None:
        """Raises toile.errors.InputError if its files cannot be used; called before anything runs."""

    def mesh(self, folder: Path, allow_outside: bool) -> SolidMesh | None:
        """Returns the mesh that it is read from, which may be open; None if it is a shape, which is always closed."""
        return None

    def smallest_radius(self) -> float:
        """Returns a radius [m] so small that balls of it, all inside the solid, fill it; 0 if it may have an edge."""
        return 0.0

    def contact_surface(self, tolerance: float) -> Surface | None:
        """Returns triangles that contain the solid and exceed it by at most about `tolerance` [m], in the solid's
        frame; None for the drawn ones."""
        return None

    def build(self, folder: Path, allow_outside: bool, device: str) -> "Solid":
        """Builds the solid on a device; raises toile.errors.InputError for anything that cannot be used."""
        raise NotImplementedError


@dataclass(frozen=True)
class Functions:
    """Warp functions of a collider, and the struct they take."""

    shape: Any
    closest: Callable
    attach: Callable
    material: Callable
    sweep: Callable

    @property
    def kind(self) -> str:
        """Identifier of the collider type that can be part of a module name."""
        return str(self.shape.key).replace(".", "_")


class Solid:
    """A collider on a device: its shape, and its frame at both ends of the step."""

    is_mesh: ClassVar[bool] = False  # whether a level set bakes it from its triangles, not from its `closest`

    name: str = ""  # unique in its scene
    index: int = 0  # in its scene
    warnings: tuple[str, ...] = ()
    sequence: VertexSequence | None = None  # frames that deform its surface vertex by vertex

    def __init__(self, settings: Collider, functions: Functions, shape: Any, surface: Surface):
        """Takes the surface to draw as (positions, triangles) in the solid's frame."""
        self.settings, self.functions, self.shape = settings, functions, shape
        self.positions, self.triangles = surface

    @property
    def moves(self) -> bool:
        return self.settings.motion is not None

    def move(self, begin: float, end: float) -> np.ndarray:
        """Moves the shape to the end of a step; returns its pose as one record of the Pose struct."""
        record = np.zeros((), Pose.numpy_dtype())
        record["R_start"], record["o_start"], _, _ = self.frame(begin)
        record["R"], record["o"], record["v"], record["w"] = self.frame(end)
        record["drift"] = self.deform(begin, end)
        return record

    def frame(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns rotation, origin, velocity and angular velocity of the frame."""
        R0, o0 = rotation_matrix(np.radians(self.settings.rotation)), np.asarray(self.settings.translation)
        motion = self.settings.motion
        if motion is None:
            return R0, o0, np.zeros(3), np.zeros(3)
        R, o, v, w = motion.frame(o0, time)
        return R @ R0, o, v, w

    def deform(self, begin: float, end: float) -> float:
        """Deforms the surface in its own frame to `end`; returns its largest displacement since `begin` [m]."""
        return 0.0

    def teleports(self, frame_time: float) -> list[str]:
        """Returns warnings for keyframes that move it farther than its own size in one frame of a run."""
        size = float(np.linalg.norm(np.ptp(self.positions, axis=0)))
        return [] if self.settings.motion is None else motion_teleports(self.settings.motion, size, frame_time)

    def content(self) -> list[np.ndarray]:
        """Returns the arrays read from files, which identify the input of a run."""
        return [self.positions, self.triangles]

    def vertices(self, time: float) -> np.ndarray:
        """Returns the vertices of the drawn surface in world coordinates."""
        return self.placed(self.positions, time)

    def placed(self, positions: np.ndarray, time: float) -> np.ndarray:
        """Returns positions in the solid's frame in world coordinates."""
        R, o, _, _ = self.frame(time)
        return positions @ R.T + o

    def contact_surface(self, gap: float) -> "ContactSurface":
        """Returns the triangles that cloth is tested against if its faces and edges take part; `gap` [m] is the
        distance at which vertices are held."""
        found = self.settings.contact_surface(SURFACE_TOLERANCE * gap)
        if found is None:
            return ContactSurface(self, self.triangles, self.vertices, SURFACE_THICKNESS * gap)
        positions, triangles = found
        return ContactSurface(self, triangles, lambda time: self.placed(positions, time), SURFACE_THICKNESS * gap)


@dataclass(frozen=True)
class ContactSurface:
    """Triangles of a solid that take part in contact, and their vertices in world coordinates at a time [s]."""

    solid: Solid
    triangles: np.ndarray
    vertices: Callable[[float], np.ndarray]
    thickness: float  # [m]  of contacts with cloth


def rigid_functions(shape: Any, closest: Callable) -> Functions:
    """Makes all functions of a collider whose material does not move in its frame."""

    @wp.func
    def attach(shape: shape, p: vec3, face: wp.int32) -> vec3:
        return p

    @wp.func
    def material(shape: shape, anchor: vec3, face: wp.int32, normal: vec3, h: real) -> MaterialPoint:
        found = MaterialPoint()
        found.point = anchor
        found.normal = normal
        return found

    return Functions(shape, closest, attach, material, sweep_by_distance(shape, closest))


def sweep_by_distance(shape: Any, closest: Callable) -> Callable:
    """Makes a sweep that follows a straight path in steps that the distance to the surface proves free."""

    @wp.func
    def sweep(shape: shape, p: vec3, q: vec3, gap: real) -> real:
        length = wp.length(q - p)
        s = real(0.0)
        nearest = real(1.0e30)
        s_nearest = real(0.0)
        for _ in range(MAX_SWEEP_STEPS):
            found = closest(shape, p + s * (q - p), real(1.0001) * length + real(1.01) * gap)
            free = found.distance - gap
            if free <= real(1.0e-3) * gap + real(1.0e-9) * length:
                return s
            if free < nearest:
                nearest = free
                s_nearest = s
            s += free / length
            if s >= real(1.0):
                return real(2.0)
        return s_nearest  # the path grazed the surface there, and may be far from it by now

    return sweep
