"""Closest points of a solid's surface to many points, at the end of its present step."""

from functools import cache

import numpy as np
import warp as wp

from toile.colliders.base import Functions, Solid
from toile.math.solid import ANYWHERE, Closest, Pose, end_frame, end_velocity
from toile.math.types import real, vec3


def closest_points(solid: Solid, poses: wp.array, s: int, x: wp.array) -> np.ndarray:
    """Returns the closest point of a solid, whose pose is poses[s], to every x, as records of Closest in the world."""
    found = wp.zeros(len(x), dtype=Closest, device=x.device)
    find_closest_points(solid, poses, s, x, found)
    return np.array(found.numpy())


def find_closest_points(solid: Solid, poses: wp.array, s: int, x: wp.array, found_out: wp.array) -> None:
    """Finds the same on the device."""
    inputs = [solid.shape, poses, s, ANYWHERE, x, found_out]
    wp.launch(closest_points_kernel(solid.functions), dim=len(x), inputs=inputs, device=x.device)


@cache
def closest_points_kernel(functions: Functions) -> wp.Kernel:
    """Makes the kernel that queries the closest points of one type of collider."""
    shape_type, closest = functions.shape, functions.closest

    def find_closest(
        # solid
        shape: shape_type, poses: wp.array(dtype=Pose), solid: wp.int32, reach: real,
        # in
        x: wp.array(dtype=vec3),
        # out
        closest_out: wp.array(dtype=Closest),
    ):  # fmt: skip
        i = wp.tid()
        pose = poses[solid]
        p = end_frame(pose, x[i])
        found = closest(shape, p, reach)
        found.velocity = end_velocity(pose, p - found.distance * found.normal, found.velocity)
        found.normal = pose.R * found.normal
        closest_out[i] = found

    return wp.Kernel(find_closest, module=wp.get_module(f"toile.closest_points.{functions.kind}"))
