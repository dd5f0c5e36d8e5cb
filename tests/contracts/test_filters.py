"""Contract of every filter that the loader finds: it corrects a step, independent of rejected steps before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference.filtering import Filtering

from toile.contact.intersection_audit import Audit
from toile.plugins import find, names

H = 1.0 / 60.0
COUNT = 64
# A correction at one place affects the whole cloth: by one linear system, or by passes over neighbors.
ALL_AT_ONCE = ("strain_impulse", "strain_velocity")
SOLIDS: list[dict[str, Any]] = [
    {"type": "plane", "friction": 0.4},
    {
        "type": "sphere",
        "sharp": False,  # the strip starts on both sides of its faces
        "radius": 0.3,
        "friction": 0.2,
        "motion": {"keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [0.2, 0.1, 0.0], "rotation": [0, 0, 90]}]},
    },
]


@pytest.fixture(params=names("filters"))
def type_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def moving(seed: int = 3, speed: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """A strip of two columns in layers, on both sides of the surfaces of the solids, with random velocities.

    They would move many of its particles through the solids, and through the layers above and below. It starts
    without intersections, because self_contact lets tangled cloth pass.
    """
    random = np.random.default_rng(seed)
    column, row = np.arange(COUNT) % 2, np.arange(COUNT) // 2  # in the order of a grid of (2, COUNT // 2)
    layer, along = row // 4, row % 4
    along = np.where(layer % 2 == 0, along, 3 - along)  # back and forth
    x = np.column_stack([0.25 * along - 0.37, 0.2 * column - 0.1, 0.05 * layer - 0.17])
    return x + random.uniform(-0.01, 0.01, x.shape), random.normal(scale=speed, size=x.shape)


def test_there_are_filters() -> None:
    assert "forecast" in names("filters")


def test_has_a_summary(type_name: str) -> None:
    assert len(find("filters", type_name).summary()) > 10


def test_every_filter_corrects_the_motion_of_these_tests(type_name: str, device: str) -> None:
    """Every filter corrects the motion of these tests; otherwise they would prove nothing."""
    x, v = moving()
    x_out, v_out = Filtering(device, [type_name], SOLIDS, COUNT).correct(x, v, H, 0.5)
    assert np.isfinite(x_out).all() and np.isfinite(v_out).all()
    assert np.abs(x_out - (x + H * v)).max() > 1e-3
    assert np.abs(v_out - v).max() > 1e-3


def test_the_motion_starts_without_intersections(device: str) -> None:
    filtering = Filtering(device, [], SOLIDS, COUNT)
    triangles = filtering.simulation.model.triangles
    for seed in (3, 4):
        assert Audit(triangles, COUNT, device).count(moving(seed)[0]) == 0


def test_cloth_at_rest_far_from_solids_is_not_changed(type_name: str, device: str) -> None:
    """To the last bit, for a sheet at its rest shape 1 km away."""
    filtering = Filtering(device, [type_name], SOLIDS, COUNT)
    x = filtering.simulation.state.x.numpy().astype(float)
    v = np.zeros_like(x)
    x_out, v_out = filtering.correct(x, v, H)
    assert np.array_equal(x_out, x) and np.array_equal(v_out, v)


def test_without_solids_nothing_is_corrected(type_name: str, device: str) -> None:
    filtering = Filtering(device, [type_name], [], COUNT)
    x = filtering.simulation.state.x.numpy().astype(float)
    v = np.broadcast_to([0.3, -0.2, -1.0], x.shape).copy()
    x_out, v_out = filtering.correct(x, v, H)
    assert np.array_equal(x_out, (x + H * v).astype(x.dtype)) and np.array_equal(v_out, v)


def test_the_state_at_the_start_of_the_step_is_not_changed(type_name: str, device: str) -> None:
    """Filtering.correct compares the state at the start of the step, to the last bit."""
    x, v = moving()
    Filtering(device, [type_name], SOLIDS, COUNT).correct(x, v, H, 0.5)


def test_a_rejected_step_does_not_affect_the_next_correction(type_name: str, device: str) -> None:
    """The same step gives the same bits after a rejected one: another motion, or a step twice as long."""
    x, v = moving()
    fresh = Filtering(device, [type_name], SOLIDS, COUNT).correct(x, v, H, 0.5)
    used = Filtering(device, [type_name], SOLIDS, COUNT)
    used.correct(*moving(seed=4, speed=20.0), H, 0.5)
    used.correct(x, v, 2.0 * H, 0.5)
    again = used.correct(x, v, H, 0.5)
    assert all(np.array_equal(one, two) for one, two in zip(fresh, again, strict=True))
    marked = Filtering(device, [type_name], SOLIDS, COUNT)
    marked.correct(x, v, H, 0.5)
    assert np.array_equal(
        used.simulation.corrections.discontinuous.numpy(), marked.simulation.corrections.discontinuous.numpy()
    )


def test_discontinuous_motion_is_marked(type_name: str, device: str) -> None:
    """Particles whose velocity was changed are marked, and no longer after a step without a correction."""
    x, v = moving()
    filtering = Filtering(device, [type_name], SOLIDS, COUNT)
    _, v_out = filtering.correct(x, v, H, 0.5)
    marked = changed(filtering)
    assert np.array_equal(marked, (v_out != v).any(axis=1)) and marked.any()
    assert type_name in ALL_AT_ONCE or not marked.all()
    far = filtering.simulation.state.x.numpy().astype(float)
    filtering.correct(far, np.zeros_like(far), H, 0.5)
    assert not changed(filtering).any()


def changed(filtering: Filtering) -> np.ndarray:
    """The particles that are marked as discontinuous for the integrator."""
    corrections = filtering.simulation.corrections
    return (corrections.discontinuous.numpy() != 0) | (corrections.dv.numpy() != 0.0).any(axis=1)


@pytest.mark.parametrize(
    ("held", "normals"),
    [
        ({"type": "pin"}, np.eye(3)),
        ({"type": "slide_on_plane", "normal": [2.0, -1.0, 2.0]}, np.array([[2.0, -1.0, 2.0]]) / 3.0),
        ({"type": "slide_on_line", "direction": [0.0, 0.0, 1.0]}, np.eye(3)[:2]),
    ],
    ids=["pin", "slide_on_plane", "slide_on_line"],
)
def test_constraints_hold(type_name: str, held: dict[str, Any], normals: np.ndarray, device: str) -> None:
    """Held directions of half of the particles keep the position and velocity of the step; the others are corrected.

    A particle that is held to a plane and in contact with a solid moves along one line, which is perpendicular to two
    normals: the rounding error of its motion is that of the normals divided by the sine of the angle between them.
    """
    chosen = np.arange(0, COUNT, 2)
    constraint = {**held, "where": {"indices": chosen.tolist()}}
    x, v = moving()
    v[chosen] *= 0.05  # pins that drive cloth through cloth could not hold
    # Contacts with friction hold particles where the solid goes, and no integrator has led these there.
    sticking = type_name != "self_contact"
    solids = SOLIDS if sticking else [{**solid, "friction": 0.0} for solid in SOLIDS]
    filtering = Filtering(device, [type_name], solids, COUNT, constraints=[constraint])
    x_out, v_out = filtering.correct(x, v, H, 0.5)
    dx, dv = x_out - (x + H * v), v_out - v
    assert np.abs(dx[chosen] @ normals.T).max() <= 3e-14 * np.abs(dx).max()
    assert np.abs(dv[chosen] @ normals.T).max() <= 3e-14 * np.abs(dv).max()
    others = np.setdiff1d(np.arange(COUNT), chosen)
    assert np.abs((v_out - v)[others]).max() > 1e-3
    if held["type"] == "pin":
        assert np.array_equal(v_out[chosen], v[chosen])
