"""A first run from Python.

Load a shipped scene, iterate over its frames, and read the certificate.
"""

# %%
import os

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"  # the tests run the same script on a coarse sheet

# %% [markdown]
# `toile.load` takes the name of a shipped scene or a file. `overrides` change single values, as `--set` does on the
# command line; they are checked like all values of the scene.

# %%
overrides = ["cloth[0].shape.resolution=[13, 13]", "time.frames=15"] if SMALL else []
scene = toile.load("hang", overrides=overrides)
print(scene.name, "-", scene.about)

# %% [markdown] A simulation yields its frames. Positions and velocities are NumPy arrays with one row per vertex, in
# meters and meters per second; `certificate` is the entry of the frame in the certificate, which the start does not
# have.

# %%
simulation = toile.Simulation(scene)
for frame in simulation.run():
    if frame.certificate is not None and frame.number % 5 == 0:
        lowest = frame.positions[:, 2].min()
        strain = frame.certificate["strain"]["edge_max"]
        print(f"t = {frame.time:.2f} s   lowest point {lowest:.3f} m   longest edge {100 * strain:+.2f} %")

# %% [markdown]
# The certificate of the frames so far:

# %%
summary = simulation.report()["summary"]
print(f"{summary['frames']} frames in {summary['steps']} steps, {summary['rejected']} of them repeated")
print(f"{summary['ms_per_frame']:.1f} ms a frame, largest strain {100 * summary['max_strain']:.1f} %")
print("ok:", summary["ok"])
