"""Positions in Blender are those of the run: USD, Alembic, GLB, PLY, the cache with its modifier, the import script.

These tests need Blender: TOILE_BLENDER names a `blender`, or a `python` that has the package bpy; otherwise one is
searched. Positions are compared in Blender's world space after all modifiers, frame by frame.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs.pc2 import Pc2
from toile.runs.folder import export_run

FPS, FRAMES = 25, 6
HERE = Path(__file__).parent
PLY_FRAMES = (0, FRAMES - 1)
SCRIPT = HERE.parents[1] / "examples" / "blender" / "load_run.py"
NAMES = ["front", "back", "table", "wedge"]  # cloths, then solids


def surface() -> Surface:
    """Two sheets with a discontinuity in uv, over a square at rest and a moving tetrahedron."""
    uv = np.array([[i / 3.0, j / 7.0] for j in range(3) for i in range(4)])
    quads = [j * 4 + i for j in range(2) for i in range(3)]
    triangles = np.array([t for a in quads for t in ((a, a + 1, a + 4), (a + 1, a + 5, a + 4))], np.int32)
    rest = np.concatenate([np.column_stack([uv, np.full(12, 0.2)]), np.column_stack([uv + 1.1, uv[:, 0] - 0.7])])
    corner_uv = np.concatenate([uv[triangles], uv[triangles]])
    corner_uv[15, 1] += 0.125
    parts = (
        Part("front", slice(0, 12), slice(0, 12), "cotton", {"density": (0.12, "kg/m^2")}),
        Part("back", slice(12, 24), slice(12, 24), "silk", {"density": (0.06, "kg/m^2")}),
    )
    square = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], float) / 3.0
    wedge = np.array([[0.3, 0, 0.1], [0.5, 0, 0.1], [0.3, 0.2, 0.1], [0.3, 0, 0.3]])
    solids = (
        SolidSurface("table", np.array([[0, 1, 2], [0, 2, 3]], np.int32), square, False),
        SolidSurface("wedge", np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32), wedge, True),
    )
    return Surface(np.concatenate([triangles, triangles + 12]), corner_uv, rest, parts, float(FPS), solids)


def moving(sheet: Surface) -> list[Frame]:
    phase = np.arange(sheet.vertex_count)[:, None] * np.array([0.3, 0.5, 0.7])
    frames = []
    for k in range(FRAMES):
        t = k / FPS
        solids = tuple(s.rest + t * np.array([1.0, 0.0, 3.0]) if s.moves else s.rest for s in sheet.solids)
        positions = sheet.rest + 0.1 * (np.sin(5.0 * t + phase) - np.sin(phase))
        frames.append(Frame(k, t, positions, 0.5 * np.cos(5.0 * t + phase), solids=solids))
    return frames


def command() -> list[str] | None:
    """The command that runs a script inside Blender, or None."""
    program = os.environ.get("TOILE_BLENDER") or shutil.which("blender")
    if not program:
        return None
    if Path(program).name.startswith("python"):
        return [program, str(HERE / "in_blender.py"), "--"]
    return [program, "--background", "--factory-startup", "--python", str(HERE / "in_blender.py"), "--"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of all formats, from one process of Blender."""
    folder = run(tmp_path_factory.mktemp("run"), "two sheets", surface(), moving(surface()))
    usd, alembic, glb, *plys = (str(path) for path in export_run(folder, ["usd", "alembic", "glb", "ply"]))
    files = {
        "usd": usd, "alembic": alembic, "glb": glb, "pc2": str(folder), "script": [str(SCRIPT), str(folder)],
        **{f"ply {k}": plys[k] for k in PLY_FRAMES},
    }  # fmt: skip
    return seen_by_blender(folder, files, list(range(FRAMES)))


def run(folder: Path, name: str, sheet: Surface, frames: list[Frame]) -> Path:
    if command() is None:
        pytest.skip("no Blender: neither TOILE_BLENDER nor a `blender` on the path")
    writer = Pc2().writer(folder, name, sheet)
    for frame in frames:
        writer.write(frame)
    writer.close()
    return folder


