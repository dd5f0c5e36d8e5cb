"""Stability limits of explicit and mixed schemes ([Pro95] sec. 4, [BMF03] sec. 3).

    2/w_max        without damping, for all of them: 0.635 sqrt(mu/K) for the sheet of [Pro95], 17 x 17 masses and all
                   three kinds of springs; 1.00 sqrt(mu/K) with those along the threads only. The paper's T0 is
                   pi sqrt(mu/K), 3 to 5 times too long
    h^2 K + 2 h D  at most 4 for explicit_euler: with damping by strain its step is proportional to dx^2, that of the
                   mixed schemes to dx

Frequencies come from dense matrices in NumPy (tests/reference/vibration.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference.vibration import by_mass, grid_springs, growth_of_symplectic_euler, spring_matrix

from toile.constraints.scene_constraints import SceneConstraints
from toile.errors import InputError
from toile.scene.schema import Scene
from toile.simulation.build import constrained_particles
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

ROWS, STIFFNESS, MASS = 17, 10.0, 1e-3  # [-], [N/m], [kg]
UNIT = np.sqrt(MASS / STIFFNESS)  # [s]
CORNERS = [ROWS * (ROWS - 1), ROWS * ROWS - 1]
COTTON = {"shape": {"type": "grid", "resolution": (11, 11)}, "fabric": "cotton"}
STAGED = ["explicit_euler", "mixed_leapfrog", "mixed_newmark", "mixed_robust"]


def grid(device: str, integrator: str, every_kind: bool, damping: float = 0.0, **more: Any) -> Simulation:
    """The sheet of [Pro95] fig. 2, flat and weightless, with the same mass everywhere."""
    others = STIFFNESS if every_kind else 0.0
    spring = {"type": "spring", "structural": STIFFNESS, "shear": others, "flexion": others, "damping": damping}
    simulation = Simulation(
        Scene(
            time={"frames": 1, "fps": 30.0},
            gravity=(0.0, 0.0, 0.0),
            cloth=[
                {
                    "shape": {"type": "grid", "resolution": (ROWS, ROWS)},
                    "fabric": {"density": 0.2},
                    "energies": [spring],
                }
            ],
            constraints=[{"type": "pin", "where": {"indices": CORNERS}}],
            integrator={"type": integrator, "insist": True},
            solver={"tolerance": 1e-6},
        ),
        device,
    )
    simulation.system.masses.assign(np.full(ROWS * ROWS, MASS))
    return simulation


def limit(simulation: Simulation) -> float:
    particles = constrained_particles(simulation.scene, simulation.model)
    held = SceneConstraints(particles, simulation.model.particle_count, simulation.device)
    held.move(0.0, 0.0, simulation.state.x)
    return simulation.integrator.largest_step(simulation.state, held.state.S)


def matrices(simulation: Simulation, every_kind: bool, damping: float) -> tuple[np.ndarray, np.ndarray]:
    """K and D divided by mass, from the figure in the paper alone."""
    pairs = grid_springs(ROWS, every_kind)
    K = spring_matrix(simulation.state.x.numpy(), pairs, np.full(len(pairs), STIFFNESS))
    scaled = by_mass(K, np.full(ROWS * ROWS, MASS), CORNERS)
    return scaled, damping * scaled


def blows_up(simulation: Simulation, h: float) -> bool:
    """Whether a perturbation of 1e-9 m grows a thousandfold in 400 steps; otherwise it must not grow twentyfold."""
    rng = np.random.default_rng(3)
    x = simulation.state.x.numpy()
    x[:, :2] += 1e-9 * rng.normal(size=(len(x), 2))
    x[CORNERS] = simulation.state.x.numpy()[CORNERS]
    start = x.copy()
    simulation.state.x.assign(x)
    tally = FrameTally()
    for _ in range(400):
        simulation.step(h, tally)
        moved = np.abs(simulation.state.x.numpy() - start).max()
        if moved > 1e-6:
            return True
    assert tally.rejected == 0
    assert moved < 2e-8
    return False


@pytest.mark.parametrize(("every_kind", "of_paper"), [(True, 0.635), (False, 1.00)])
def test_the_stability_limit_of_the_sheet(device: str, every_kind: bool, of_paper: float) -> None:
    """Highest frequency to 0.1 %: by Lanczos from our matrices, and from a dense one."""
    simulation = grid(device, "explicit_euler", every_kind)
    K, _ = matrices(simulation, every_kind, 0.0)
    exact = 2.0 / np.sqrt(np.linalg.eigvalsh(K)[-1])
    assert exact / UNIT == pytest.approx(of_paper, abs=0.005)
    assert limit(simulation) == pytest.approx(exact, rel=1e-3)
    assert 3.0 < np.pi * UNIT / exact < 5.1


@pytest.mark.parametrize("integrator", STAGED)
def test_steps_diverge_above_the_limit_and_not_below(device: str, integrator: str) -> None:
    """3 % to either side."""
    simulation = grid(device, integrator, True)
    largest = limit(simulation)
    assert not blows_up(simulation, 0.97 * largest)
    assert blows_up(grid(device, integrator, True), 1.03 * largest)


def test_damping_lowers_the_limit_of_explicit_euler_alone(device: str) -> None:
    """Damping lowers the limit of explicit_euler, here by a half, to where the dense map of a step begins to grow. The
    limit of the mixed schemes does not change."""
    damping = 0.5 * UNIT
    simulation = grid(device, "explicit_euler", True, damping)
    largest = limit(simulation)
    K, D = matrices(simulation, True, damping)
    assert largest < 0.6 * 2.0 / np.sqrt(np.linalg.eigvalsh(K)[-1])
    K, D = (matrix[np.ix_(np.diag(K) > 0.0, np.diag(K) > 0.0)] for matrix in (K, D))  # nothing resists out of the plane
    assert growth_of_symplectic_euler(K, D, 0.995 * largest) < 1.0 + 1e-6
    assert growth_of_symplectic_euler(K, D, 1.005 * largest) > 1.001
    assert not blows_up(simulation, 0.97 * largest)
    assert blows_up(grid(device, "explicit_euler", True, damping), 1.03 * largest)
    assert limit(grid(device, "mixed_robust", True, damping)) == pytest.approx(0.635 * UNIT, rel=0.01)
    assert not blows_up(grid(device, "mixed_robust", True, damping), 0.97 * 0.635 * UNIT)


def sheet_limit(device: str, integrator: str, cells: int, damping: float) -> float:
    """The limit of a pinned square meter of triangles with stretch, shear and bending."""
    cloth = {"shape": {"type": "grid", "resolution": (cells + 1, cells + 1)}, "energies": [
        {"type": kind, "damping": damping} for kind in ("stretch", "shear", "bend_mode")
    ]}  # fmt: skip
    simulation = Simulation(
        Scene(
            time={"frames": 1},
            cloth=[cloth],
            constraints=[{"type": "pin", "where": {"edges": ["upper"]}}],
            integrator={"type": integrator, "insist": True},
        ),
        device,
    )
    return limit(simulation)


def test_the_limit_includes_stiffening(device: str) -> None:
    """Stretch that becomes ten times as stiff at the extension of the fabric is stable for steps of a third; the
    tension
    there has a small effect."""

    def find(limit_stiffness: float) -> float:
        fabric = {"stretch_warp": 1e3, "stretch_weft": 1e3, "extension_warp": 0.05, "extension_weft": 0.05}
        energies = [{"type": "stretch", "limit_stiffness": limit_stiffness}]
        shape = {"type": "grid", "resolution": (9, 9)}
        scene = Scene(
            time={"frames": 1},
            cloth=[{"shape": shape, "fabric": fabric, "energies": energies}],
            integrator={"type": "mixed_robust", "insist": True},
        )
        return limit(Simulation(scene, device))

    assert find(0.0) / find(9e3) == pytest.approx(np.sqrt(10.0), rel=0.03)


@pytest.mark.parametrize("b", [1.5, ((0.0, 1.5), (1.0, 0.9))])
def test_stiffening_begins_at_the_rest_stretch(device: str, b: Any) -> None:
    """A cloth with a rest stretch of 1.5 stiffens beyond that. All its lengths are larger by 1.5 and its frequencies
    are
    the same, so the limit is, too."""

    def find(rest_stretch: list[dict[str, Any]]) -> float:
        fabric = {"stretch_warp": 1e3, "stretch_weft": 1e3, "extension_warp": 0.05, "extension_weft": 0.05}
        energies = [{"type": "stretch", "limit_stiffness": 9e3}]
        shape = {"type": "grid", "resolution": (9, 9)}
        scene = Scene(
            time={"frames": 1},
            cloth=[{"shape": shape, "fabric": fabric, "energies": energies, "rest_stretch": rest_stretch}],
            integrator={"type": "mixed_robust", "insist": True},
        )
        return limit(Simulation(scene, device))

    assert find([{"warp": b, "weft": b}]) == pytest.approx(find([]), rel=1e-3)


@pytest.mark.parametrize("integrator", STAGED)
def test_the_limit_includes_pins_that_last(device: str, integrator: str) -> None:
    """A step that is stable only while pins hold all around one particle, in a run of 0.1 s."""

    def scene(**pin: Any) -> Scene:
        shape = {"type": "grid", "size": (0.2, 0.2), "resolution": (3, 3)}
        spring = {"type": "spring", "structural": 800.0, "shear": 0.0, "flexion": 0.0, "damping": 0.0}
        pins = {"type": "pin", "where": {"indices": [0, 1, 2, 3, 5, 6, 7, 8]}, **pin}
        return Scene(
            time={"frames": 3, "fps": 30.0, "max_step": 2e-3, "min_step": 1e-5},
            gravity=(0.0, 0.0, 0.0),
            cloth=[{"shape": shape, "fabric": {"density": 0.2}, "energies": [spring]}],
            constraints=[pins],
            integrator=integrator,
        )

    for lasting in ({}, {"end": 0.1}, {"end": 5.0}):
        assert not any("stable" in warning for warning in Simulation(scene(**lasting), device).warnings)
    for passing in ({"end": 0.08}, {"start": 0.02}):
        with pytest.raises(InputError, match="is stable up to steps of"):
            Simulation(scene(**passing), device)


def test_the_limit_includes_springs_between_cloths(device: str) -> None:
    """The bound is 4 stiffness/density, for layers that are compressed from both sides in turn."""
    cloth = {"shape": {"type": "grid", "resolution": (3, 3)}, "fabric": {"density": 0.2}, "energies": ["stretch"]}
    forces = [{"type": "penalty", "stiffness": 1e8, "damping": 0.0}]
    integrator = {"type": "mixed_robust", "insist": True}
    simulation = Simulation(Scene(time={"frames": 1}, cloth=[cloth], forces=forces, integrator=integrator), device)
    assert limit(simulation) == pytest.approx(2.0 / np.sqrt(4.0 * 1e8 / 0.2), rel=0.01)


def test_the_limit_with_damping_scales_with_dx_squared_or_dx(device: str) -> None:
    """[BMF03]: explicit damping needs steps of dx^2, that of the mixed scheme dx."""
    cells = np.array([8, 16, 32])
    claims = (("explicit_euler", 5e-3, 2.0), ("mixed_robust", 5e-3, 1.0), ("explicit_euler", 0.0, 1.0))
    for integrator, damping, slope in claims:
        limits = [sheet_limit(device, integrator, int(n), damping) for n in cells]
        found = np.diff(np.log(limits)) / np.diff(np.log(1.0 / cells))
        np.testing.assert_allclose(found, slope, atol=0.05)


@pytest.mark.parametrize("integrator", STAGED)
def test_unstable_steps_are_refused_with_the_limit_and_a_remedy(device: str, integrator: str) -> None:
    def scene(**settings: Any) -> Scene:
        return Scene(time={"frames": 1, **settings}, cloth=[COTTON], integrator=integrator)

    with pytest.raises(InputError) as caught:
        Simulation(scene(), device)
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert text.startswith(f"{integrator} is stable up to steps of ")
    assert "time.max_step is 0.01667." in text
    assert text.endswith("integrator.insist: true runs it nevertheless.")
    messages = text.split("Set time.max_step to ")[1].split(" ")[0]
    allowed = Simulation(scene(max_step=float(messages), min_step=1e-7), device)
    assert not any("stable" in warning for warning in allowed.warnings)


def test_a_scene_that_keeps_unstable_steps_gives_a_warning(device: str) -> None:
    integrator = {"type": "explicit_euler", "insist": True}
    simulation = Simulation(Scene(time={"frames": 1}, cloth=[COTTON], integrator=integrator), device)
    assert any("stable up to steps of" in warning for warning in simulation.warnings)
