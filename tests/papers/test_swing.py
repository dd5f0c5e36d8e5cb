"""A sheet that falls from the horizontal and swings from two corners ([BW98] figure 2), against explicit integration.

The single linearization of [BW98] makes cloth swing too slowly: its center of mass lags by 20 cm in the first second at
60 steps a second. The default integrator stays within 3 cm at the same steps, without stretching the cloth.

The oracle is leapfrog, v += dt f/m and x += dt v half a step apart, which needs no matrix and no solver: second order,
no damping of its own, and stable below dt = 2/w_max, 0.2 ms here.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from analytic.sheets import sheet

from toile.simulation.simulation import Simulation

FRAMES, FPS = 60, 60.0
# 51 x 51 in the full size test; the stiffness is that of the cloth, not of the mesh.
SIZE, RESOLUTION = (1.0, 1.0), (21, 21)
FABRIC = {"stretch_warp": 5e3, "stretch_weft": 5e3, "shear": 5e2, "bend_warp": 5e-5, "bend_weft": 5e-5}
LEAPFROG_STEPS = 166  # a frame: 0.1 ms


def swinging_sheet(device: str, integrator: str) -> Simulation:
    return sheet(
        device,
        SIZE,
        RESOLUTION,
        h=1.0 / FPS,
        frames=FRAMES,
        integrator=integrator,
        tolerance=1e-3,  # the default
        fabric=FABRIC,
        constraints=[{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
    )


def total_energy(simulation: Simulation, v: np.ndarray) -> float:
    stored = sum(simulation.system.energies(simulation.state.x, simulation.state.v).values())
    return stored + 0.5 * float(np.sum(simulation.model.masses * np.sum(v**2, axis=1)))


@cache
def leapfrog() -> np.ndarray:
    """Center of mass at each frame, (frames + 1, 3)."""
    simulation = swinging_sheet("cpu", "implicit_euler")
    masses = simulation.model.masses
    per_mass = 1.0 / masses[:, None]
    per_mass[[-1, -RESOLUTION[0]]] = 0.0  # the last row is the upper one; its ends are held
    # On the CPU these are views of the arrays of the simulation.
    x, v = simulation.state.x.numpy(), simulation.state.v.numpy()
    dt = 1.0 / FPS / LEAPFROG_STEPS
    centers = [masses @ x / masses.sum()]
    at_start = total_energy(simulation, v)

    def kick(time: float) -> None:
        v[:] += time * per_mass * simulation.system.forces(simulation.state.x, simulation.state.v).numpy()

    kick(0.5 * dt)
    for _ in range(FRAMES):
        for _ in range(LEAPFROG_STEPS):
            x += dt * v
            kick(dt)
        centers.append(masses @ x / masses.sum())
    kick(-0.5 * dt)
    # A resolved run conserves energy, to 1 % of the work of gravity over half a meter.
    scale = masses.sum() * 9.81 * 0.5
    assert abs(total_energy(simulation, v) - at_start) < 0.01 * scale
    return np.array(centers)


@cache
def swing(device: str, integrator: str) -> tuple[float, list[dict[str, float]]]:
    """RMS distance of the center of mass from leapfrog's over the first second [m], and the strains of every frame."""
    simulation = swinging_sheet(device, integrator)
    masses = simulation.model.masses
    frames = list(simulation.run())
    centers = np.array([masses @ frame.positions / masses.sum() for frame in frames])
    error = float(np.sqrt(np.mean(np.sum((centers - leapfrog()) ** 2, axis=1))))
    return error, [frame.certificate["strain"] for frame in frames if frame.certificate]


def test_the_default_stays_within_three_centimeters(device: str) -> None:
    """2.2 cm were measured. Leapfrog at a half and at a quarter of its step moves the center of mass by 2 mm: wrinkles
    of
    an undamped sheet are chaotic, the sheet as a whole is not."""
    error, _ = swing(device, "implicit_bdf2")
    assert error < 0.03


def test_the_default_is_several_times_closer_than_the_paper(device: str) -> None:
    error, _ = swing(device, "implicit_bdf2")
    slow, _ = swing(device, "implicit_euler")
    assert slow > 0.1, "the paper's integrator lags by 20 cm; if it does not, this test compares nothing"
    assert error < slow / 5.0


@pytest.mark.parametrize("integrator", ["implicit_bdf2", "implicit_euler"])
def test_the_cloth_hardly_stretches(device: str, integrator: str) -> None:
    """Mean strain along each thread below 0.5 % in every frame of the default, no edge beyond 15 %. The paper's single
    linearization reaches 0.53 % in the weft for one moment of the fall."""
    _, strains = swing(device, integrator)
    assert len(strains) == FRAMES
    limit = 0.005 if integrator == "implicit_bdf2" else 0.006
    for strain in strains:
        assert strain["warp_mean"] < limit
        assert strain["weft_mean"] < limit
        assert strain["edge_max"] < 0.15
    assert max(strain["warp_max"] for strain in strains) > 1e-3, "something must have been loaded"


def test_the_sheet_reaches_the_other_side(device: str) -> None:
    """Without damping the sheet swings through: the center of mass passes below the corners and rises beyond them."""
    simulation = swinging_sheet(device, "implicit_bdf2")
    masses = simulation.model.masses
    path = np.array([masses @ frame.positions / masses.sum() for frame in simulation.run()])
    np.testing.assert_allclose(
        path[:, 0], 0.0, atol=0.02
    )  # left and right are symmetric, except for the alternating diagonals
    assert path[:, 2].min() < -0.35
    assert path[-1, 1] > 0.5 + 0.25  # the corners are at y = 0.5
    assert path[-1, 2] > path[:, 2].min() + 0.2