def seen_by_blender(folder: Path, files: dict[str, Any], frames: list[int]) -> dict[str, Any]:
    """`files` by their kind, which may be followed by options."""
    jobs = {name: {"kind": name.split()[0], "file": file, "fps": FPS, "frames": frames} for name, file in files.items()}
    (folder / "jobs.json").write_text(json.dumps(jobs))
    # Blender has its own Python, which must not find our packages.
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [*(command() or []), str(folder / "jobs.json"), str(folder / "results.json")],
        env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert (folder / "results.json").is_file(), done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def result(shown: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = shown["results"][name]
    if "absent" in found:
        pytest.skip(found["absent"])
    if shown["version"] < [4, 0] and "numpy" in found.get("error", ""):
        pytest.skip("this Blender's importer does not work with the NumPy it has, or has none")
    assert "error" not in found, found["error"]
    return found


def corners(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """The corners of each triangle from its smallest one on, independent of the corner that a program starts with."""
    rows = np.asarray(points, np.float32)[triangles]
    first = np.array([min(range(3), key=lambda i, row=row: tuple(row[i])) for row in rows])
    return np.take_along_axis(rows, ((first[:, None] + np.arange(3)) % 3)[:, :, None], axis=1)


def check(found: dict[str, Any], tolerance: float) -> None:
    """Compares every cloth and solid, at every frame."""
    sheet = surface()
    faces = [
        *(sheet.triangles[part.triangles] for part in sheet.parts), *(solid.triangles for solid in sheet.solids),
    ]  # fmt: skip
    assert sorted(found["objects"]) == sorted(NAMES)
    for frame in moving(sheet):
        points = [frame.positions, frame.positions, *frame.solids]
        for name, own, triangles in zip(NAMES, points, faces, strict=True):
            seen = corners(found["objects"][name][str(frame.number)], np.array(found["faces"][name]))
            np.testing.assert_allclose(seen, corners(own, triangles), rtol=0, atol=tolerance, err_msg=name)


def check_uv(found: dict[str, Any]) -> None:
    sheet = surface()
    for part in sheet.parts:
        uv = np.array(found["uv"][part.name]).reshape(-1, 3, 2)
        expected = sheet.uv[part.triangles]
        # Programs may start a face with any corner.
        np.testing.assert_allclose(np.sort(uv, axis=1), np.sort(expected, axis=1), atol=2e-7)


def test_usd(shown: dict[str, Any]) -> None:
    found = result(shown, "usd")
    check(found, 0.0)
    check_uv(found)
    assert found["range"] == [0, FRAMES - 1]
    assert found["materials"]["front"] == ["cotton"] and found["materials"]["back"] == ["silk"]


def test_alembic(shown: dict[str, Any]) -> None:
    found = result(shown, "alembic")
    check(found, 0.0)
    check_uv(found)


def test_glb(shown: dict[str, Any]) -> None:
    """Displacements of at most a meter and keyframe times are float32: 2^-24 of a meter, and of the motion in a
    frame."""
    found = result(shown, "glb")
    check(found, 2.0**-22)
    check_uv(found)
    assert found["materials"]["front"] == ["cotton"] and found["materials"]["back"] == ["silk"]


def test_ply(shown: dict[str, Any]) -> None:
    for frame in (moving(surface())[k] for k in PLY_FRAMES):
        found = result(shown, f"ply {frame.number}")
        ((name, seen),) = found["objects"].items()
        points = np.array(seen["0"], np.float32)
        np.testing.assert_array_equal(points[: len(frame.positions)], frame.positions.astype(np.float32))
        np.testing.assert_array_equal(points[-8:], np.concatenate(frame.solids).astype(np.float32))
        assert len(found["faces"][name]) == 24 + 6


def test_the_cache_by_hand(shown: dict[str, Any]) -> None:
    found = result(shown, "pc2")
    ((_, seen),) = found["objects"].items()
    for frame in moving(surface()):
        np.testing.assert_array_equal(np.float32(seen[str(frame.number)]), frame.positions.astype(np.float32))


def test_the_import_script(shown: dict[str, Any]) -> None:
    found = result(shown, "script")
    sheet = surface()
    assert sorted(found["objects"]) == ["solids", "two sheets"]
    for frame in moving(sheet):
        for name, points in (("two sheets", frame.positions), ("solids", np.concatenate(frame.solids))):
            seen = np.float32(found["objects"][name][str(frame.number)])
            np.testing.assert_array_equal(seen, points.astype(np.float32))
    assert found["faces"]["two sheets"] == sheet.triangles.tolist()
    np.testing.assert_allclose(np.reshape(found["uv"]["two sheets"], (-1, 3, 2)), sheet.uv, atol=1e-7)
    assert found["fps"] == FPS and found["range"] == [0, FRAMES - 1]
    assert found["materials"] == {"two sheets": ["cotton", "silk"], "solids": ["solid"]}
    assert found["properties"]["cotton"] == {"density [kg/m^2]": pytest.approx(0.12)}


@pytest.mark.slow
def test_a_hundred_frames_of_ten_thousand_vertices(tmp_path: Path) -> None:
    side, count = 100, 100
    u, v = np.meshgrid(np.linspace(0.0, 1.0, side), np.linspace(0.0, 1.0, side), indexing="xy")
    uv = np.column_stack([u.ravel(), v.ravel()])
    a = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    triangles = np.concatenate([np.stack([a, a + 1, a + side], 1), np.stack([a + 1, a + side + 1, a + side], 1)])
    rest = np.column_stack([uv, np.ones(len(uv))])
    part = Part("wave", slice(0, side * side), slice(0, len(triangles)))
    sheet = Surface(triangles.astype(np.int32), uv[triangles], rest, (part,), float(FPS))
    phase = 7.0 * rest[:, 0] + 5.0 * rest[:, 1]
    frames = []
    for k in range(count):
        up = np.outer(np.sin(phase - 4.0 * k / FPS), [0.02, 0.0, 0.1])
        frames.append(Frame(k, k / FPS, rest + up, 0.0 * rest))
    folder = run(tmp_path, "wave", sheet, frames)
    usd, alembic, glb = (str(path) for path in export_run(folder, ["usd", "alembic", "glb"]))
    files = {"usd": usd, "alembic": alembic, "glb": glb, "pc2": str(folder), "script": [str(SCRIPT), str(folder)]}
    shown = seen_by_blender(folder, files, [0, 37, count - 1])
    for kind in files:
        if "absent" in shown["results"][kind] or (kind == "glb" and shown["version"] < [4, 0]):
            continue
        ((_, seen),) = result(shown, kind)["objects"].items()
        for number, points in seen.items():
            exact = frames[int(number)].positions.astype(np.float32)
            np.testing.assert_allclose(np.float32(points), exact, rtol=0, atol=2.0**-24 if kind == "glb" else 0.0)
