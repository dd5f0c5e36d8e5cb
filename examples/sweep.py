"""A parameter sweep.

Run one scene at several values of a parameter and print a table: here the error of a swinging sheet relative to a run
with small steps, for two integrators and several steps.
"""

# %%
import os

import numpy as np

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"
resolution, frames, finest = (9, 6, 1 / 480) if SMALL else (21, 30, 1 / 1920)

# %% [markdown]
# The parameters are arguments; everything else is the scene.


# %%
def swing(integrator: str, step: float) -> np.ndarray:
    """Positions in all frames."""
    overrides = [
        f"cloth[0].shape.resolution=[{resolution}, {resolution}]",
        f"time={{frames: {frames}, fps: 30, max_step: {step}}}",
        f"integrator={integrator}",
    ]
    simulation = toile.Simulation(toile.load("swing", overrides=overrides))
    return np.array([frame.positions for frame in simulation.run()])


# %% [markdown]
# The error is that of the center of the cloth, root mean square over the frames.

# %%
exact = swing("implicit_bdf2", finest).mean(axis=1)
print(f"{'step':>8}  {'implicit_euler':>15}  {'implicit_bdf2':>15}")
for steps_per_second in (30, 60, 120):
    errors = []
    for integrator in ("implicit_euler", "implicit_bdf2"):
        center = swing(integrator, 1.0 / steps_per_second).mean(axis=1)
        errors.append(np.sqrt(np.mean(np.sum((center - exact) ** 2, axis=1))))
    print(f"{'1/' + str(steps_per_second) + ' s':>8}  {100 * errors[0]:>12.2f} cm  {100 * errors[1]:>12.2f} cm")

# %% [markdown]
# Many values can be run in parallel: [make a dataset of many runs](../howto/dataset.md).
