"""The drape coefficient of a fabric.

A round sample, 30 cm wide, hangs over a disc 18 cm wide. The drape coefficient is the share of the overhanging ring
that its shadow still covers: 100 % for a board, 0 % for cloth without stiffness.
"""

# %%
import os

import numpy as np

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"
SAMPLE, SUPPORT = 0.15, 0.09  # radii [m]

# %% [markdown]
# The sample starts flat on the support and is left to itself until the air has slowed it.


# %%
def settled(fabric: str) -> np.ndarray:
    """Positions of the sample at rest."""
    scene = toile.Scene(
        name="drape_tester",
        time={"frames": 15 if SMALL else 60},
        cloth=[
            {
                "shape": {"type": "disc", "radius": SAMPLE, "rings": 8 if SMALL else 16},
                "translation": (0.0, 0.0, 0.302),
                "fabric": fabric,
            }
        ],
        solids=[{"type": "cylinder", "radius": SUPPORT, "height": 0.3, "rounding": 0.002, "translation": (0, 0, 0.15)}],
        forces=[{"type": "drag"}, {"type": "viscous", "rate": 4.0}],
    )
    *_, last = toile.Simulation(scene).run()
    return last.positions


# %% [markdown]
# Seen from above, the rim is a curve around the axis: the area inside is the integral of r^2/2 over the angle.


# %%
def drape_coefficient(positions: np.ndarray) -> float:
    x, y = positions[:, 0], positions[:, 1]
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    sectors = 72
    sector = ((angle + np.pi) / (2 * np.pi) * sectors).astype(int) % sectors
    reach = np.full(sectors, SUPPORT)
    np.maximum.at(reach, sector, radius)
    shadow = np.sum(reach**2) * np.pi / sectors
    return (shadow - np.pi * SUPPORT**2) / (np.pi * (SAMPLE**2 - SUPPORT**2))


# %%
print("fabric               D warp [N m]   density [kg/m^2]   drape coefficient")
fabrics = ("polyester_faille", "wool_tropical", "cotton_broad", "royal_target")
for name in fabrics[::3] if SMALL else fabrics:
    fabric = toile.Scene(cloth=[{"shape": "disc", "fabric": name}]).cloth[0].fabric
    coefficient = drape_coefficient(settled(name))
    print(f"{name:<20} {fabric.bend_warp:>12.2e}   {fabric.density:>16.3f}   {100 * coefficient:>15.0f} %")
