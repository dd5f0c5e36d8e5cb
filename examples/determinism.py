"""Determinism.

On the CPU a scene gives the same positions, to the last bit, in every run. Its certificate contains a hash of all
input, which shows whether two results have the same input.
"""

# %%
import hashlib
import os

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"


# %%
def digest(scene: toile.Scene) -> tuple[str, str]:
    """The hash of the input, and one of all positions."""
    simulation = toile.Simulation(scene)
    found = hashlib.sha256()
    for frame in simulation.run():
        found.update(frame.positions.tobytes())
    return simulation.report()["hash"][:16], found.hexdigest()[:16]


# %% [markdown]
# A flag in a gusting wind: gusts are random, from the seed of the scene.

# %%
small = ["cloth[0].shape.resolution=[13, 9]", "time.frames=10"] if SMALL else ["time.frames=30"]
print("seed   input              positions")
for seed in (0, 0, 1):
    before, after = digest(toile.load("flag", overrides=[*small, f"seed={seed}"]))
    print(f"{seed:>4}   {before}   {after}")
