"""Fabrics side by side.

A strip of each fabric, clamped at one end, droops under its own weight. How far it stands out depends on one length
only, c = (D / (rho g))^(1/3): the bending length that testers report.
"""

# %%
import os

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"
LENGTH, WIDTH, G = 0.2, 0.04, 9.81  # [m], [m], [m/s^2]
CELLS = 20

# %% [markdown]
# The first two rows of vertices are pinned: that clamps the strip's direction as well as its place.


# %%
def droop(fabric: str) -> float:
    """How far the free end hangs below the clamp at rest, relative to the length."""
    held = LENGTH / CELLS
    scene = toile.Scene(
        name="cantilever",
        time={"frames": 25 if SMALL else 90},
        cloth=[
            {
                "shape": {"type": "grid", "size": (LENGTH + held, WIDTH), "resolution": (CELLS + 2, 5)},
                "fabric": fabric,
            }
        ],
        constraints=[{"type": "pin", "where": {"box": [[-1, -1, -1], [1.01 * held - (LENGTH + held) / 2, 1, 1]]}}],
        forces=[{"type": "viscous", "rate": 8.0}],
    )
    *_, last = toile.Simulation(scene).run()
    return -last.positions[:, 2].min() / LENGTH


# %%
print("fabric                c [mm]   droop / length")
rows = []
for name in ("royal_target", "cotton", "denim", "11oz_black_denim"):
    fabric = toile.Scene(cloth=[{"shape": "grid", "fabric": name}]).cloth[0].fabric
    rows.append(((fabric.bend_warp / (fabric.density * G)) ** (1 / 3), name, droop(name)))
for length, name, drooping in sorted(rows):
    print(f"{name:<20}  {1e3 * length:>6.1f}   {drooping:>14.2f}")
