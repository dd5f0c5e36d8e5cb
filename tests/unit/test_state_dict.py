"""The state dict contains all that the next step needs: another simulation that loads it continues bit for bit.

This holds on the CPU. On a GPU sums are added in any order.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from toile import plugins
from toile.linear.direct.sparse_factor import Qdldl
from toile.model.frame import Frame
from toile.scene.load import load, scene_names
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

GRID = {"type": "grid", "size": [0.6, 0.6], "resolution": [6, 6]}
SOFT = {"density": 0.2, "stretch_warp": 60.0, "stretch_weft": 60.0, "shear": 6.0}
CLOTH = {"name": "sheet", "shape": GRID, "fabric": "cotton"}
CORNERS = {"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}
TURNS = {"keyframes": [{"time": 0.0}, {"time": 0.4, "rotation": [0.0, 0.0, 40.0], "translation": [0.05, 0.0, 0.0]}]}
BALL = {"type": "sphere", "radius": 0.2, "translation": [0.02, 0.01, -0.22], "friction": 0.4, "motion": TURNS}
SELF = {"type": "self_contact", "thickness": 0.01, "friction": 0.4}
ABOVE = {"name": "upper", "shape": GRID, "fabric": "cotton", "translation": [0.07, 0.0, 0.02], "rotation": [0, 0, 20]}
FOLD = {"type": "folded", "size": [0.4, 0.2], "resolution": [17, 5], "folds": 1, "gap": 0.04}
SMALL_STEPS = {"frames": 5, "fps": 30.0, "max_step": 0.005}

# The comment of each case names its state.
CASES: dict[str, dict[str, Any]] = {
    "history and anchors": {
        "constraints": [
            {**CORNERS, "motion": TURNS},
            {"type": "slide_on_plane", "where": {"indices": [4]}, "normal": [0.0, 1.0, 1.0], "end": 0.15},
            {"type": "slide_on_line", "where": {"indices": [0]}, "start": 0.05},
        ],
        "forces": [{"type": "wind", "velocity": [3.0, 1.0, 0.0], "gust": 0.5}],
        "time": {"frames": 6, "fps": 30.0, "max_step": 0.014},
    },
    "steps that are tried again": {
        "constraints": [CORNERS],
        "solver": {"preconditioner": "block_jacobi", "max_iterations": 24},
    },
    "lengths at rest that change": {
        "cloth": [{**CLOTH, "rest_stretch": [{"warp": [[0.0, 1.0], [0.3, 1.3]]}]}],
        "constraints": [CORNERS],
        "integrator": "implicit_euler",
    },
    "friction on a solid that moves": {"solids": [{**BALL, "sharp": False}]},
    "forecast": {"solids": [BALL], "filters": ["forecast"], "time": SMALL_STEPS},
    "cloth on cloth": {
        "cloth": [CLOTH, ABOVE],
        "solids": [{"type": "plane", "translation": [0.0, 0.0, -0.02], "sharp": True}, BALL],
        "filters": [SELF],
    },
    "folded cloth": {"cloth": [{**CLOTH, "shape": FOLD}], "filters": [SELF], "solids": [{"type": "plane"}]},
    "tangled cloth": {"cloth": [CLOTH, {**ABOVE, "translation": [0.1, 0.0, 0.0], "rotation": [20, 0, 0]}],
                      "filters": [{**SELF, "thickness": 0.002}]},
    "penalty": {"cloth": [CLOTH, ABOVE], "forces": [{"type": "penalty", "thickness": 0.02}], "solids": [BALL]},
    "inextensible": {"constraints": [CORNERS], "integrator": "implicit_euler", "filters": ["strain_impulse"]},
    "explicit": {
        "constraints": [CORNERS],
        "integrator": "explicit_euler",
        "filters": ["strain_deformation_rate", SELF],
        "time": SMALL_STEPS,
        "cloth": [{**CLOTH, "fabric": SOFT}],
    },
    **{
        f"{scheme} with limits": {
            "constraints": [CORNERS],
            "integrator": scheme,
            "filters": [{"type": "strain_velocity", "extension": 0.01}],
            "solids": [BALL],
            "time": SMALL_STEPS,
            "cloth": [{**CLOTH, "fabric": SOFT}],
        }
        for scheme in ("mixed_leapfrog", "mixed_newmark", "mixed_robust")
    },
}  # fmt: skip


def made(case: str) -> Simulation:
    defaults = {"cloth": [CLOTH], "time": {"frames": 6, "fps": 30.0, "max_step": 1 / 60}, "seed": 3}
    return Simulation(Scene(**{**defaults, **CASES[case]}), "cpu")


def through_a_file(state_dict: dict[str, Any]) -> dict[str, np.ndarray]:
    file = io.BytesIO()
    np.savez(file, **state_dict)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def values(frame: Frame) -> str:
    """The entry of a frame without times."""
    return repr({key: value for key, value in (frame.certificate or {}).items() if key != "ms"})


def assert_same(one: Frame, other: Frame) -> None:
    assert one.positions.tobytes() == other.positions.tobytes(), f"frame {one.number}"
    assert one.velocities.tobytes() == other.velocities.tobytes(), f"frame {one.number}"
    assert values(one) == values(other)
    assert (one.intersecting is None) == (other.intersecting is None)
    np.testing.assert_array_equal(one.intersecting, other.intersecting)


def assert_restored(one: Simulation, other: Simulation) -> None:
    state_dicts = one.state_dict(), other.state_dict()
    assert list(state_dicts[0]) == list(state_dicts[1])
    for name, value in state_dicts[0].items():
        assert value.tobytes() == state_dicts[1][name].tobytes(), name


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_simulation_continues_bit_for_bit(case: str) -> None:
    """Saved at the start, after a third and after two thirds, and continued from there."""
    whole, follower = made(case), made(case)
    frames = whole.scene.time.frames
    for number in range(frames):
        if number in (0, frames // 3, 2 * frames // 3):
            follower = made(case)
            follower.load_state_dict(through_a_file(whole.state_dict()))
        assert_same(follower.advance_frame(), whole.advance_frame())
    assert_restored(follower, whole)


def test_every_plugin_with_state_is_among_the_cases() -> None:
    scenes = [Scene(**{"cloth": [CLOTH], **case}) for case in CASES.values()]
    assert {scene.integrator.type_name() for scene in scenes} == set(plugins.names("integrators"))
    assert {each.type_name() for scene in scenes for each in scene.filters} == set(plugins.names("filters"))
    constraints = {each.type_name() for scene in scenes for each in scene.constraints}
    assert constraints | {"solid_contact"} == set(plugins.names("constraints"))


@pytest.mark.parametrize(
    ("case", "frames", "name", "least"),
    [
        ("steps that are tried again", 5, "control.level", 1),
        ("friction on a solid that moves", 6, "contacts.count", 1),
        ("cloth on cloth", 6, "filters.0.load", 1e-12),
        ("tangled cloth", 2, "filters.0.tangled", 1),
        ("mixed_robust with limits", 4, "filters.0.impulses", 1e-12),
    ],
)  # fmt: skip
def test_every_case_has_state(case: str, frames: int, name: str, least: float) -> None:
    """The cases would prove nothing if their state were always empty."""
    simulation, found = made(case), []
    for _ in range(frames):
        simulation.advance_frame()
        found.append(np.max(np.abs(simulation.state_dict().get(name, np.zeros(1))), initial=0.0))
    assert max(found) >= least


def test_the_factor_is_part_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of QDLDL, which costs as much as thirty iterations: iterations after loading use the same one."""
    monkeypatch.setattr("toile.linear.precondition_cholesky.make_factor", lambda offsets, rows, _: Qdldl(offsets, rows))
    whole = made("history and anchors")
    for _ in range(5):
        whole.advance_frame()
    state_dict = through_a_file(whole.state_dict())
    assert "integrator.preconditioner.values" in state_dict
    follower = made("history and anchors")
    follower.load_state_dict(state_dict)
    for _ in range(3):
        assert_same(follower.advance_frame(), whole.advance_frame())
    without = made("history and anchors")
    del state_dict["integrator.preconditioner.values"]
    without.load_state_dict(state_dict)
    for _ in range(3):
        frame = without.advance_frame()
    assert frame.positions.tobytes() != follower.advance_frame().positions.tobytes()


