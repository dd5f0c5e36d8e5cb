"""Forces in pins.

Constraints are exact, and so are their forces: at rest the pins carry the weight of the cloth.
"""

# %%
import os

import numpy as np

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"
n = 9 if SMALL else 31

# %%
scene = toile.Scene(
    name="hung",
    time={"frames": 60 if SMALL else 120, "fps": 30},
    cloth=[
        {
            "name": "sheet",
            "shape": {"type": "grid", "size": (1.0, 1.0), "resolution": (n, n)},
            "rotation": (90, 0, 0),
            "fabric": "denim",
        }
    ],
    constraints=[{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
    forces=[{"type": "viscous", "rate": 3.0}],
)
simulation = toile.Simulation(scene)
weight = simulation.model.masses.sum() * 9.81

# %% [markdown]
# `constraint_forces` gives the force of the last step on every particle; it is zero on free particles.

# %%
print(f"weight {weight:.3f} N")
print("time [s]   left pin: along x, y, z [N]   right pin: along x, y, z [N]   upwards, both [N]")
for frame in simulation.run():
    if frame.number % (10 if SMALL else 20) == 0 and frame.number > 0:
        forces = simulation.constraint_forces()
        left, right = forces[np.flatnonzero(np.linalg.norm(forces, axis=1))]
        forces_text = [" ".join(f"{component:+7.3f}" for component in pin) for pin in (left, right)]
        print(f"{frame.time:>8.2f}   {forces_text[0]:<27}   {forces_text[1]:<28}   {left[2] + right[2]:>17.3f}")

# %% [markdown]
# Horizontally the two pull against each other, because the sheet between them pulls inwards.

# %%
print(f"carried: {100 * (left + right)[2] / weight:.2f} % of the weight, sideways {left[0]:+.3f} and {right[0]:+.3f} N")
