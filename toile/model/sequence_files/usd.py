"""Reader of moving USD meshes: the points of every mesh at each of its time samples, in meters with z up.

The file is read in a child process like a static mesh (mesh_files/usd.py); this module is that child when it is run.
Samples at uneven times are resampled at the smallest interval between two of them, by the interpolation of USD.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import usd
from toile.model.mesh_files.triangulate import triangulate
from toile.model.sequence_files import FrameFile

# Limit on the size of the frames [bytes]: the child needs twice as much within its memory limit.
MAX_BYTES = usd.MEMORY_LIMIT // 4
# Time codes closer than this fraction of a frame are equal.
SAME_CODE = 1e-6


def read(path: Path) -> FrameFile:
    arrays = usd.read_in_child("toile.model.sequence_files.usd", path)
    mesh = usd.unpack(arrays)
    if not mesh.positions.size:
        raise InputError(f"{path.name}: the meshes have no points.")
    fps = float(arrays["fps"])
    return FrameFile(
        arrays["frames"],
        fps if fps > 0.0 else None,
        mesh.corners[triangulate(mesh)[0]].astype(np.int32) if len(mesh.sizes) else None,
        (*mesh.warnings, *map(str, arrays["warnings"])),
    )


# The functions below run in the child process.


def _collect(path: Path) -> dict[str, Any]:
    from pxr import UsdGeom  # type: ignore[import-untyped,import-not-found,unused-ignore]

    stage = usd.open_stage(path)
    arrays = usd.collect_meshes(stage, path.name)
    meshes = usd.find_meshes(stage)
    samples = _samples(meshes)
    if len(samples) < 2:
        why = "none of its points has time samples. Bake motion by a skeleton or blend shapes to points first."
        return arrays | {"frames": arrays["positions"][None].astype(np.float32), "fps": 0.0, "warnings": [why]}
    step = float(np.diff(samples).min())
    count = round((samples[-1] - samples[0]) / step) + 1
    size = 12 * count * len(arrays["positions"])
    if size > MAX_BYTES:
        raise InputError(
            f"{path.name}: {count:.4g} frames of {len(arrays['positions'])} vertices need {size / 1e9:.3g} GB, but at "
            f"most {MAX_BYTES / 1e9:.3g} GB are read. Export fewer samples."
        )
    codes = samples[0] + step * np.arange(count)
    warnings = []
    if count != len(samples) or np.abs(codes - samples).max() > SAME_CODE * step:
        warnings.append(f"its samples lie at uneven times and were resampled every {step:g} of its frames.")
    frames = np.empty((count, len(arrays["positions"]), 3), np.float32)
    for i, code in enumerate(codes):
        cache = UsdGeom.XformCache(code)
        points = [_points(prim, code, cache) for prim in meshes]
        if sum(map(len, points)) != frames.shape[1]:
            raise InputError(
                f"{path.name}: {sum(map(len, points))} vertices at time code {code:g}, but {frames.shape[1]} at the "
                "first; every frame needs the same vertices."
            )
        frames[i] = usd.in_meters(np.concatenate(points), stage)
    return arrays | {"frames": frames, "fps": stage.GetTimeCodesPerSecond() / step, "warnings": warnings}


def _samples(meshes: list[Any]) -> np.ndarray:
    """Returns the time codes at which any mesh changes, or a transform above it."""
    from pxr import UsdGeom

    codes: set[float] = set()
    for prim in meshes:
        codes.update(UsdGeom.Mesh(prim).GetPointsAttr().GetTimeSamples())
        while prim:
            if prim.IsA(UsdGeom.Xformable):
                codes.update(UsdGeom.Xformable(prim).GetTimeSamples())
            prim = prim.GetParent()
    return np.array(sorted(codes))


def _points(prim: Any, code: float, cache: Any) -> np.ndarray:
    from pxr import UsdGeom

    points = np.asarray(UsdGeom.Mesh(prim).GetPointsAttr().Get(code) or [], np.float64).reshape(-1, 3)
    return usd.place(points, prim, cache)


if __name__ == "__main__":
    usd.run_child(_collect, *sys.argv[1:3])
