"""All solids of a scene: their motion from step to step, and queries of their surfaces."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import warp as wp

from toile.colliders._closest_points import closest_points, find_closest_points
from toile.colliders.base import ContactSurface, Solid
from toile.errors import InputError
from toile.math.solid import Pose


class SolidContactSettings(Protocol):
    """Settings of the contact with solids."""

    @property
    def thickness(self) -> float: ...  # [m]

    @property
    def deepest_start(self) -> float: ...  # [m]

    def type_name(self) -> str: ...

    def recovery(self) -> str:
        """Describes in a message how cloth leaves a solid."""


class Solids:
    """The solids of a scene at both ends of the current step."""

    def __init__(
        self,
        solids: Sequence[Solid],
        device: str,
        contact_surfaces: Sequence[ContactSurface] = (),
        gaps: Sequence[float] = (),
    ):
        """`contact_surfaces` are those of the solids whose faces and edges take part in contact, `gaps` [m] the
        distances at which vertices are held in front of each solid (toile/colliders/features.py)."""
        self.solids, self.device = tuple(solids), device
        self.contact_surfaces, self.gaps = tuple(contact_surfaces), tuple(gaps)
        self.moving = any(solid.moves for solid in self.solids)
        self.poses = wp.zeros(len(self.solids), dtype=Pose, device=device)
        self._step: tuple[float, float] | None = None

    @property
    def step(self) -> tuple[float, float] | None:
        """Start and end of the present step [s]; None without solids."""
        return self._step

    def __iter__(self) -> Iterator[Solid]:
        return iter(self.solids)

    def __len__(self) -> int:
        return len(self.solids)

    def move(self, begin: float, end: float) -> None:
        """Moves all solids to the end of a step."""
        if self._step == (begin, end) or not self.solids:
            return
        if self.moving or self._step is None:
            self.poses.assign(np.stack([solid.move(begin, end) for solid in self.solids]))
        self._step = begin, end

    def closest_points(self, x: wp.array, time: float) -> list[np.ndarray]:
        """Returns for each solid the closest point of its surface to every x, as records of Closest in the world."""
        return [self.closest_points_of(s, x, time) for s in range(len(self.solids))]

    def closest_points_of(self, s: int, x: wp.array, time: float) -> np.ndarray:
        """Returns the closest point of the surface of solid s to every x, as records of Closest in the world."""
        self.move(time, time)
        return closest_points(self.solids[s], self.poses, s, x)

    def find_closest_points(self, s: int, x: wp.array, time: float, found_out: wp.array) -> None:
        """Finds the same on the device."""
        self.move(time, time)
        find_closest_points(self.solids[s], self.poses, s, x, found_out)


def inside_at_start(
    solid: Solid, distance: np.ndarray, pinned: np.ndarray, settings: SolidContactSettings
) -> list[str]:
    """Returns warnings if cloth starts inside a solid; raises InputError if it is too deep to be recovered.

    `distance` is that of every particle, `pinned` whether a pin holds it.
    """
    warnings = []
    if (distance[pinned] < 0.0).any():
        found = _inside(distance, pinned)
        warnings.append(f'solid "{solid.name}": {found}. Pins hold them there and stretch the cloth around them.')
    if (distance[~pinned] < 0.0).any():
        found = _inside(distance, ~pinned)
        if -distance[~pinned].min() > settings.deepest_start:
            error = (
                f'solid "{solid.name}": {found}. Move the cloth or the solid, or increase deepest_start of '
                f"{settings.type_name()} (now {settings.deepest_start:g} m) to recover it."
            )
            # The solid's warnings may give the reason, such as that it is inside out.
            raise InputError("\n".join([error, *solid.warnings]))
        warnings.append(f'solid "{solid.name}": {found}. {settings.recovery()}')
    return warnings


def _inside(distance: np.ndarray, chosen: np.ndarray) -> str:
    """Describes the number of chosen particles that are inside, and the deepest of them."""
    depth = np.where(chosen, -distance, -np.inf)
    count, worst = np.count_nonzero(depth > 0.0), int(np.argmax(depth))
    vertices = "1 vertex starts" if count == 1 else f"{count} vertices start"
    return f"{vertices} inside it; vertex {worst} is {depth[worst]:.3g} m deep"
