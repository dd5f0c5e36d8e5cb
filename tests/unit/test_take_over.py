"""A simulation that takes over the state of another: constraints continue their motion, all other history is reset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toile.errors import InputError
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

# Backward Euler has no history, and all steps are equal, so the run is the same as an uninterrupted one.
SCENE: dict[str, Any] = {
    "time": {"frames": 8, "fps": 30.0, "max_step": 1 / 60},
    "cloth": [{"name": "sheet", "shape": {"type": "grid", "resolution": [9, 9]}, "fabric": "cotton"}],
    "constraints": [{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
    "integrator": "implicit_euler",
}
TURN = {
    "keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [0.3, 0.0, 0.1], "rotation": [0.0, 40.0, 20.0]}],
    "interpolation": "linear",
}


def started(frames: int, device: str, **changes: Any) -> Simulation:
    simulation = Simulation(Scene(**{**SCENE, **changes}), device)
    for _ in range(frames):
        simulation.advance_frame()
    return simulation


def test_the_same_scene_continues_as_an_uninterrupted_run(device: str) -> None:
    whole, first, second = started(6, device), started(3, device), started(0, device)
    second.take_over(first)
    assert second.frame == 3
    assert second.state.t == first.state.t
    for _ in range(3):
        second.advance_frame()
    assert second.frame == whole.frame
    assert second.state.t == whole.state.t
    if device == "cpu":  # sums on a GPU are added in any order
        assert second.state.x.numpy().tobytes() == whole.state.x.numpy().tobytes()
        assert second.state.v.numpy().tobytes() == whole.state.v.numpy().tobytes()


def test_frames_end_at_the_number_of_the_scene(device: str) -> None:
    first, second = started(5, device), started(0, device)
    second.take_over(first)
    assert [frame.number for frame in second.run()] == [5, 6, 7, 8]


@pytest.mark.parametrize("kind", ["pin", "slide_on_line"])
def test_pins_continue_their_motion(kind: str, device: str) -> None:
    """Keyframes rotate and move the corners about their mean: their positions are a closed form of time."""
    held = [{"type": kind, "where": {"corners": ["upper_left", "upper_right"]}, "motion": TURN}]
    whole, first, second = (started(n, device, constraints=held) for n in (6, 3, 0))
    second.take_over(first)
    for _ in range(3):
        second.advance_frame()
    corners = second.constraints.particles
    moved = second.state.x.numpy()[corners] - second.surface.rest[corners]
    assert np.abs(moved).max() > 0.02
    np.testing.assert_allclose(second.state.x.numpy(), whole.state.x.numpy(), atol=1e-9)


def test_new_pins_hold_particles_at_their_positions(device: str) -> None:
    """A pin that the other scene did not have holds its particles at their present positions."""
    first = started(4, device)
    second = started(0, device, constraints=[{"type": "pin", "where": {"edges": ["left"]}}])
    second.take_over(first)
    where = first.state.x.numpy().copy()
    for _ in range(2):
        second.advance_frame()
    left = second.constraints.particles
    np.testing.assert_allclose(second.state.x.numpy()[left], where[left], atol=1e-12)
    assert np.abs(where[left] - second.surface.rest[left]).max() > 0.01
    assert np.abs(second.state.x.numpy() - where).max() > 0.01


def test_solids_have_the_pose_of_the_present_time(device: str) -> None:
    """A rising plane lifts the sheet to its height, and the certificate has no penetration."""
    rising = {"type": "plane", "friction": 0.0, "translation": [0.0, 0.0, -0.002]}
    rising["motion"] = {"keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [0.0, 0.0, 0.5]}]}
    free: dict[str, Any] = {"constraints": [], "solids": [rising], "integrator": "implicit_bdf2"}
    first, second = started(4, device, **free), started(0, device, **free)
    second.take_over(first)
    for _ in range(3):
        entry = second.advance_frame().certificate
        assert entry is not None
        assert entry["solid_depth"] < 1e-9
        assert entry["rejected"] == 0
    height = second.solids.solids[0].frame(second.state.t)[1][2]
    assert height > 0.02
    np.testing.assert_allclose(second.state.x.numpy()[:, 2].min(), height + 1e-3, atol=1e-6)


def test_other_meshes_are_refused(device: str) -> None:
    other = [{"name": "sheet", "shape": {"type": "grid", "resolution": [9, 10]}, "fabric": "cotton"}]
    with pytest.raises(InputError, match="other meshes"):
        started(0, device).take_over(started(0, device, cloth=other))
    with pytest.raises(InputError, match="fps"):
        started(0, device).take_over(started(0, device, time={"frames": 3, "fps": 25.0}))
