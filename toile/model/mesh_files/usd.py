"""Reader of USD: points, faces and the st primvar of every mesh in one layer, in meters with z up.

The file is opened in a child process with a limit on time and memory, because a hostile one can be arbitrarily large
once composed. Only the layer itself is read: references, payloads and sublayers are refused, not followed.
This module is that child when it is run (`python -m toile.model.mesh_files.usd FILE RESULT`). sequence_files/usd.py,
for points that move, is another child made of the same functions.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import PolygonMesh

TIME_LIMIT = 60.0  # s, for opening and reading
MEMORY_LIMIT = 8 << 30  # bytes of address space; the USD libraries alone map about 1 GB


def read(path: Path) -> PolygonMesh:
    """Reads every mesh of the file as one, placed by its transforms; each prim is a group named by its path."""
    return unpack(read_in_child("toile.model.mesh_files.usd", path))


def read_in_child(module: str, path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays that `module` collects from the file in a process of its own."""
    if importlib.util.find_spec("pxr") is None:
        raise InputError(f'reading {path.name} needs usd-core: pip install "toile[usd]", or convert it to OBJ.')
    _refuse_compressed_package(path)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "mesh.npz"
        command = [sys.executable, "-m", module, str(path), str(result)]
        # The child finds the same packages as this process, however they were found here.
        environment = {
            **os.environ,
            "PXR_WORK_THREAD_LIMIT": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        try:
            child = subprocess.run(command, env=environment, capture_output=True, timeout=TIME_LIMIT, text=True)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{path.name}: not read within {TIME_LIMIT:g} s. Export a smaller file.") from error
        if child.returncode == 2:
            raise InputError(child.stdout.strip() or f"{path.name}: cannot be read as USD.")
        if child.returncode != 0 or not result.exists():
            reported = "".join(f" It reported: {line}" for line in child.stderr.strip().splitlines()[-1:])
            raise InputError(
                f"{path.name}: the USD library could not read it within {MEMORY_LIMIT >> 30} GB of memory.{reported}"
            )
        with np.load(result, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def _refuse_compressed_package(path: Path) -> None:
    """Raises InputError for a compressed .usdz: the format forbids it, and it can be a zip bomb."""
    if path.suffix.lower() != ".usdz":
        return
    try:
        with zipfile.ZipFile(path) as package:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in package.infolist()):
                raise InputError(f"{path.name}: a .usdz must not be compressed inside; export it again.")
    except zipfile.BadZipFile as error:
        raise InputError(f"{path.name}: not a .usdz package ({error}).") from error


def unpack(arrays: dict[str, np.ndarray]) -> PolygonMesh:
    header = json.loads(str(arrays["header"]))
    starts = np.cumsum([0, *header["face_counts"]])
    groups = {name: np.arange(starts[i], starts[i + 1]) for i, name in enumerate(header["names"])}
    uv = arrays.get("uv")
    return PolygonMesh(
        arrays["positions"], arrays["sizes"], arrays["corners"], uv,
        None if uv is None else np.arange(len(uv)), groups, tuple(header["warnings"]),
    )  # fmt: skip


# The functions below run in the child process.


def run_child(collect: Callable[[Path], dict[str, Any]], path: str, result: str) -> None:
    _limit_resources()
    try:
        np.savez(result, allow_pickle=False, **collect(Path(path)))
    except InputError as error:
        print(error)
        sys.exit(2)


def _limit_resources() -> None:
    if sys.platform == "win32":  # there only the time limit of the parent applies
        return
    import resource

    for kind, limit in ((resource.RLIMIT_AS, MEMORY_LIMIT), (resource.RLIMIT_CPU, int(TIME_LIMIT))):
        # Some systems reject some limits (macOS: memory); the time limit of the parent applies anyway.
        with contextlib.suppress(ValueError, OSError):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _collect(path: Path) -> dict[str, Any]:
    return collect_meshes(open_stage(path), path.name)


def open_stage(path: Path) -> Any:
    from pxr import Sdf, Tf, Usd  # type: ignore[import-untyped,import-not-found,unused-ignore]

    try:
        layer = Sdf.Layer.FindOrOpen(str(path))
    except Tf.ErrorException as error:
        raise InputError(f"{path.name}: not a USD file.") from error
    if layer is None:
        raise InputError(f"{path.name}: not a USD file.")
    other_files = sorted({str(asset) for asset in layer.GetCompositionAssetDependencies()})
    if other_files:
        raise InputError(f'{path.name}: refers to other files, such as "{other_files[0]}". Flatten it into one file.')
    return Usd.Stage.Open(layer, Usd.Stage.LoadNone)


def find_meshes(stage: Any) -> list[Any]:
    from pxr import UsdGeom

    return [prim for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh)]


