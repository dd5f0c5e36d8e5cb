"""Export and render a finished run.

The folder of a run contains its cache, from which pictures, films and other formats can be made later.
"""

# %%
import os
from pathlib import Path

import numpy as np

import toile
from toile.runs.folder import RunFolder, export_run, render_run

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"

# %%
overrides = ["outputs=[]", *(["cloth[0].shape.resolution=[11, 11]", "time.frames=4"] if SMALL else [])]
folder = Path("out/exported")
toile.run(toile.load("hang", overrides=overrides), folder)

# %% [markdown]
# Other formats, by the names that `toile list outputs` shows:

# %%
for path in export_run(folder, ["npz", "obj"], folder / "formats"):
    print(path)

# %% [markdown]
# A picture of any frame. The options are those of the output `picture`; a file that ends in .mp4 is a film.

# %%
size = {"width": 160, "height": 120, "samples": 1} if SMALL else {"width": 1280, "height": 960, "samples": 8}
print(render_run(folder, folder / "start.png", frame=0, **size))
print(render_run(folder, folder / "close.png", look_from=(1.2, -1.6, 1.6), look_at=(0.0, 0.0, 1.0), **size))

# %% [markdown]
# The run itself can be read as well: its surface, its frames, its certificate.

# %%
run = RunFolder(folder)
surface = run.surface()
print(f"{surface.vertex_count} vertices, {len(surface.triangles)} triangles, {run.frame_count} frames")
stored = np.load(next((folder / "formats").glob("*.npz")))["positions"]
apart = max(np.abs(stored[frame.number] - frame.positions).max() for frame in run.frames())
print(f"NPZ and cache differ by at most {apart:.1g} m")
