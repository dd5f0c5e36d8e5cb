"""Contract of every constraint: it holds its directions exactly, and no others, at every step of its interval.

Tests first use `ConstraintState` alone, which turns constraints into S and held positions, and then short simulations
with every integrator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import warp as wp

from toile import plugins
from toile.constraints.base import Constraint
from toile.constraints.pin import Pin
from toile.constraints.scene_constraints import SceneConstraints
from toile.constraints.slide_on_line import SlideOnLine
from toile.constraints.slide_on_plane import SlideOnPlane
from toile.errors import SceneError
from toile.math.types import vec3
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

# solid_contact has settings and no particles of its own; tests/analytic and tests/unit/test_solid_contact.py test it.
FOUND = tuple(n for n in plugins.names("constraints") if issubclass(plugins.find("constraints", n), Constraint))
INTEGRATORS = plugins.names("integrators")
# Settings and degrees of freedom of every constraint; one that is not here fails `test_every_constraint_is_tested`.
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "pin": ({}, 0),
    "slide_on_line": ({"direction": (1.0, 2.0, -2.0)}, 1),
    "slide_on_plane": ({"normal": (2.0, -1.0, 2.0)}, 2),
}
POINTS = np.random.default_rng(1).uniform(-1.0, 1.0, (6, 3))
CHOSEN = np.array([1, 3, 4])
WHERE = {"indices": CHOSEN.tolist()}
MOTION = {
    "keyframes": [{"time": 0.0}, {"time": 1.0, "translation": (0.2, 0.4, -0.1), "rotation": (0.0, 40.0, 10.0)}],
}


def make(type_name: str, **fields: Any) -> Constraint:
    made = plugins.find("constraints", type_name).model_validate({"where": WHERE, **CASES[type_name][0], **fields})
    assert isinstance(made, Constraint)
    return made


def held_at(
    constraints: list[Constraint], time: float, device: str, particles: np.ndarray = CHOSEN
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S, x_held and v_held at a time, for constraints that begin at 0 s."""
    held = SceneConstraints([(constraint, particles) for constraint in constraints], len(POINTS), device)
    x = wp.array(POINTS, dtype=vec3, device=device)
    held.move(0.0, 0.0, x)
    held.move(0.0, time, x)
    return tuple(array.numpy().astype(float) for array in (held.state.S, held.state.x_held, held.state.v_held))


def test_every_constraint_is_tested() -> None:
    assert set(FOUND) == set(CASES)


@pytest.mark.parametrize("time", [0.0, 0.7])
@pytest.mark.parametrize("type_name", FOUND)
def test_free_directions_are_a_projection(type_name: str, time: float, device: str) -> None:
    """S is symmetric and idempotent, and its rank is the number of degrees of freedom of the constraint."""
    S, x_held, v_held = held_at([make(type_name, motion=MOTION)], time, device)
    np.testing.assert_allclose(S, S.transpose(0, 2, 1), atol=1e-15)
    np.testing.assert_allclose(S @ S, S, atol=1e-14)
    np.testing.assert_allclose(np.trace(S[CHOSEN], axis1=1, axis2=2), CASES[type_name][1], atol=1e-14)
    for held in (x_held, v_held):
        np.testing.assert_allclose(np.einsum("nij,nj->ni", S, held), 0.0, atol=1e-14)
    others = np.setdiff1d(np.arange(len(POINTS)), CHOSEN)
    assert np.array_equal(S[others], np.tile(np.eye(3), (3, 1, 1))) and not x_held[others].any()


@pytest.mark.parametrize("type_name", FOUND)
def test_particles_are_held_where_they_began(type_name: str, device: str) -> None:
    """Without motion the particles satisfy their constraint at once, and their held velocity is zero."""
    S, x_held, v_held = held_at([make(type_name)], 0.5, device)
    x = np.einsum("nij,nj->ni", S, POINTS) + x_held
    np.testing.assert_allclose(x, POINTS, rtol=0, atol=1e-15)
    assert not v_held.any()
    if CASES[type_name][1] == 0:  # exactly, not only to rounding
        assert np.array_equal(x[CHOSEN], POINTS[CHOSEN]) and not S[CHOSEN].any()