def collect_meshes(stage: Any, name: str) -> dict[str, Any]:
    """Collects every mesh at the earliest time."""
    from pxr import Usd, UsdGeom

    meshes = find_meshes(stage)
    if not meshes:
        raise InputError(f"{name}: contains no mesh.")
    warnings = []
    if not UsdGeom.StageHasAuthoredMetersPerUnit(stage):
        warnings.append("the file does not give its unit: centimeters are assumed, as USD prescribes.")
    cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime())
    parts = [_read_prim(prim, cache, UsdGeom, Usd) for prim in meshes]
    first = np.cumsum([0, *(len(part["positions"]) for part in parts)])
    arrays: dict[str, Any] = {
        "positions": in_meters(np.concatenate([part["positions"] for part in parts]), stage),
        "sizes": np.concatenate([part["sizes"] for part in parts]),
        "corners": np.concatenate([part["corners"] + first[i] for i, part in enumerate(parts)]),
    }
    without = [str(prim.GetPath()) for prim, part in zip(meshes, parts, strict=True) if part["uv"] is None]
    if not without:
        arrays["uv"] = np.concatenate([part["uv"] for part in parts]) * UsdGeom.GetStageMetersPerUnit(stage)
    elif len(without) < len(parts):
        warnings.append(f"{without[0]} has no st primvar, so uv is ignored.")
    header = {
        "names": [str(prim.GetPath()) for prim in meshes],
        "face_counts": [len(part["sizes"]) for part in parts],
        "warnings": warnings,
    }
    return arrays | {"header": np.array(json.dumps(header))}


def in_meters(positions: np.ndarray, stage: Any) -> np.ndarray:
    """Converts coordinates of the stage to meters with z up."""
    from pxr import UsdGeom

    positions = positions * UsdGeom.GetStageMetersPerUnit(stage)
    if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.y:
        positions = positions[:, [0, 2, 1]] * (1.0, -1.0, 1.0)
    return positions


def place(points: np.ndarray, prim: Any, cache: Any) -> np.ndarray:
    """Converts points of a prim to the coordinates of the stage."""
    transform = np.asarray(cache.GetLocalToWorldTransform(prim), np.float64)  # row vectors times matrix
    return points @ transform[:3, :3] + transform[3, :3]


def _read_prim(prim: Any, cache: Any, UsdGeom: Any, Usd: Any) -> dict[str, Any]:
    """Reads one mesh with its transform applied; uv has one row per corner, or is None."""
    mesh = UsdGeom.Mesh(prim)
    time = Usd.TimeCode.EarliestTime()
    points = np.asarray(mesh.GetPointsAttr().Get(time) or [], np.float64).reshape(-1, 3)
    sizes = np.asarray(mesh.GetFaceVertexCountsAttr().Get(time) or [], np.int64)
    corners = np.asarray(mesh.GetFaceVertexIndicesAttr().Get(time) or [], np.int64)
    name = prim.GetPath()
    if (sizes < 3).any():
        face = int(np.argmax(sizes < 3))
        raise InputError(f"{name}: face {face} has {sizes[face]} corners; a face needs at least 3.")
    if int(sizes.sum()) != len(corners):
        raise InputError(f"{name}: faceVertexCounts require {sizes.sum()} indices, but the mesh has {len(corners)}.")
    if len(corners) and (corners.min() < 0 or corners.max() >= len(points)):
        wrong = corners[(corners < 0) | (corners >= len(points))][0]
        raise InputError(f"{name}: a face refers to vertex {wrong}; the mesh has {len(points)} vertices.")
    uv = _corner_uv(UsdGeom.PrimvarsAPI(prim).GetPrimvar("st"), corners, len(points), time)
    if mesh.GetOrientationAttr().Get(time) == UsdGeom.Tokens.leftHanded:
        backwards = np.concatenate(
            [np.arange(e - 1, e - 1 - n, -1) for e, n in zip(np.cumsum(sizes), sizes, strict=True)]
        )
        corners, uv = corners[backwards], None if uv is None else uv[backwards]
    return {"positions": place(points, prim, cache), "sizes": sizes, "corners": corners, "uv": uv}


def _corner_uv(primvar: Any, corners: np.ndarray, vertex_count: int, time: Any) -> np.ndarray | None:
    if not primvar or not primvar.HasValue():
        return None
    values = np.asarray(primvar.ComputeFlattened(time), np.float64)
    if values.ndim != 2 or values.shape[1] != 2:
        return None
    interpolation = primvar.GetInterpolation()
    if interpolation == "faceVarying" and len(values) == len(corners):
        return values
    if interpolation in ("vertex", "varying") and len(values) == vertex_count:
        return values[corners]
    return None


if __name__ == "__main__":
    run_child(_collect, *sys.argv[1:3])
