"""Calls the device functions of a solid from the host, so that tests need no kernels."""

from functools import cache
from typing import Any

import numpy as np
import warp as wp

from toile.colliders.base import Functions, Solid
from toile.math.solid import Closest, MaterialPoint, Pose, end_velocity, end_world
from toile.math.types import real, vec3


def closest(solid: Solid, points: np.ndarray, reach: float = 1e6) -> np.ndarray:
    """Records of Closest for points in the frame of the solid."""
    found = wp.zeros(len(points), dtype=Closest, device="cpu")
    wp.launch(_kernels(solid.functions)[0], len(points), [solid.shape, _vectors(points), reach, found], device="cpu")
    return found.numpy()


def attach(solid: Solid, points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Material coordinates of points in the frame of the solid."""
    anchors = wp.zeros(len(points), dtype=vec3, device="cpu")
    given = [solid.shape, _vectors(points), _whole(faces), anchors]
    wp.launch(_kernels(solid.functions)[1], len(points), given, device="cpu")
    return anchors.numpy()


def carry(
    solid: Solid, step: tuple[float, float], anchors: np.ndarray, faces: np.ndarray, normals: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """World positions and velocities of anchored points at the end of a step; normals in the frame of the solid."""
    begin, end = step
    n = len(anchors)
    x, v = wp.zeros(n, dtype=vec3, device="cpu"), wp.zeros(n, dtype=vec3, device="cpu")
    found = wp.zeros(n, dtype=MaterialPoint, device="cpu")
    poses = wp.array(solid.move(begin, end).reshape(1), dtype=Pose, device="cpu")
    given = [solid.shape, poses, end - begin, _vectors(anchors), _whole(faces), _vectors(normals), found, x, v]
    wp.launch(_kernels(solid.functions)[2], n, given, device="cpu")
    return x.numpy(), v.numpy(), found.numpy()["normal"]


def sweep(solid: Solid, start: np.ndarray, end: np.ndarray, gap: float) -> np.ndarray:
    """Share of each path, in the frame of the solid, at which it enters the gap; 2 if it does not."""
    share = wp.zeros(len(start), dtype=real, device="cpu")
    given = [solid.shape, _vectors(start), _vectors(end), gap, share]
    wp.launch(_kernels(solid.functions)[3], len(start), given, device="cpu")
    return share.numpy()


def _vectors(values: np.ndarray) -> wp.array:
    return wp.array(values, dtype=vec3, device="cpu")


def _whole(values: np.ndarray) -> wp.array:
    return wp.array(values, dtype=wp.int32, device="cpu")


@cache
def _kernels(functions: Functions) -> tuple[wp.Kernel, ...]:
    return _make(functions.shape, functions.closest, functions.attach, functions.material, functions.sweep)


def _make(shape_type: Any, closest: Any, attach: Any, material: Any, sweep: Any) -> tuple[wp.Kernel, ...]:
    def ask(shape: shape_type, p: wp.array(dtype=vec3), reach: real, found_out: wp.array(dtype=Closest)):
        i = wp.tid()
        found_out[i] = closest(shape, p[i], reach)

    def fasten(
        shape: shape_type, p: wp.array(dtype=vec3), face: wp.array(dtype=wp.int32), anchor_out: wp.array(dtype=vec3)
    ):
        i = wp.tid()
        anchor_out[i] = attach(shape, p[i], face[i])

    def bring(
        shape: shape_type, pose: wp.array(dtype=Pose), h: real, anchor: wp.array(dtype=vec3),
        face: wp.array(dtype=wp.int32), normal: wp.array(dtype=vec3),
        found_out: wp.array(dtype=MaterialPoint), x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
    ):  # fmt: skip
        i = wp.tid()
        found = material(shape, anchor[i], face[i], normal[i], h)
        found_out[i] = found
        x_out[i] = end_world(pose[0], found.point)
        v_out[i] = end_velocity(pose[0], found.point, found.velocity)

    def follow(
        shape: shape_type, p: wp.array(dtype=vec3), q: wp.array(dtype=vec3), gap: real, s_out: wp.array(dtype=real)
    ):
        i = wp.tid()
        s_out[i] = sweep(shape, p[i], q[i], gap)

    module = wp.get_module(f"tests.solids.{shape_type.key}")
    return tuple(wp.Kernel(function, module=module) for function in (ask, fasten, bring, follow))
