"""Fabrics side by side.

A strip of each fabric, clamped at one end, droops under its own weight. How far depends on one length only,
c = (D / (rho g))^(1/3), the bending length that testers report, and follows from the elastica.
"""

# %%
import os

import numpy as np
from scipy.integrate import solve_bvp

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"
LENGTH, WIDTH, G = 0.06, 0.02, 9.81  # [m], [m], [m/s^2]
CELLS = 12 if SMALL else 24  # cells along the strip; the same size across it

# %% [markdown]
# The first two rows of vertices are pinned, which clamps the direction of the strip as well as its position.


# %%
def droop(fabric: str) -> float:
    """Drop of the free end below the clamp at rest, relative to the length."""
    cell = LENGTH / CELLS
    scene = toile.Scene(
        name="cantilever",
        time={"frames": 90},
        cloth=[
            {
                "shape": {"type": "grid", "size": (LENGTH + cell, WIDTH), "resolution": (CELLS + 2, CELLS // 3 + 1)},
                "fabric": fabric,
            }
        ],
        constraints=[{"type": "pin", "where": {"box": [[-1, -1, -1], [1.01 * cell - (LENGTH + cell) / 2, 1, 1]]}}],
        forces=[{"type": "viscous", "rate": 8.0}],
    )
    *_, last = toile.Simulation(scene).run()
    return -last.positions[:, 2].min() / LENGTH


# %% [markdown]
# The elastica of a heavy strip: theta'' = -(L/c)^3 (1 - s) cos(theta), from the clamp, theta(0) = 0, to the free end,
# theta'(1) = 0; s is the length along the strip over L.


# %%
def elastica(length: float) -> float:
    """The theoretical drop of a strip of bending length `length` [m]."""
    weight = (LENGTH / length) ** 3
    s = np.linspace(0.0, 1.0, 200)
    solution = solve_bvp(
        lambda s, y: np.array([y[1], -weight * (1.0 - s) * np.cos(y[0])]),
        lambda clamp, end: np.array([clamp[0], end[1]]),
        s,
        np.array([np.minimum(1.4, weight * s), 0.0 * s]),
    )
    return float(np.trapezoid(np.sin(solution.sol(s)[0]), s))


# %%
print("fabric                c [mm]   droop / length   elastica")
for name in ("polyester_faille", "wool_tropical", "cotton_broad", "royal_target"):
    fabric = toile.Scene(cloth=[{"shape": "grid", "fabric": name}]).cloth[0].fabric
    c = (fabric.bend_warp / (fabric.density * G)) ** (1 / 3)
    print(f"{name:<20}  {1e3 * c:>6.1f}   {droop(name):>14.3f}   {elastica(c):>8.3f}")

# %% [markdown]
# The strips droop by 2 to 6 % more: a grid that is free to twist bends with 5/6 of the rigidity of a plate
# ([validation](../validation.md)), and the free length is half a cell longer.
