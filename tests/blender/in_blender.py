"""Runs inside Blender: imports the file of each job, steps through frames, and writes the positions in Blender.

    blender --background --python in_blender.py -- JOBS.json RESULTS.json

A job is {"kind", "file", "frames", "fps"}; its result {"objects": {name: {frame: positions}}, ...} or {"error"} or
{"absent"} where this Blender was built without the format. Positions are those after all modifiers, in world space.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path

import bpy
from mathutils import Matrix

BUILT_WITH = {"usd": "usd", "alembic": "alembic"}


def do(job):
    kind = job["kind"]
    if kind in BUILT_WITH and not getattr(bpy.app.build_options, BUILT_WITH[kind]):
        return {"absent": f"Blender {bpy.app.version_string} was built without {kind}"}
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    if kind in ("alembic", "glb"):  # they hold seconds
        scene.render.fps = job["fps"]
    bring_in(kind, job["file"])
    shown = {"fps": scene.render.fps / scene.render.fps_base, "range": [scene.frame_start, scene.frame_end]}
    meshes = [made for made in bpy.data.objects if made.type == "MESH"]
    shown["objects"] = {made.name: {} for made in meshes}
    shown["materials"] = {made.name: [m.name for m in made.data.materials if m] for made in meshes}
    shown["properties"] = {
        made.name: {key: value for key, value in made.items() if isinstance(value, float)}
        for made in bpy.data.materials
    }
    shown["uv"] = {made.name: uv_of(made.data) for made in meshes}
    shown["faces"] = {made.name: [list(face.vertices) for face in made.data.polygons] for made in meshes}
    for frame in job["frames"]:
        scene.frame_set(frame)
        graph = bpy.context.evaluated_depsgraph_get()
        for name, found in shown["objects"].items():
            found[frame] = positions(bpy.data.objects[name].evaluated_get(graph))
    return shown


def bring_in(kind, file):
    if kind == "usd":
        bpy.ops.wm.usd_import(filepath=file)
    elif kind == "alembic":
        bpy.ops.wm.alembic_import(filepath=file)
    elif kind == "glb":
        bpy.ops.import_scene.gltf(filepath=file, merge_vertices=False)
    elif kind == "ply":
        (bpy.ops.wm.ply_import if "ply_import" in dir(bpy.ops.wm) else bpy.ops.import_mesh.ply)(filepath=file)
    elif kind == "pc2":
        bring_in_pc2(Path(file))
    else:
        script, folder = file
        sys.argv = ["blender", "--", folder]
        runpy.run_path(script, run_name="__main__")


def bring_in_pc2(folder):
    """Uses Blender's own importer and modifier, as a user would by hand."""
    rest = str(folder / "rest.obj")
    if bpy.app.version >= (4, 0, 0):
        bpy.ops.wm.obj_import(filepath=rest, forward_axis="Y", up_axis="Z", use_split_objects=False)
    else:
        bpy.ops.import_scene.obj(filepath=rest, axis_forward="Y", axis_up="Z", split_mode="OFF")
    (made,) = (made for made in bpy.data.objects if made.type == "MESH")
    modifier = made.modifiers.new("cache", "MESH_CACHE")
    modifier.cache_format, modifier.filepath = "PC2", str(folder / "cache.pc2")
    modifier.forward_axis, modifier.up_axis = "POS_Y", "POS_Z"
    modifier.frame_start = 0.0


def positions(made):
    mesh = made.to_mesh()
    flat = [0.0] * (3 * len(mesh.vertices))
    mesh.vertices.foreach_get("co", flat)
    rows = [flat[i : i + 3] for i in range(0, len(flat), 3)]
    if made.matrix_world != Matrix.Identity(4):
        rows = [list(made.matrix_world @ mesh.vertices[i].co) for i in range(len(rows))]
    made.to_mesh_clear()
    return rows


def uv_of(mesh):
    """The uv of each corner of each face."""
    return [list(corner.uv) for corner in mesh.uv_layers[0].data] if mesh.uv_layers else []


def main():
    jobs, results = sys.argv[sys.argv.index("--") + 1 :]
    found = {}
    for name, job in json.loads(Path(jobs).read_text()).items():
        try:
            found[name] = do(job)
        except BaseException:
            found[name] = {"error": traceback.format_exc()}
    Path(results).write_text(json.dumps({"version": list(bpy.app.version), "results": found}))


main()
