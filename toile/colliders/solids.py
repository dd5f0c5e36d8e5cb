"""All solids of a scene together: moved from step to step, and asked where their surfaces are."""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import warp as wp

from toile.colliders.base import Functions, Solid
from toile.math.solid import Closest, Pose, end_frame, end_velocity
from toile.math.types import real, vec3

# Far enough for any surface [m].
ANYWHERE = 1.0e6


class Solids:
    """The solids of a scene, at the two ends of the present step."""

    def __init__(self, solids: Sequence[Solid], device: str):
        self.solids, self.device = tuple(solids), device
        self.moving = any(solid.moves for solid in self.solids)
        self.poses = wp.zeros(len(self.solids), dtype=Pose, device=device)
        self._step: tuple[float, float] | None = None

    def __iter__(self) -> Iterator[Solid]:
        return iter(self.solids)

    def __len__(self) -> int:
        return len(self.solids)

    def move(self, begin: float, end: float) -> None:
        """Brings everything to the end of a step."""
        if self._step == (begin, end) or not self.solids:
            return
        if self.moving or self._step is None:
            self.poses.assign(np.stack([solid.move(begin, end) for solid in self.solids]))
        self._step = begin, end

    def survey(self, x: wp.array, time: float) -> list[np.ndarray]:
        """For each solid, the nearest point of its surface to every x, as records of Closest in the world."""
        self.move(time, time)
        found = wp.zeros(len(x), dtype=Closest, device=self.device)
        result = []
        for s, solid in enumerate(self.solids):
            inputs = [solid.shape, self.poses, s, ANYWHERE, x, found]
            wp.launch(survey_kernel(solid.functions), dim=len(x), inputs=inputs, device=self.device)
            result.append(found.numpy().copy())
        return result


@cache
def survey_kernel(functions: Functions) -> wp.Kernel:
    """Asks one kind of collider for the nearest point of its surface."""
    shape_type, closest = functions.shape, functions.closest

    def survey(
        # solid
        shape: shape_type, poses: wp.array(dtype=Pose), solid: wp.int32, reach: real,
        # in
        x: wp.array(dtype=vec3),
        # out
        closest_out: wp.array(dtype=Closest),
    ):
        i = wp.tid()
        pose = poses[solid]
        p = end_frame(pose, x[i])
        found = closest(shape, p, reach)
        found.velocity = end_velocity(pose, p - found.distance * found.normal, found.velocity)
        found.normal = pose.R * found.normal
        closest_out[i] = found

    return wp.Kernel(survey, module=wp.get_module(f"toile.survey.{kind_of(functions)}"))


def kind_of(functions: Functions) -> str:
    """A word for a collider's kind that can be part of a module's name."""
    return str(functions.shape.key).replace(".", "_")

