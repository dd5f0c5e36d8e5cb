"""USD crate NAME.usdc: one mesh per cloth with a sample of its points per frame, for Blender, Houdini, Maya, Omniverse.

Solids are meshes beside the cloths, marked by the custom data `toile:solid`; a moving solid has samples as well.
Fabrics are prims in the scope `materials`, bound to the cloths made of them: a plain preview surface, and for each
property an attribute such as `toile:density` in SI units, with the unit as custom data `unit`.

The time code is the frame number, the unit of length is the meter, and z is up. `st` holds the flat coordinates of the
cloth in meters, one per triangle corner; the cloth's name in the scene is the display name of its prim, and the name of
its fabric is the custom data `toile:fabric`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs._atomic import Draft
from toile.outputs._materials import Material, materials
from toile.outputs._names import file_name, identifiers
from toile.outputs.base import Output, Writer
from toile.plugins import quantity
from toile.render.palette import ROUGHNESS


class Usd(Output):
    """Needs usd-core."""

    velocities: bool = quantity(True, doc="also write the velocity of every point, for motion blur")

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        try:
            import pxr  # noqa: F401
        except ImportError as error:
            raise InputError('output usd needs usd-core, which is not installed: pip install "toile[usd]"') from error
        return UsdWriter(folder / f"{file_name(name)}.usdc", name, surface, self.velocities)


class UsdWriter(Writer):
    """Keeps the stage in memory, in float32, until the end of the run."""

    def __init__(self, path: Path, name: str, surface: Surface, velocities: bool):
        self.surface, self.velocities = surface, velocities
        self.draft = Draft(path)
        self.stage = _stage(name, surface.fps)
        root = self.stage.GetDefaultPrim().GetPath()
        # The scope comes last, and gets another name if a cloth has this one.
        names = identifiers([*(part.name for part in surface.parts), *(s.name for s in surface.solids), "materials"])
        paths = [root.AppendChild(name) for name in names]
        cloths, solids = paths[: len(surface.parts)], paths[len(surface.parts) : -1]
        self.meshes = [
            (part.vertices, _cloth(self.stage, path, surface, part))
            for path, part in zip(cloths, surface.parts, strict=True)
        ]
        self.solids = [_solid(self.stage, path, solid) for path, solid in zip(solids, surface.solids, strict=True)]
        _bind_materials(self.stage, paths[-1], surface, [*(mesh for _, mesh in self.meshes), *self.solids])

    def write(self, frame: Frame) -> None:
        from pxr import Usd as pxr_usd
        from pxr import Vt

        self.stage.SetEndTimeCode(frame.number)
        now = pxr_usd.TimeCode(frame.number)
        for vertices, mesh in self.meshes:
            _place(mesh, frame.positions[vertices], now)
            if self.velocities:
                velocities = np.ascontiguousarray(frame.velocities[vertices], np.float32)
                mesh.GetVelocitiesAttr().Set(Vt.Vec3fArray.FromNumpy(velocities), now)
        for solid, mesh, points in zip(self.surface.solids, self.solids, self.surface.solids_at(frame), strict=True):
            if solid.moves:
                _place(mesh, points, now)

    def close(self) -> list[Path]:
        from pxr import Tf

        with self.draft.finishing():
            try:
                written = self.stage.GetRootLayer().Export(str(self.draft.part))
            except Tf.ErrorException as error:
                # It lists every write that failed; the first has the cause.
                reason = error.args[0].commentary if error.args else "no reason given"
                raise ToileError(f"{self.draft.path}: USD cannot write it: {reason}. Check the disk.") from error
            if not written:
                raise ToileError(f"{self.draft.path}: USD cannot write it. Check the disk.")
        return [self.draft.path]

    def discard(self) -> None:
        self.draft.discard()


def _stage(name: str, fps: float) -> Any:
    from pxr import Usd as pxr_usd
    from pxr import UsdGeom

    stage = pxr_usd.Stage.CreateInMemory(".usdc")
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    stage.SetTimeCodesPerSecond(fps)
    stage.SetFramesPerSecond(fps)
    stage.SetStartTimeCode(0)
    stage.SetEndTimeCode(0)
    root = UsdGeom.Xform.Define(stage, f"/{identifiers([name])[0]}").GetPrim()
    root.SetDisplayName(name)
    stage.SetDefaultPrim(root)
    return stage


def _cloth(stage: Any, path: Any, surface: Surface, part: Part) -> Any:
    """Defines the mesh of a cloth with everything that does not change."""
    from pxr import Sdf, UsdGeom, Vt

    mesh = _mesh(stage, path, part.name, surface.triangles[part.triangles] - part.vertices.start)
    mesh.GetPrim().SetCustomDataByKey("toile:fabric", part.fabric)
    uv = np.ascontiguousarray(surface.uv[part.triangles].reshape(-1, 2), np.float32)
    st = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.faceVarying)
    st.Set(Vt.Vec2fArray.FromNumpy(uv))
    return mesh


def _bind_materials(stage: Any, scope: Any, surface: Surface, meshes: list[Any]) -> None:
    from pxr import UsdGeom, UsdShade

    found, numbers = materials(surface)
    if not found:
        return
    UsdGeom.Scope.Define(stage, scope)
    names = identifiers([material.name for material in found])
    made = [_material(stage, scope.AppendChild(name), material) for name, material in zip(names, found, strict=True)]
    for mesh, number in zip(meshes, numbers, strict=True):
        UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(made[number])
        mesh.CreateDisplayColorAttr([found[number].color])


def _material(stage: Any, path: Any, about: Material) -> Any:
    from pxr import Sdf, UsdShade

    material = UsdShade.Material.Define(stage, path)
    prim = material.GetPrim()
    prim.SetDisplayName(about.name)
    for key, (value, unit) in about.properties.items():
        attribute = prim.CreateAttribute(f"toile:{key}", Sdf.ValueTypeNames.Double, custom=True)
        attribute.Set(value)
        attribute.SetCustomDataByKey("unit", unit)
    shader = UsdShade.Shader.Define(stage, path.AppendChild("surface"))
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(about.color)
    shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(ROUGHNESS)
    material.CreateSurfaceOutput().ConnectToSource(shader.CreateOutput("surface", Sdf.ValueTypeNames.Token))
    return material


def _solid(stage: Any, path: Any, solid: SolidSurface) -> Any:
    from pxr import Usd as pxr_usd

    mesh = _mesh(stage, path, solid.name, solid.triangles)
    mesh.GetPrim().SetCustomDataByKey("toile:solid", True)
    if not solid.moves:
        _place(mesh, solid.rest, pxr_usd.TimeCode.Default())
    return mesh


def _place(mesh: Any, positions: np.ndarray, when: Any) -> None:
    """Sets points and their bounds, at a time or for all times."""
    from pxr import Vt

    points = np.ascontiguousarray(positions, np.float32)
    mesh.GetPointsAttr().Set(Vt.Vec3fArray.FromNumpy(points), when)
    extent = np.stack([points.min(axis=0), points.max(axis=0)])
    mesh.GetExtentAttr().Set(Vt.Vec3fArray.FromNumpy(extent), when)


def _mesh(stage: Any, path: Any, name: str, triangles: np.ndarray) -> Any:
    from pxr import UsdGeom, Vt

    triangles = np.ascontiguousarray(triangles, np.int32)
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.GetPrim().SetDisplayName(name)
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    mesh.CreateDoubleSidedAttr(True)
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(triangles), 3, np.int32)))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(triangles.ravel()))
    return mesh
