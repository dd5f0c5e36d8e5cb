"""Render one frame of a run in Blender, with a camera and lights that fit it.

    blender --background --python render_frame.py -- SOURCE FRAME PICTURE [CHECKS]

SOURCE is the folder of a run, or one of its exports (.usdc, .abc, .glb). CHECKS is the size [m] of a checker pattern on
the cloths, by their uv. The pictures of docs/blender.md are made in this way.
"""

import math
import runpy
import sys
from pathlib import Path

import bpy
from mathutils import Vector

WIDTH, HEIGHT = 640, 480
FPS = 30  # for runs without a frame rate; Alembic and glTF store seconds
SAMPLES = 16  # samples per pixel, before denoising
VIEW = Vector((-0.48, 0.84, -0.30)).normalized()  # from the camera to the cloth
LENS = 50.0  # [mm]
FILLED = 0.8  # share of the height of the picture that the scene fills
GRAY = (0.32, 0.305, 0.285)


def render(source, frame, picture, checks):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps = FPS
    bring_in(source)
    scene.frame_set(frame)
    low, high = bounds()
    for mesh in bpy.data.meshes:
        if not mesh.materials:  # Alembic has none
            mesh.materials.append(plain("cloth", (0.456, 0.067, 0.042)) if mesh.uv_layers else plain("solid", GRAY))
    if checks:
        for material in {m for made in bpy.data.objects if made.type == "MESH" for m in uv_materials(made.data)}:
            check(material, checks)
    add_floor(low)
    add_camera(low, high)
    add_lights(low, high)
    scene.render.engine = "CYCLES"
    scene.cycles.samples, scene.cycles.use_denoising = SAMPLES, True
    scene.render.resolution_x, scene.render.resolution_y = WIDTH, HEIGHT
    scene.view_settings.view_transform = "Standard"
    scene.render.image_settings.file_format = "JPEG" if picture.endswith(".jpg") else "PNG"
    scene.render.filepath = str(Path(picture).resolve())
    bpy.ops.render.render(write_still=True)


def bring_in(source):
    kind = Path(source).suffix
    if kind.startswith(".usd"):
        bpy.ops.wm.usd_import(filepath=source)
    elif kind == ".abc":
        bpy.ops.wm.alembic_import(filepath=source)
    elif kind == ".glb":
        bpy.ops.import_scene.gltf(filepath=source)
    else:
        runpy.run_path(str(Path(__file__).with_name("load_run.py")))["load_run"](source)


def uv_materials(mesh):
    return [material for material in mesh.materials if mesh.uv_layers and material]


def check(material, size):
    """Two shades of its color in squares of this size, by its uv in meters."""
    nodes = material.node_tree.nodes
    shader = next(node for node in nodes if node.type == "BSDF_PRINCIPLED")
    color = Vector(shader.inputs["Base Color"].default_value)
    pattern, place = nodes.new("ShaderNodeTexChecker"), nodes.new("ShaderNodeTexCoord")
    pattern.inputs["Color1"].default_value = color
    pattern.inputs["Color2"].default_value = color.lerp(Vector((1.0, 1.0, 1.0, 1.0)), 0.6)
    pattern.inputs["Scale"].default_value = 1.0 / size
    material.node_tree.links.new(place.outputs["UV"], pattern.inputs["Vector"])
    material.node_tree.links.new(pattern.outputs["Color"], shader.inputs["Base Color"])


def bounds():
    """The bounding box of the scene at this frame."""
    graph = bpy.context.evaluated_depsgraph_get()
    shown = [made.evaluated_get(graph) for made in bpy.data.objects if made.type == "MESH"]
    points = [made.matrix_world @ vertex.co for made in shown for vertex in made.data.vertices]
    return [Vector(f(point[i] for point in points) for i in range(3)) for f in (min, max)]


def add_floor(low):
    bpy.ops.mesh.primitive_plane_add(size=200.0, location=(0.0, 0.0, min(low.z, 0.0) - 1e-3))
    bpy.context.object.data.materials.append(plain("floor", (0.60, 0.59, 0.57)))


def add_camera(low, high):
    camera = bpy.data.cameras.new("camera")
    camera.lens = LENS
    made = bpy.data.objects.new("camera", camera)
    bpy.context.scene.collection.objects.link(made)
    half = math.atan(0.5 * camera.sensor_width * HEIGHT / WIDTH / LENS)
    distance = 0.5 * (high - low).length / math.sin(half) * 0.72 / FILLED
    made.location = 0.5 * (low + high) - distance * VIEW
    made.rotation_euler = VIEW.to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.camera = made


def add_lights(low, high):
    size = (high - low).length
    lamp = bpy.data.lights.new("lamp", "AREA")
    lamp.energy, lamp.size = 36.0 * size * size, 0.8 * size
    made = bpy.data.objects.new("lamp", lamp)
    made.location = 0.5 * (low + high) + size * Vector((-0.9, -0.7, 1.5))
    made.rotation_euler = (0.5 * (low + high) - made.location).to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.collection.objects.link(made)
    world = bpy.data.worlds.new("world")
    if not world.node_tree:  # before Blender 5.0
        world.use_nodes = True
    world.node_tree.nodes["Background"].inputs["Color"].default_value = (0.62, 0.68, 0.75, 1.0)
    world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.55
    bpy.context.scene.world = world


def plain(name, color):
    material = bpy.data.materials.new(name)
    if not material.node_tree:  # before Blender 5.0
        material.use_nodes = True
    shader = next(node for node in material.node_tree.nodes if node.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    shader.inputs["Roughness"].default_value = 0.9
    return material


if __name__ == "__main__":
    given = sys.argv[sys.argv.index("--") + 1 :]
    render(given[0], int(given[1]), given[2], float(given[3]) if len(given) > 3 else 0.0)
