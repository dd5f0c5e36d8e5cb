"""Load the folder of a run into Blender: cloths, solids, frame rate, frame range, units and a material per fabric.

    blender --python load_run.py -- RUN                          opens Blender with the run in it
    blender --background --python load_run.py -- RUN FILE.blend  writes a .blend instead

Or paste this into Blender's text editor, write the folder after `RUN =` and press Run. It needs Blender 3.4 or newer.

The cloths of a run are one object, and so are its solids, because a point cache belongs to a whole mesh: rest.obj has
faces and uv, and cache.pc2 the positions for a Mesh Cache modifier. They are not copied, so the folder must remain.
Frame n of the scene is frame n of the run.
"""

import json
import math
import struct
import sys
from pathlib import Path

import bpy

RUN = ""  # the folder, if this is pasted into the text editor

# Linear red, green and blue of the cloths in turn, as in the pictures of Toile.
COLORS = ((0.042, 0.156, 0.376), (0.456, 0.067, 0.042), (0.078, 0.254, 0.105), (0.584, 0.275, 0.027))
SOLID_COLOR = (0.32, 0.305, 0.285)
SHARP = math.radians(40.0)  # solids have a sharp edge between faces at a larger angle


def load_run(folder):
    """Returns the new objects, cloth first."""
    folder = Path(folder).resolve()
    head, cloths = read_obj(folder / "rest.obj")
    frames = frame_count(folder / "cache.pc2")
    set_scene(head["fps"], frames)
    collection = bpy.data.collections.new(head["name"])
    bpy.context.scene.collection.children.link(collection)
    objects = [add_mesh(collection, cloths[0]["name"] if len(cloths) == 1 else head["name"], cloths)]
    add_cache(objects[0], folder / "cache.pc2")
    if (folder / "solids.obj").is_file():
        _, solids = read_obj(folder / "solids.obj")
        objects.append(add_mesh(collection, solids[0]["name"] if len(solids) == 1 else "solids", solids, SHARP))
        if (folder / "solids.pc2").is_file():
            add_cache(objects[1], folder / "solids.pc2")
    return objects


def read_obj(path):
    """Returns the first line of a file, and its pieces in order: their name, fabric, vertices, uv and faces."""
    head, pieces = {}, []
    for line in path.read_text(encoding="utf-8").split("\n"):
        type_name, _, rest = line.partition(" ")
        if line.startswith("# toile "):
            head = json.loads(line[len("# toile ") :])
        elif line.startswith(("# part ", "# solid ")):  # the comment after each `o`
            pieces.append({"vertices": [], "uv": [], "faces": [], "fabric": "", "values": {}})
            pieces[-1].update(json.loads(rest.partition(" ")[2]))
        elif type_name == "v":
            pieces[-1]["vertices"].append([float(x) for x in rest.split()])
        elif type_name == "vt":
            pieces[-1]["uv"].append([float(x) for x in rest.split()])
        elif type_name == "f":
            pieces[-1]["faces"].append([[int(i) - 1 for i in corner.split("/")] for corner in rest.split()])
    if not head:
        raise SystemExit(f"{path}: not written by a run of Toile.")
    return head, pieces


def frame_count(path):
    """The number of samples in the header of a PC2 file."""
    with path.open("rb") as file:
        return struct.unpack("<12siiffi", file.read(32))[-1]


def set_scene(fps, frames):
    scene = bpy.context.scene
    scene.render.fps = max(1, round(fps))
    scene.render.fps_base = scene.render.fps / fps
    scene.frame_start, scene.frame_end = 0, frames - 1
    scene.unit_settings.system, scene.unit_settings.scale_length = "METRIC", 1.0
    scene.frame_set(0)


def add_mesh(collection, name, pieces, sharp=None):
    """Adds all pieces as one mesh, in their order, with a vertex group and a material for each."""
    mesh = bpy.data.meshes.new(name)
    vertices = [vertex for piece in pieces for vertex in piece["vertices"]]
    faces = [face for piece in pieces for face in piece["faces"]]
    mesh.from_pydata(vertices, [], [[corner[0] for corner in face] for face in faces])
    uv = [pair for piece in pieces for pair in piece["uv"]]
    if uv:
        corners = [x for face in faces for corner in face for x in uv[corner[1]]]
        mesh.uv_layers.new(name="st").data.foreach_set("uv", corners)
    mesh.polygons.foreach_set("use_smooth", [True] * len(faces))
    if sharp is not None:
        show_edges(mesh, sharp)
    made = bpy.data.objects.new(name, mesh)
    collection.objects.link(made)
    vertex = face = 0
    for number, piece in enumerate(pieces):
        group = made.vertex_groups.new(name=piece["name"])
        group.add(range(vertex, vertex + len(piece["vertices"])), 1.0, "REPLACE")
        slot = slot_of(mesh, piece, number)
        mesh.polygons.foreach_get("material_index", index := [0] * len(faces))
        index[face : face + len(piece["faces"])] = [slot] * len(piece["faces"])
        mesh.polygons.foreach_set("material_index", index)
        vertex, face = vertex + len(piece["vertices"]), face + len(piece["faces"])
    return made


def show_edges(mesh, angle):
    if hasattr(mesh, "set_sharp_from_angle"):
        mesh.set_sharp_from_angle(angle=angle)
    else:  # before Blender 4.1
        mesh.use_auto_smooth, mesh.auto_smooth_angle = True, angle


def slot_of(mesh, piece, number):
    """Returns the slot of the material of a fabric, or of solids; its values in SI units are custom properties."""
    name = piece["fabric"] or ("solid" if "moves" in piece else "cloth")
    if name not in mesh.materials:
        material = bpy.data.materials.new(name)
        color = (*(SOLID_COLOR if "moves" in piece else COLORS[number % len(COLORS)]), 1.0)
        material.diffuse_color, material.roughness = color, 0.9
        if not material.node_tree:  # before Blender 5.0
            material.use_nodes = True
        shader = next(node for node in material.node_tree.nodes if node.type == "BSDF_PRINCIPLED")
        shader.inputs["Base Color"].default_value = color
        shader.inputs["Roughness"].default_value = 0.9
        for key, (value, unit) in piece["values"].items():
            material[f"{key} [{unit}]" if unit else key] = value
        mesh.materials.append(material)
        return len(mesh.materials) - 1
    return list(mesh.materials.keys()).index(name)


def add_cache(made, path):
    modifier = made.modifiers.new("run", "MESH_CACHE")
    modifier.cache_format, modifier.filepath = "PC2", str(path)
    modifier.forward_axis, modifier.up_axis = "POS_Y", "POS_Z"  # no conversion: z is up in both
    modifier.deform_mode, modifier.interpolation = "OVERWRITE", "LINEAR"
    modifier.play_mode, modifier.time_mode = "SCENE", "FRAME"
    modifier.frame_start, modifier.frame_scale = 0.0, 1.0


def main():
    given = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    folder = given[0] if given else RUN
    if not folder:
        raise SystemExit("Which run? blender --python load_run.py -- RUN")
    if len(given) > 1 or bpy.app.background:
        for made in list(bpy.data.objects):  # the cube, lamp and camera of an empty file
            bpy.data.objects.remove(made)
    for made in load_run(folder):
        print(f"{made.name}: {len(made.data.vertices)} vertices")
    if len(given) > 1:
        bpy.ops.wm.save_as_mainfile(filepath=str(Path(given[1]).resolve()))
        print(given[1])


if __name__ == "__main__":
    main()