@pytest.mark.parametrize("type_name", FOUND)
def test_held_directions_follow_the_motion(type_name: str, device: str) -> None:
    """The held directions of a particle follow its moved anchor, in position and velocity."""
    constraint = make(type_name, motion=MOTION)
    S, x_held, v_held = held_at([constraint], 0.7, device)
    assert constraint.motion is not None
    points, velocities = constraint.motion.move(POINTS[CHOSEN], 0.7)
    out = np.eye(3) - S[CHOSEN]
    np.testing.assert_allclose(x_held[CHOSEN], np.einsum("nij,nj->ni", out, points), rtol=0, atol=1e-14)
    np.testing.assert_allclose(v_held[CHOSEN], np.einsum("nij,nj->ni", out, velocities), rtol=0, atol=1e-14)
    if CASES[type_name][1] == 0:
        assert np.array_equal(x_held[CHOSEN], points) and np.array_equal(v_held[CHOSEN], velocities)


def test_directions_turn_with_the_motion(device: str) -> None:
    """After half of a rotation of 90 degrees, the normal of a plane and a line have turned by 45 degrees."""
    turn = {"interpolation": "linear", "keyframes": [{"time": 0.0}, {"time": 1.0, "rotation": (0.0, 0.0, 90.0)}]}
    diagonal = np.sqrt(0.5) * np.array([1.0, 1.0, 0.0])
    S_plane = held_at([SlideOnPlane(where=WHERE, normal=(1.0, 0.0, 0.0), motion=turn)], 0.5, device)[0]
    S_line = held_at([SlideOnLine(where=WHERE, direction=(1.0, 0.0, 0.0), motion=turn)], 0.5, device)[0]
    np.testing.assert_allclose(S_plane[1], np.eye(3) - np.outer(diagonal, diagonal), atol=1e-15)
    np.testing.assert_allclose(S_line[1], np.outer(diagonal, diagonal), atol=1e-15)


