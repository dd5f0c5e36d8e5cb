"""A box that moves by a quarter of a meter a frame, written as a vertex sequence in every format that Toile reads."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toile.model import solid_shapes as shapes

POSITIONS, TRIANGLES = shapes.box((1.0, 2.0, 3.0))
FRAMES = np.array([POSITIONS + 0.25 * k for k in range(5)])  # quarters: exact in float32


def write_npz(folder: Path) -> str:
    np.savez(folder / "body.npz", positions=FRAMES, triangles=TRIANGLES, fps=24)
    return "body.npz"


def write_pc2(folder: Path, rate: float = 1.0) -> str:
    header = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 8, 0.0, rate, len(FRAMES))
    (folder / "body.pc2").write_bytes(header + FRAMES.astype("<f4").tobytes())
    return "body.pc2"


def obj_text(positions: np.ndarray) -> str:
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in positions.tolist()]
    return "\n".join([*lines, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in TRIANGLES.tolist()), ""])


def write_obj(folder: Path, first: int = 8, digits: int = 4) -> str:
    for k, positions in enumerate(FRAMES):
        (folder / f"body_{first + k:0{digits}}.obj").write_text(obj_text(positions))
    return f"body_{'#' * digits}.obj"


def write_usd(folder: Path, codes: Any = range(1, 6), frames: np.ndarray = FRAMES, **changes: Any) -> str:
    pytest.importorskip("pxr", reason="usd-core is an optional extra")
    from pxr import Gf, Usd, UsdGeom

    stage = Usd.Stage.CreateNew(str(folder / "body.usda"))
    UsdGeom.SetStageMetersPerUnit(stage, changes.get("unit", 1.0))
    UsdGeom.SetStageUpAxis(stage, changes.get("up", UsdGeom.Tokens.z))
    stage.SetTimeCodesPerSecond(24)
    parent = UsdGeom.Xform.Define(stage, "/actor")
    mesh = UsdGeom.Mesh.Define(stage, "/actor/body")
    if "moves" in changes:
        op = parent.AddTranslateOp()
        for code, move in changes["moves"].items():
            op.Set(Gf.Vec3d(*move), code)
    for code, points in zip(codes, frames, strict=True):
        mesh.GetPointsAttr().Set(points.astype(np.float32), float(code))
    if not len(frames):
        mesh.GetPointsAttr().Set(POSITIONS.astype(np.float32))
    mesh.GetFaceVertexCountsAttr().Set([3] * len(TRIANGLES))
    mesh.GetFaceVertexIndicesAttr().Set(TRIANGLES.ravel())
    stage.GetRootLayer().Save()
    return "body.usda"


def npz_bytes(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def pc2(version: int = 1, points: int = 8, samples: int = 5, data: int = 480) -> bytes:
    return struct.pack("<12siiffi", b"POINTCACHE2\0", version, points, 0.0, 1.0, samples) + bytes(data)
