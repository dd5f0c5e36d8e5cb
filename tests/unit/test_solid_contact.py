"""Contact with solids: determinism, rejected steps, pins, and settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toile.contact.solid.contact_arrays import PER_PARTICLE, PER_SLOT
from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation
from toile.simulation.step import StepLoop
from toile.simulation.step_control import StepControl
from toile.simulation.strain import Strain

H = 1.0 / 60.0

# It falls on a ball, the edge of a rotating box, and the ground: sliding, sticking, landing and separation.
SCENE: dict[str, Any] = {
    "filters": [],
    "time": {"frames": 20, "max_step": H},
    "cloth": [
        {"shape": {"type": "grid", "size": [0.5, 0.5], "resolution": [11, 11]}, "translation": [0.02, 0.01, 0.17]}
    ],
    "solids": [
        {"type": "sphere", "radius": 0.15, "friction": 0.2},
        {
            "type": "box",
            "size": [0.3, 0.3, 0.1],
            "translation": [0.2, 0.0, 0.0],
            "motion": {"keyframes": [{"time": 0.1}, {"time": 0.6, "rotation": [0.0, 0.0, 60.0]}]},
        },
        {"type": "plane", "translation": [0.0, 0.0, -0.1]},
    ],
}


def simulation(**changes: Any) -> Simulation:
    return Simulation(Scene(**{**SCENE, **changes}))


def state_dict(running: Simulation) -> dict[str, bytes]:
    """The state of contacts that the next step uses."""
    assert running.contacts.solid is not None
    names = (*PER_PARTICLE, *PER_SLOT, "clearance")
    return {name: getattr(running.contacts.solid._before, name).numpy().tobytes() for name in names}


@pytest.mark.parametrize("integrator", ["implicit_bdf2", "implicit_euler"])
def test_same_bits_twice(integrator: str) -> None:
    runs = [simulation(integrator=integrator) for _ in range(2)]
    for one, other in zip(*(run.run() for run in runs), strict=True):
        assert one.positions.tobytes() == other.positions.tobytes()
        assert one.velocities.tobytes() == other.velocities.tobytes()
    contacts = [run.contacts.solid for run in runs]
    assert contacts[0] is not None
    assert contacts[1] is not None
    assert contacts[0].contact_count() > 10
    assert contacts[0].forces().tobytes() == contacts[1].forces().tobytes()


@pytest.mark.parametrize("integrator", ["implicit_bdf2", "implicit_euler"])
def test_a_rejected_step_does_not_affect_the_next(integrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third step is first tried at twice its length and rejected: the run is the same as without these tries."""
    # A Cholesky factor may be kept from try to try; this preconditioner is updated for every solve.
    solver = {"preconditioner": "block_jacobi"}
    tried, calm = (simulation(integrator=integrator, solver=solver) for _ in range(2))
    judge, tally, in_contact = StepLoop.reject, FrameTally(), 0
    for step in range(30):
        tried.loop.control = StepControl(2.0 * H, 1e-5)
        kept, verdicts, after_try = state_dict(tried), ["not this one"] if step % 3 == 0 else [], []

        def discard_first(
            self: StepLoop, solution: Any, verdicts: list[str] = verdicts, after_try: list[Any] = after_try
        ) -> str | None:
            if self is tried.loop and verdicts:
                after_try.append(state_dict(tried))
                return verdicts.pop()
            return judge(self, solution)

        monkeypatch.setattr(StepLoop, "reject", discard_first)
        tried.step(2.0 * H if verdicts else H, tally)
        assert all(restored == kept for restored in after_try)
        calm.step(H, FrameTally())
        assert tried.state.t == calm.state.t
        assert tried.state.x.numpy().tobytes() == calm.state.x.numpy().tobytes()
        assert tried.state.v.numpy().tobytes() == calm.state.v.numpy().tobytes()
        assert calm.contacts.solid is not None
        in_contact = max(in_contact, calm.contacts.solid.contact_count())
    assert tally.rejected == 10
    assert in_contact > 10


def test_contacts_do_not_move_pins() -> None:
    """A pinned particle inside a solid stays at its pin, and does not load the solid."""
    pinned = {"type": "pin", "where": {"indices": [60]}}  # the middle, above the ball
    lowered = {**SCENE["cloth"][0], "translation": [0.0, 0.0, 0.14]}
    running = simulation(cloth=[lowered], constraints=[pinned])
    start = running.state.x.numpy()[60].copy()
    assert np.linalg.norm(start) < 0.15
    for frame in running.run(10):
        np.testing.assert_array_equal(frame.positions[60], start)
    assert running.contacts.solid is not None
    assert running.contacts.solid._before.count.numpy()[60] == 0


@pytest.mark.parametrize("thickness", [5e-4, 4e-3])
def test_cloth_rests_at_the_thickness(thickness: float) -> None:
    """A sheet at rest on the ground is at the distance that the scene gives."""
    flat = {**SCENE["cloth"][0], "translation": [5.0, 0.0, -0.09]}
    running = simulation(cloth=[flat], constraints=[{"type": "solid_contact", "thickness": thickness}])
    list(running.run())
    np.testing.assert_allclose(running.state.x.numpy()[:, 2], thickness - 0.1, rtol=0.0, atol=1e-12)


def test_each_solid_has_its_own_force_and_count() -> None:
    """Particles on two solids: each solid carries those that lie on it."""
    places = {"one": [0.0, 0.0, 0.2], "other": [5.0, 0.0, 0.0]}
    cloths = [{**SCENE["cloth"][0], "name": name, "translation": place} for name, place in places.items()]
    solids = [
        {"type": "box", "size": [1.0, 1.0, 0.398], "friction": 0.5},
        {"type": "plane", "translation": [0.0, 0.0, -0.001], "friction": 0.5},
    ]
    running = simulation(cloth=cloths, solids=solids)
    list(running.run(5))
    assert running.contacts.solid is not None
    each = 9.81 * running.model.masses.sum() / 2.0
    np.testing.assert_allclose(running.contacts.solid.forces()[:, 2], (-each, -each), rtol=1e-3)
    assert running.contacts.solid.contact_count() == 242
    assert running.contacts.solid.counts().tolist() == [121, 121]


@pytest.mark.parametrize("integrator", ["implicit_bdf2", "implicit_euler"])
def test_every_solve_includes_the_contacts(integrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes a second linearization, after contacts were found and released at the end of the first."""
    # The strain after every step requests another linearization.
    monkeypatch.setattr(Strain, "needs_linearization", lambda self, changes, added, in_contact: added == 0)
    running, tally, solves = simulation(integrator=integrator), FrameTally(), 0
    contacts, solver = running.contacts.solid, running.integrator.newton.solver
    assert contacts is not None
    solve = solver.solve

    def solve_and_compare(again: float, loosen: float) -> Any:
        nonlocal solves
        solves += 1
        constraints, count = running.constraints.state, contacts._now.count.numpy()
        held = constraints.S.numpy() != constraints.S_user.numpy()
        np.testing.assert_array_equal(held.any(axis=(1, 2)), count > 0)
        assert contacts._now.load.numpy()[::3][count > 0].min(initial=0.0) >= 0.0
        return solve(again, loosen)

    monkeypatch.setattr(solver, "solve", solve_and_compare)
    for _ in range(30):
        running.step(H, tally)
    assert contacts.contact_count() > 10
    assert solves >= 75  # of 30 steps, the first of which begin without a contact