def plane(normal: tuple[float, float, float], shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> SlideOnPlane:
    """A plane through the particle, displaced from 1 s on."""
    keys = [{"time": 0.0}, {"time": 1.0, "translation": shift}]
    return SlideOnPlane(where=WHERE, normal=normal, motion={"keyframes": keys, "interpolation": "linear"})


def test_two_planes_leave_a_line(device: str) -> None:
    """Moving planes at 30 degrees to each other leave a line along n1 x n2, which lies on both and moves with both."""
    n1, n2 = np.array([1.0, 0.0, 0.0]), np.array([np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0])
    shift1, shift2 = np.array([0.1, 0.0, 0.3]), np.array([0.0, 0.2, 0.0])
    planes: list[Constraint] = [plane(tuple(n1), tuple(shift1)), plane(tuple(n2), tuple(shift2))]
    S, x_held, v_held = held_at(planes, 0.5, device)
    for i in CHOSEN:
        np.testing.assert_allclose(S[i], np.diag([0.0, 0.0, 1.0]), atol=1e-14)
        x = S[i] @ POINTS[i] + x_held[i]
        assert n1 @ x == pytest.approx(n1 @ (POINTS[i] + 0.5 * shift1), abs=1e-14)
        assert n2 @ x == pytest.approx(n2 @ (POINTS[i] + 0.5 * shift2), abs=1e-14)
        assert n1 @ v_held[i] == pytest.approx(n1 @ shift1, abs=1e-14)
        assert n2 @ v_held[i] == pytest.approx(n2 @ shift2, abs=1e-14)


def test_three_planes_leave_a_point(device: str) -> None:
    """S is zero to the last bit, as for a pin, although the planes are not perpendicular."""
    planes: list[Constraint] = [plane((1.0, 0.2, 0.0)), plane((0.3, 1.0, 0.4)), plane((-0.2, 0.5, 1.0))]
    S, x_held, _ = held_at(planes, 0.5, device)
    assert not S[CHOSEN].any()
    np.testing.assert_allclose(x_held[CHOSEN], POINTS[CHOSEN], rtol=0, atol=1e-14)


def test_a_line_within_a_plane_stays_a_line(device: str) -> None:
    """A direction that both hold is held once."""
    line = SlideOnLine(where=WHERE, direction=(0.0, 1.0, 0.0))
    for constraints in ([line, plane((1.0, 0.0, 0.0))], [plane((1.0, 0.0, 0.0)), line]):
        S, x_held, _ = held_at(constraints, 0.5, device)
        np.testing.assert_allclose(S[1], np.diag([0.0, 1.0, 0.0]), atol=1e-14)
        np.testing.assert_allclose(S[1] @ POINTS[1] + x_held[1], POINTS[1], rtol=0, atol=1e-14)


def test_the_first_of_contradictory_constraints_holds(device: str) -> None:
    """Two parallel planes that move apart, and two different pins: the first in the scene holds exactly."""
    S, x_held, v_held = held_at([plane((0.0, 0.0, 1.0)), plane((0.0, 0.0, 1.0), (0.0, 0.0, 0.4))], 0.5, device)
    np.testing.assert_allclose(S[1], np.diag([1.0, 1.0, 0.0]), atol=1e-15)
    assert x_held[1, 2] == POINTS[1, 2] and v_held[1, 2] == 0.0
    away = {"keyframes": [{"time": 0.0}, {"time": 1.0, "translation": (1.0, 1.0, 1.0)}]}
    S, x_held, v_held = held_at([Pin(where=WHERE), Pin(where=WHERE, motion=away)], 0.5, device)
    assert np.array_equal(x_held[CHOSEN], POINTS[CHOSEN]) and not v_held.any() and not S[CHOSEN].any()


def test_constraints_on_different_particles_do_not_mix(device: str) -> None:
    first, second = np.array([0, 1]), np.array([1, 2])
    constraints = [(plane((1.0, 0.0, 0.0)), first), (plane((0.0, 1.0, 0.0)), second)]
    held = SceneConstraints(constraints, len(POINTS), device)  # type: ignore[arg-type]
    assert held.move(0.0, 0.0, wp.array(POINTS, dtype=vec3, device=device))
    S = held.state.S.numpy()
    for i, kept in enumerate([(0, 1, 1), (0, 0, 1), (1, 0, 1), (1, 1, 1)]):
        np.testing.assert_allclose(S[i], np.diag(kept), atol=1e-15)
    assert held.particles.tolist() == [0, 1, 2]


def test_move_reports_only_starts_and_ends(device: str) -> None:
    """`move` reports changes at which an integrator discards its history, and releases particles at the end."""
    held = SceneConstraints([(make("pin", start=0.2, end=0.5), CHOSEN)], len(POINTS), device)
    x = wp.array(POINTS, dtype=vec3, device=device)
    changes = [held.move(time, time, x) for time in (0.0, 0.1, 0.2, 0.3, 0.5, 0.6)]
    assert changes == [True, False, True, False, True, False]  # the first call always fills S
    assert np.array_equal(held.state.S.numpy(), np.tile(np.eye(3), (len(POINTS), 1, 1)))
    assert not held.state.x_held.numpy().any() and len(held.particles) == 0


# A sheet of 5 by 5, hanging in the x-z plane from its upper side, 0.4 m wide and high.
SIZE = 5
UPPER = np.arange(20, 25)


def scene(constraints: list[dict], **changes: Any) -> Scene:
    fields = {
        "time": {"frames": 6, "fps": 30.0, "max_step": 1.0 / 60.0},
        "cloth": [
            {
                "shape": {"type": "grid", "size": [0.4, 0.4], "resolution": [SIZE, SIZE]},
                "rotation": [90.0, 0.0, 0.0],
                "fabric": {"density": 0.2, "stretch_warp": 500.0, "stretch_weft": 500.0, "shear": 50.0},
            }
        ],
        "constraints": constraints,
        "solver": {"tolerance": 1e-10},
    }
    fields |= changes
    type_name = fields.get("integrator", "implicit_bdf2")
    if not plugins.find("integrators", type_name).stable_at_any_step:
        step = fields["time"].get("max_step", 1.0 / 60.0)
        fields["time"] = {**fields["time"], "max_step": step / 16.0}  # below the stability limit of these sheets
    return Scene.model_validate(fields)


WEIGHT = 0.2 * 0.4 * 0.4 * 9.81  # [N]
# On the upper right corner, without damping, so that it depends on positions alone in the linearized system too.
PULL = [
    {
        "type": "pull",
        "triangle": 31,
        "weights": [0.0, 1.0, 0.0],  # vertex 24
        "target": [0.5, 0.5, 0.5],
        "stiffness": 0.3,
        "damping": 0.0,
    }
]
WIND = [{"type": "wind", "velocity": [2.0, 3.0, 0.0]}]  # so that the sheet moves in every direction


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_pins_stay_where_they_are_to_the_last_bit(integrator: str, device: str) -> None:
    run = Simulation(
        scene([{"type": "pin", "where": {"edges": ["upper"]}}], integrator=integrator, forces=WIND), device
    )
    frames = list(run.run())
    for frame in frames:
        assert np.array_equal(frame.positions[UPPER], frames[0].positions[UPPER])
        assert not frame.velocities[UPPER].any()
    assert np.abs(frames[-1].positions - frames[0].positions).max() > 1e-2


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_moving_pins_follow_their_keyframes(integrator: str, device: str) -> None:
    """Positions and velocities are exactly those of the motion, at every frame."""
    run = Simulation(
        scene([{"type": "pin", "where": {"edges": ["upper"]}, "motion": MOTION}], integrator=integrator), device
    )
    constraint = run.scene.constraints[0]
    assert constraint.motion is not None
    start = run.surface.rest[UPPER]
    for frame in list(run.run())[1:]:
        x, v = constraint.motion.move(start, frame.time)
        assert np.array_equal(frame.positions[UPPER], x) and np.array_equal(frame.velocities[UPPER], v)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("type_name", [type_name for type_name in FOUND if CASES[type_name][1] > 0])
def test_sliding_particles_stay_on_their_plane_or_line(type_name: str, integrator: str, device: str) -> None:
    """Exact to the rounding of positions of half a meter, while they move along it."""
    settings, _ = CASES[type_name]
    constraint = {"type": type_name, "where": {"edges": ["upper"]}, **settings}
    run = Simulation(scene([constraint], integrator=integrator, forces=WIND), device)
    frames = list(run.run())
    (given,) = settings.values()
    axis = np.array(given) / np.linalg.norm(given)
    across = np.outer(axis, axis) if type_name == "slide_on_plane" else np.eye(3) - np.outer(axis, axis)
    for frame in frames:
        assert np.abs((frame.positions - frames[0].positions)[UPPER] @ across).max() <= 1e-15
        # A velocity that leads to the exact position is exact to the rounding of positions over the step.
        assert np.abs(frame.velocities[UPPER] @ across).max() <= 1e-15 / run.control.max_step
    assert np.abs(frames[-1].positions - frames[0].positions)[UPPER].max() > 1e-2


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_constraint_holds_between_its_start_and_end(integrator: str, device: str) -> None:
    """Free until 0.11 s, then held at the positions of that time, free again from 0.2 s; no frame is at 0.11 s."""
    pin = {"type": "pin", "where": {"edges": ["upper"]}, "start": 0.11, "end": 0.2}
    run = Simulation(scene([pin], integrator=integrator, time={"frames": 9, "fps": 30.0}), device)
    frames = list(run.run())
    upper = np.array([frame.positions[UPPER] for frame in frames])  # frames 0 .. 9 at 0 .. 0.3 s
    moves = np.abs(np.diff(upper, axis=0)).max(axis=(1, 2))
    assert (moves[:3] > 1e-3).all()
    # Free fall of the whole sheet until 0.11 s; the first step of BDF2 is backward Euler, which falls by g h^2/2 more.
    fall = upper[0, :, 2] - upper[4, :, 2]
    np.testing.assert_allclose(fall, 0.5 * 9.81 * 0.11**2, atol=0.11 * 9.81 / 60.0)
    assert (fall > upper[0, :, 2] - upper[3, :, 2] + 1e-3).all()  # it has fallen since frame 3, at 0.1 s
    assert np.array_equal(upper[4], upper[5]) and np.array_equal(upper[5], upper[6])  # 0.133, 0.167 and 0.2 s
    assert not frames[5].velocities[UPPER].any()
    assert (moves[6:] > 1e-4).all()


def test_contradictory_pins_are_refused(device: str) -> None:
    """One pin holds a particle at rest, another moves it."""
    pin = {"type": "pin", "where": {"edges": ["upper"]}}
    with pytest.raises(SceneError, match=r"constraints\[1\]: contradicts constraints\[0\]"):
        Simulation(scene([pin, {**pin, "motion": MOTION}]), device)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_first_of_contradictory_planes_holds_in_a_run(integrator: str, device: str) -> None:
    """A plane at rest and a parallel one that moves away: the first holds, and the rest of the sheet is not
    affected."""
    still = {"type": "slide_on_plane", "normal": [0, 0, 1], "where": {"edges": ["upper"]}}
    leaving = {**still, "motion": {"keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [0.0, 0.0, 1.0]}]}}
    alone = list(Simulation(scene([still], integrator=integrator, forces=WIND), device).run())
    both = list(Simulation(scene([still, leaving], integrator=integrator, forces=WIND), device).run())
    np.testing.assert_allclose(both[-1].positions, alone[-1].positions, rtol=0, atol=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("type_name", [type_name for type_name in FOUND if CASES[type_name][1] > 0])
def test_a_bead_on_a_rotating_rod(type_name: str, integrator: str, device: str) -> None:
    """A bead on a turning rod: r(t) = (v0 / w) sinh(w t), and a velocity across the rod of w r.

    A weightless sheet in a plane, or on lines, through the axis; r is that of its center of mass, on which internal
    forces do not act. At w t = 1.2 a bead that is not carried along falls short by a fifth. Errors of first order are
    about w h = 0.8 %.
    """
    w, v0, end = 4.0, 1.0, 0.3
    turn = {
        "center": [0.0, 0.0, 0.0],
        "interpolation": "linear",
        "keyframes": [{"time": 0.0}, {"time": 1.0, "rotation": [0.0, 0.0, float(np.degrees(w))]}],
    }
    across = {"normal": [0.0, 1.0, 0.0]} if type_name == "slide_on_plane" else {"direction": [1.0, 0.0, 0.0]}
    sliding = scene(
        [{"type": type_name, "where": {"all": True}, "motion": turn, **across}],
        integrator=integrator,
        gravity=[0.0, 0.0, 0.0],
        time={"frames": int(480 * end), "fps": 480.0, "max_step": 1.0 / 480.0},
        cloth=[
            {
                "shape": {"type": "grid", "size": [0.1, 0.1], "resolution": [2, 2]},
                "fabric": {"stretch_warp": 500.0, "stretch_weft": 500.0, "shear": 50.0},
                "rotation": [90.0, 0.0, 0.0],
                "velocity": [v0, 0.0, 0.0],
                "spin": [0.0, 0.0, w],
            }
        ],
    )
    run = Simulation(sliding, device)
    frame = list(run.run())[-1]
    masses = run.model.masses / run.model.masses.sum()
    x, v = masses @ frame.positions, masses @ frame.velocities
    along, side = np.array([np.cos(w * end), np.sin(w * end), 0.0]), np.array([-np.sin(w * end), np.cos(w * end), 0.0])
    r = v0 / w * np.sinh(w * end)
    assert x @ side == pytest.approx(0.0, abs=1e-14)
    assert v @ side == pytest.approx(w * (x @ along), rel=0.02)
    assert x @ along == pytest.approx(r, rel=0.02)


@pytest.mark.parametrize("type_name", FOUND)
def test_constraint_forces_balance_the_momentum(type_name: str, device: str) -> None:
    """sum m dv/h = weight + pull + constraint forces, at every step of backward Euler; the force is e/h, not e.

    The internal forces sum to zero, in the linearized system as well. The error is the residual, 1e-10 in every free
    direction, relative to the weight.
    """
    settings, _ = CASES[type_name]
    constraint = {"type": type_name, "where": {"edges": ["upper"]}, **settings}
    time = {"frames": 6, "fps": 60.0, "max_step": 1.0 / 60.0}  # one step a frame
    run = Simulation(scene([constraint], integrator="implicit_euler", time=time, forces=PULL), device)
    weight = np.array([0.0, 0.0, -WEIGHT])
    before = np.zeros_like(run.surface.rest)
    for _ in range(6):
        frame = run.advance_frame()
        gained = 60.0 * run.model.masses @ (frame.velocities - before)
        pulled = 0.3 * (np.array([0.5, 0.5, 0.5]) - frame.positions[24])
        before = frame.velocities
        forces = run.constraint_forces()
        np.testing.assert_allclose(forces.sum(axis=0), gained - weight - pulled, rtol=0, atol=1e-8 * WEIGHT)
        np.testing.assert_allclose(np.einsum("nij,nj->ni", run.constraints.state.S.numpy(), forces), 0.0, atol=1e-13)
        assert not forces[: UPPER[0]].any()


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_pins_carry_the_weight_of_a_sheet_at_rest(integrator: str, device: str) -> None:
    """m g in total. The sheet hangs straight down; its damping ends the stretching motion within two seconds."""
    # Explicit damping has to be weak, and then takes longer.
    damping, frames = (5e-4, 150) if integrator == "explicit_euler" else (0.1, 60)
    fabric = {"density": 0.2, "stretch_warp": 500.0, "stretch_weft": 500.0, "shear": 50.0, "damping": damping}
    hanging = scene(
        [{"type": "pin", "where": {"edges": ["upper"]}}],
        integrator=integrator,
        time={"frames": frames, "fps": 30.0, "max_step": 1.0 / 60.0},
        cloth=[
            {
                "shape": {"type": "grid", "size": [0.4, 0.4], "resolution": [SIZE, SIZE]},
                "rotation": [90.0, 0.0, 0.0],
                "fabric": fabric,
            }
        ],
    )
    run = Simulation(hanging, device)
    frame = list(run.run())[-1]
    assert np.abs(frame.velocities).max() < 1e-9
    np.testing.assert_allclose(run.constraint_forces().sum(axis=0), [0.0, 0.0, WEIGHT], rtol=0, atol=1e-8 * WEIGHT)
    assert (run.constraint_forces()[UPPER, 2] > 0.0).all()
