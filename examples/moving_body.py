"""A body that moves and deforms.

Any triangle mesh is a solid. Keyframes move it as a whole; a vertex sequence deforms it.
"""

# %%
import os
from pathlib import Path

import numpy as np

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"
folder = Path("out/moving_body")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# The body is a torus here, written as an OBJ file in meters, with triangles counterclockwise when seen from outside.
# Yours may come from Blender or any other program.

# %%
around, along, large, thin = 48, 20, 0.25, 0.09
phi, theta = np.meshgrid(
    np.linspace(0, 2 * np.pi, around, endpoint=False), np.linspace(0, 2 * np.pi, along, endpoint=False), indexing="ij"
)
reach = large + thin * np.cos(theta)
rest = np.stack([reach * np.cos(phi), reach * np.sin(phi), thin * np.sin(theta)], axis=-1).reshape(-1, 3)
triangles = []
for i in range(around):
    for j in range(along):
        a, b = i * along + j, (i + 1) % around * along + j
        c, d = (i + 1) % around * along + (j + 1) % along, i * along + (j + 1) % along
        triangles += [(a, b, c), (a, c, d)]
with (folder / "body.obj").open("w") as file:
    file.writelines(f"v {x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in rest)
    file.writelines(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in triangles)

# %% [markdown]
# Its deformation is the position of every vertex in every frame, as an NPZ with the array `positions`. PC2, USD and
# numbered OBJ or PLY files work as well. This body expands and shrinks by a tenth, once a second.

# %%
fps, frames = 24, 48
swelling = 1.0 + 0.1 * np.sin(2 * np.pi * np.arange(frames + 1) / fps)
np.savez(folder / "body.npz", positions=swelling[:, None, None] * rest, fps=fps)

# %% [markdown]
# The scene names both files. Paths are relative to its folder, so it is written there, and loaded like any other.

# %%
n = 15 if SMALL else 51
(folder / "scene.yaml").write_text(
    f"""
version: 1
name: moving_body
time: {{frames: {12 if SMALL else 60}}}
cloth:
  - {{shape: {{type: grid, size: [0.9, 0.9], resolution: [{n}, {n}]}}, translation: [0, 0, 0.5], fabric: cotton}}
solids:
  - type: mesh
    name: body
    file: body.obj
    friction: 0.5
    translation: [0, 0, 0.35]
    sequence: {{file: body.npz, fps: {fps}}}
    motion: {{keyframes: [{{time: 0.5}}, {{time: 2.0, rotation: [0, 0, 90]}}]}}
constraints:
  - {{type: solid_contact, thickness: 0.004}}
""",
    encoding="utf-8",
)
result = toile.run(toile.load(folder / "scene.yaml"), folder / "run")

# %% [markdown]
# The certificate describes the contact with the body: vertices in contact, the force on it, and the largest depth of a
# vertex.

# %%
for entry in result.report["frames"][:: 4 if SMALL else 10]:
    body = entry["solids"]["body"]
    contacts, force, depth = body["contacts"], body["force"][2], 1e3 * body["depth"]
    print(f"t = {entry['time']:.2f} s   {contacts:4d} contacts   {force:+.2f} N   {depth:.2f} mm deep")
print("ok:", result.report["summary"]["ok"])