def test_a_simulation_without_state_writes_only_positions_and_step_control() -> None:
    state_dict = made("inextensible").state_dict()
    assert sorted(state_dict) == [
        *(f"control.{n}" for n in ("growing", "level", "patience", "successes")),
        "frame",
        *"tvx",
    ]


# Scenes whose solids leave triangles of the coarsest mesh no room.
NARROW = ("stack",)


def coarse(name: str) -> Simulation:
    """A shipped scene on the coarsest of a few meshes on which its constraints select particles."""
    for factor in (2, 1) if name in NARROW else (3, 2, 1):
        changes = []
        for k, cloth in enumerate(load(name).cloth):
            if (resolution := getattr(cloth.shape, "resolution", None)) is not None:
                changes.append(f"cloth[{k}].shape.resolution={[max((n - 1) // factor + 1, 3) for n in resolution]}")
            elif hasattr(cloth.shape, "rings"):
                changes.append(f"cloth[{k}].shape.rings={max(cloth.shape.rings // factor, 3)}")
        try:
            return Simulation(load(name, overrides=changes), "cpu")
        except Exception:
            if factor == 1:
                raise
    raise AssertionError


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", scene_names())
def test_shipped_scenes_continue_bit_for_bit(name: str) -> None:
    """On coarse meshes, so that whole runs are covered; saved four times, and continued for three frames."""
    whole, follower, left, compared = coarse(name), None, 0, 0
    last = whole.scene.time.frames
    for number in range(last):
        if number in {k * last // 5 for k in range(1, 5)}:
            follower, left = coarse(name), 3
            follower.load_state_dict(through_a_file(whole.state_dict()))
        frame = whole.advance_frame()
        if follower is not None and left:
            assert_same(follower.advance_frame(), frame)
            assert_restored(follower, whole)
            left, compared = left - 1, compared + 1
    assert compared == 12
