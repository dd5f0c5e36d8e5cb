"""Contract of every integrator that the loader finds: momentum, constraints, determinism, variable and rejected
steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toile.plugins import find, names
from toile.scene.load import load
from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

G = 9.81
H = 1.0 / 60.0
DENSE = {"density": 0.4}
CLOTH = {
    "density": 0.2,
    "stretch_warp": 4e2,
    "stretch_weft": 2e2,
    "shear": 4e1,
    "bend_warp": 5e-5,
    "bend_weft": 2e-5,
    "damping": 1e-3,
}


def parts(integrator: str) -> int:
    """The number of steps into which H is divided, so that this integrator is stable with CLOTH."""
    return 1 if find("integrators", integrator).stable_at_any_step else 12


@pytest.fixture(params=names("integrators"))
def integrator(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def simulate(device: str, integrator: str, *, frames: int = 20, side: int = 6, **more: Any) -> Simulation:
    scene = {
        "time": {"frames": frames, "fps": 1.0 / H, "max_step": H / parts(integrator)},
        "cloth": [{"shape": {"type": "grid", "resolution": (side, side)}, "fabric": CLOTH}],
        "integrator": integrator,
        **more,
    }
    return Simulation(Scene(**scene), device)


def shake(simulation: Simulation, speed: float = 0.5) -> None:
    """Sets random velocities, with a fixed seed."""
    count = simulation.model.particle_count
    simulation.state.v.assign(np.random.default_rng(7).normal(scale=speed, size=(count, 3)))


def state(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    return simulation.state.x.numpy().astype(float), simulation.state.v.numpy().astype(float)


PINNED = [{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}]


def test_has_a_summary(integrator: str) -> None:
    assert len(find("integrators", integrator).summary()) > 10


def test_momentum_changes_by_weight_alone(device: str, integrator: str) -> None:
    """sum of m v = start + m g t, to the rounding of forces and of the solve, 1e-10 of the sum of m |v|."""
    frames = 50 if parts(integrator) == 1 else 10  # of many steps
    simulation = simulate(device, integrator, frames=frames, solver={"tolerance": 1e-10})
    shake(simulation)
    masses = simulation.model.masses
    _, v = state(simulation)
    *_, last = simulation.run()
    expected = masses @ v + masses.sum() * np.array([0.0, 0.0, -G * last.time])
    np.testing.assert_allclose(masses @ last.velocities, expected, atol=1e-10 * masses.sum() * G)


def test_pins_hold_exactly(device: str, integrator: str) -> None:
    """To the last bit, in every frame."""
    simulation = simulate(device, integrator, constraints=PINNED)
    shake(simulation)
    held = simulation.scene.constraints[0].where.resolve(simulation.model.parts[0].mesh)
    first, *frames = simulation.run()
    assert len(frames) == 20
    for frame in frames:
        np.testing.assert_array_equal(frame.positions[held], first.positions[held])
        np.testing.assert_array_equal(frame.velocities[held], 0.0)
    assert np.abs(frame.positions - first.positions).max() > 0.1, "the rest must move"


def test_particles_stay_on_planes_and_lines(device: str, integrator: str) -> None:
    """To rounding, in position and, divided by a step, in velocity, while they move along them."""
    normal, direction = (np.array(v) / np.linalg.norm(v) for v in ([1.0, 2.0, -0.5], [1.0, -1.0, 0.3]))
    on_plane, on_line = [0, 35], [5, 30]
    simulation = simulate(
        device,
        integrator,
        constraints=[
            {"type": "slide_on_plane", "where": {"indices": on_plane}, "normal": tuple(normal)},
            {"type": "slide_on_line", "where": {"indices": on_line}, "direction": tuple(direction)},
        ],
    )
    shake(simulation)
    across_plane, along_line = np.outer(normal, normal), np.outer(direction, direction)
    held = {0: across_plane, 35: across_plane, 5: np.eye(3) - along_line, 30: np.eye(3) - along_line}
    first, *frames = simulation.run()
    for frame in frames:
        for particle, directions in held.items():
            np.testing.assert_allclose(
                directions @ (frame.positions[particle] - first.positions[particle]), 0.0, atol=1e-14
            )
            across = directions @ frame.velocities[particle]
            np.testing.assert_allclose(across, 0.0, atol=1e-13 * parts(integrator))
    moved = np.linalg.norm(frames[-1].positions - first.positions, axis=1)
    assert moved[[*on_plane, *on_line]].min() > 1e-3


def test_a_released_sheet_falls_from_rest(device: str, integrator: str) -> None:
    """A released sheet falls from rest, bit for bit like one that was never held."""
    released = simulate(
        device, integrator, frames=16, constraints=[{"type": "pin", "where": {"all": True}, "end": 5.0 * H}]
    )
    free = simulate(device, integrator, frames=11)
    held, fallen = list(released.run()), list(free.run())
    for frame in held[:6]:
        np.testing.assert_array_equal(frame.positions, held[0].positions)
    for frame, same in zip(held[5:], fallen, strict=True):
        # Bits of the steps may differ, because 6/60 - 5/60 is not 1/60.
        np.testing.assert_allclose(frame.positions, same.positions, atol=1e-13)
        np.testing.assert_allclose(frame.velocities, same.velocities, atol=1e-12)


def test_same_bits_twice(device: str, integrator: str) -> None:
    if device != "cpu":
        pytest.skip("sums on a GPU are added in any order")
    first, second = (simulate(device, integrator, constraints=PINNED) for _ in range(2))
    for one, other in zip(first.run(), second.run(), strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)
        np.testing.assert_array_equal(one.velocities, other.velocities)


# Steps that vary tenfold and more from one to the next
UNEVEN = np.tile([1.0, 10.0, 3.0, 2.0, 8.0, 0.8, 5.0, 0.2], 4)
UNEVEN *= 0.24 / UNEVEN.sum()


def walk(simulation: Simulation, steps: np.ndarray) -> None:
    tally = FrameTally()
    divided = parts(simulation.scene.integrator.type_name())
    steps = np.repeat(steps / divided, divided)
    for h in steps:
        simulation.step(float(h), tally)
    assert (tally.steps, tally.rejected) == (len(steps), 0)


def test_variable_steps_fall_with_g_t(device: str, integrator: str) -> None:
    """The velocity of free fall is g t at any steps: every scheme is exact for a constant force."""
    simulation = simulate(device, integrator, solver={"tolerance": 1e-13})
    walk(simulation, UNEVEN)
    np.testing.assert_allclose(simulation.state.t, UNEVEN.sum(), rtol=1e-14)
    np.testing.assert_allclose(state(simulation)[1], [[0.0, 0.0, -G * UNEVEN.sum()]] * 36, rtol=1e-12, atol=1e-12)


def test_variable_steps_converge(device: str, integrator: str) -> None:
    """A sheet falling from two pins: a quarter of every step has a smaller error, although the largest step is still
    outside of the asymptotic range. The reference is the default integrator with constant steps of 0.4 ms."""

    def end(integrator: str, steps: np.ndarray) -> np.ndarray:
        simulation = simulate(device, integrator, constraints=PINNED, solver={"tolerance": 1e-9})
        walk(simulation, steps)
        return state(simulation)[0]

    fine = end("implicit_bdf2", np.full(600, UNEVEN.sum() / 600))
    coarse, quarter = (np.abs(end(integrator, np.repeat(UNEVEN / k, k)) - fine).max() for k in (1, 4))
    assert coarse < 0.25 * (0.5 * G * UNEVEN.sum() ** 2)
    assert quarter < 0.75 * coarse


def test_a_rejected_step_leaves_no_trace(device: str, integrator: str) -> None:
    """The state that a step reads does not change, and a step after a rejected one is as if that had not been tried."""
    simulations = [simulate(device, integrator, constraints=PINNED) for _ in range(2)]
    for simulation in simulations:
        for _ in range(3):
            simulation.advance_frame()
    tried, plain = simulations
    before = state(tried)
    tried.constraints.move(tried.state.t, tried.state.t + H, tried.state.x)
    tried.system.move(tried.state.t + H)
    tried.integrator.step(tried.state, tried.loop.candidate, H)
    for now, then in zip(state(tried), before, strict=True):
        np.testing.assert_array_equal(now, then)
    for simulation in simulations:
        simulation.step(0.5 * H, FrameTally())
    for one, other in zip(state(tried), state(plain), strict=True):
        # A factor kept from the rejected step may change the result of CG, within its tolerance.
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_scene_with_all_particles_pinned(device: str, integrator: str) -> None:
    simulation = simulate(device, integrator, constraints=[{"type": "pin", "where": {"all": True}}])
    frames = list(simulation.run())
    np.testing.assert_array_equal(frames[-1].positions, frames[0].positions)
    np.testing.assert_array_equal(frames[-1].velocities, 0.0)
    assert simulation.report()["summary"]["ok"]


def test_a_scene_without_cloth(device: str, integrator: str) -> None:
    simulation = simulate(device, integrator, frames=3, cloth=[])
    frames = list(simulation.run())
    assert [frame.positions.shape for frame in frames] == [(0, 3)] * 4
    report = simulation.report()
    assert report["summary"]["frames"] == 3
    assert report["summary"]["max_strain"] == 0.0
    assert report["frames"][-1]["momentum"] == [0.0, 0.0, 0.0]


def test_a_single_triangle_hangs_from_its_corner(device: str, integrator: str, tmp_path: Path) -> None:
    """Held by one corner, it finally hangs from it with its center below."""
    (tmp_path / "one.obj").write_text("v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nvt 0 0\nvt 0.1 0\nvt 0 0.1\nf 1/1 2/2 3/3\n")
    (tmp_path / "one.yaml").write_text(
        f"time: {{frames: 80, fps: 60, max_step: {H / parts(integrator)}}}\nintegrator: {integrator}\n"
        f"cloth: [{{shape: {{type: mesh, file: one.obj}}, fabric: {json.dumps(CLOTH | DENSE)}}}]\n"
        "forces: [{type: drag, linear: 5}]\n"
        "constraints: [{type: pin, where: {indices: [0]}}]\n"
    )
    simulation = Simulation(load(tmp_path / "one.yaml"), device)
    *_, last = simulation.run()
    assert np.isfinite(last.positions).all()
    np.testing.assert_array_equal(last.positions[0], 0.0)
    sides = np.linalg.norm(last.positions - np.roll(last.positions, 1, axis=0), axis=1)
    np.testing.assert_allclose(np.sort(sides), [0.1, 0.1, 0.1 * np.sqrt(2.0)], rtol=0.01)
    assert last.positions[1:, 2].mean() < -0.05


def test_cloths_without_contact_do_not_affect_each_other(device: str, integrator: str) -> None:
    """Two sheets in one scene move as each does alone."""
    one = {"name": "one", "shape": {"type": "grid", "resolution": (4, 4)}, "fabric": CLOTH, "spin": (1.0, 0.0, 2.0)}
    two = {"name": "two", "shape": {"type": "disc", "rings": 2}, "fabric": CLOTH | DENSE, "velocity": (1.0, 0.0, 0.0)}
    pin = {"type": "pin", "cloth": "one", "where": {"corners": ["lower_left"]}}
    frames = 20 if parts(integrator) == 1 else 5  # of many steps
    exact: dict[str, Any] = {"solver": {"tolerance": 1e-11}, "frames": frames, "filters": []}
    both = simulate(device, integrator, cloth=[one, two], constraints=[pin], **exact)
    alone = [
        simulate(device, integrator, cloth=[one], constraints=[pin], **exact),
        simulate(device, integrator, cloth=[two], **exact),
    ]
    *_, together = both.run()
    apart = [list(simulation.run())[-1].positions for simulation in alone]
    np.testing.assert_allclose(together.positions, np.concatenate(apart), atol=1e-9)
