"""Impulses along threads against their definition ([Ye08] secs. 4, 5).

along each thread     the length changes by z in the step, to rounding
the length itself     sqrt((L + z)^2 + (h v_perp)^2): the linear system leaves out the rotation of the thread
momentum              linear and angular momentum are conserved where nothing is held
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import warp as wp
from reference.impulses import jacobian, limited, weights

from toile.filters.strain_impulse import StrainImpulseLimit
from toile.math.types import mat33, vec3
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

H = 1.0 / 450.0
# Narrow limits, so that states beyond them need small corrections: those that turn threads by 0.1 rad are limited.
NARROW = {"type": "strain_impulse", "passes": 1, "extension": 0.01, "compression": 0.005}
SOFT = {"density": 0.2, "stretch_warp": 20.0, "stretch_weft": 20.0, "shear": 2.0, "bend_warp": 1e-6, "bend_weft": 1e-6}


def sheet(device: str, shape: dict[str, Any] | None = None, **fields: Any) -> Simulation:
    """A soft sheet with the filter, stepped by H."""
    filters = fields.pop("filters", [NARROW])
    shape = shape or {"type": "grid", "size": (1.0, 0.8), "resolution": (9, 7)}
    time = {"fps": 1.0 / H, "max_step": H, "frames": 0, **fields.pop("time", {})}
    cloth = [{"shape": shape, "fabric": SOFT, **fields.pop("cloth", {})}]
    return Simulation(Scene(cloth=cloth, filters=filters, time=time, **fields), device)


class Limit:
    """Calls the filter of a simulation with NumPy arrays."""

    def __init__(self, simulation: Simulation):
        self.simulation = simulation
        filter_at_work = simulation.filters[0]
        assert isinstance(filter_at_work, StrainImpulseLimit)
        self.filter = filter_at_work
        self.masses = simulation.model.masses
        simulation.constraints.move(0.0, H, simulation.state.x)

    def __call__(self, x: np.ndarray, v: np.ndarray, h: float = H) -> np.ndarray:
        held, device = self.simulation.constraints.state, self.simulation.device
        assert held.S.dtype == mat33
        on_device = wp.array(v, dtype=vec3, device=device)
        self.filter.limit(wp.array(x, dtype=vec3, device=device), on_device, h)
        return np.array(on_device.numpy(), float)

    def lengths(self, x: np.ndarray) -> np.ndarray:
        rows = self.filter.lengths
        return np.asarray(np.linalg.norm(np.einsum("pa,pac->pc", rows.weights, x[rows.particles]), axis=1))

    def outside(self, x: np.ndarray) -> np.ndarray:
        """Excess beyond the limits relative to the rest length; 0 within them."""
        L, rows = self.lengths(x), self.filter.lengths
        return np.asarray((L - np.clip(L, rows.shortest, rows.longest)) / rows.rest)


def crumpled(simulation: Simulation, seed: int, size: float = 0.001) -> tuple[np.ndarray, np.ndarray]:
    """Positions near rest, not flat, and velocities that take many threads beyond their limits."""
    rng = np.random.default_rng(seed)
    x = simulation.state.x.numpy().astype(float)
    x = x + rng.uniform(-size, size, x.shape) + np.outer(np.sin(6.0 * x[:, 0]) * np.cos(5.0 * x[:, 1]), [0, 0, 0.03])
    return x, rng.normal(scale=0.2, size=x.shape)


def test_each_length_changes_by_its_z(device: str) -> None:
    """All four cases at once; the length afterwards is that of the right triangle of L + z and h v_perp."""
    simulation = sheet(device)
    limit = Limit(simulation)
    rows = limit.filter.lengths
    pairs = rows.particles[:, :2]
    seen = np.zeros(4, int)
    for seed in range(4):
        x, v = crumpled(simulation, seed)
        v_new = limit(x, v)
        J = jacobian(x, pairs)
        L, ahead = limit.lengths(x), limit.lengths(x + H * v)
        within = (ahead >= rows.shortest) & (ahead <= rows.longest)
        z = np.where(within, H * (J @ v.ravel()), np.clip(L, rows.shortest, rows.longest) - L)
        np.testing.assert_allclose(H * (J @ v_new.ravel()), z, rtol=0.0, atol=1e-10)
        relative = v_new[pairs[:, 1]] - v_new[pairs[:, 0]]
        across = np.sqrt(np.maximum(np.sum(relative**2, axis=1) - (z / H) ** 2, 0.0))
        np.testing.assert_allclose(limit.lengths(x + H * v_new), np.hypot(L + z, H * across), rtol=0.0, atol=1e-10)
        case = np.where(within, 3, np.where(rows.longest < L, 0, np.where(rows.shortest > L, 1, 2)))
        seen += np.bincount(case, minlength=4)
    assert (seen > 0).all(), seen


@pytest.mark.parametrize("passes", [1, 3])
def test_impulses_conserve_the_momentum_of_a_free_sheet(passes: int, device: str) -> None:
    """1e-10 of sum m |v|, and of sum m |x| |v|. Further passes turn with the threads: the error of their angular
    momentum
    is the displacement of the step, h |v|, times the impulses of those passes."""
    simulation = sheet(device, filters=[{**NARROW, "passes": passes}])
    limit = Limit(simulation)
    m = limit.masses[:, None]
    for seed in range(4):
        x, v = crumpled(simulation, seed)
        v_new = limit(x, v)
        dv = v_new - v
        assert np.abs(dv).max() > 0.05
        whole = np.sum(m * np.linalg.norm(v, axis=1)[:, None])
        assert np.abs(np.sum(m * dv, axis=0)).max() <= 1e-10 * whole
        turned = np.abs(np.sum(m * np.cross(x, dv), axis=0)).max()
        turned_end = np.abs(np.sum(m * np.cross(x + H * v_new, v_new) - m * np.cross(x + H * v, v), axis=0)).max()
        tolerance = 1e-10 if passes == 1 else 2.0 * H
        assert max(turned, turned_end) <= tolerance * whole * np.abs(x).max()


HOLDS: dict[str, list[dict[str, Any]]] = {
    "pin": [{"type": "pin", "where": {"edges": ["upper"]}}],
    "slide_on_line": [{"type": "slide_on_line", "where": {"edges": ["upper"]}, "direction": [1.0, 0.2, 0.0]}],
    "slide_on_plane": [{"type": "slide_on_plane", "where": {"edges": ["left"]}, "normal": [0.1, 0.0, 1.0]}],
}


@pytest.mark.parametrize("held", HOLDS)
def test_constraints_are_part_of_the_system(held: str, device: str) -> None:
    """The paper's dense system with C of each particle, rows of fully held springs deleted."""
    simulation = sheet(device, constraints=HOLDS[held])
    limit = Limit(simulation)
    rows = limit.filter.lengths
    C = simulation.constraints.state.S.numpy().astype(float)
    for seed in range(3):
        x, v = crumpled(simulation, seed)
        expected = limited(x, v, H, rows.particles[:, :2], rows.shortest, rows.longest, weights(limit.masses, C))
        found = limit(x, v)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)
        kept = np.einsum("pij,pj->pi", np.eye(3) - C, found - v)
        assert np.abs(kept).max() < 1e-13


def test_contacts_with_solids_are_part_of_the_system(device: str) -> None:
    """A sheet lies on a floor and its sides are pulled apart. Impulses act in every step, and particles on the floor
    stay
    on it to the last bit."""
    apart = [
        {
            "type": "slide_on_plane",
            "where": {"edges": [side]},
            "normal": [1.0, 0.0, 0.0],
            "motion": {"keyframes": [{"time": 0.05}, {"time": 0.3, "translation": [sign * 0.04, 0.0, 0.0]}]},
        }
        for side, sign in (("left", -1.0), ("right", 1.0))
    ]
    simulation = sheet(
        device,
        solids=[{"type": "plane", "friction": 0.3}],
        cloth={"translation": (0.0, 0.0, 0.001)},
        constraints=apart,
        filters=[{**NARROW, "passes": 3}],
        integrator="implicit_euler",
    )
    acted, heights = 0, []
    for _ in range(140):
        simulation.advance_frame()
        acted += int(np.abs(simulation.corrections.dv.numpy()).max() > 1e-6)
        heights.append(simulation.state.x.numpy()[:, 2].astype(float))
    on_floor = np.abs(simulation.constraints.state.S.numpy()[:, 2, 2]) < 1e-9
    assert on_floor.sum() > 50 and acted > 40
    assert np.ptp(np.array(heights)[20:, on_floor]) < 1e-12


def test_warp_and_weft_have_limits_of_their_own(device: str) -> None:
    """1 % along u and 20 % along v: threads stretched by 10 % both ways are brought back along u alone."""
    settings = {**NARROW, "extension": 0.2, "extension_warp": 0.01, "compression_weft": 0.5}
    simulation = sheet(device, filters=[settings])
    limit = Limit(simulation)
    x = simulation.state.x.numpy().astype(float) * [1.1, 1.1, 1.0]
    v_new = limit(x, np.zeros_like(x))
    stretch = limit.lengths(x + H * v_new) / limit.filter.lengths.rest
    d = x[limit.filter.lengths.particles[:, 1]] - x[limit.filter.lengths.particles[:, 0]]
    along_u = np.abs(d[:, 0]) > np.abs(d[:, 1])
    np.testing.assert_allclose(stretch[along_u], 1.01, atol=1e-9)
    np.testing.assert_allclose(stretch[~along_u], 1.1, atol=1e-9)


def test_a_sheet_within_its_limits_keeps_its_bits(device: str) -> None:
    simulation = sheet(device)
    limit = Limit(simulation)
    x = simulation.state.x.numpy().astype(float) * [1.005, 0.998, 1.0]
    v = np.random.default_rng(2).normal(scale=1e-3, size=x.shape)
    assert np.array_equal(limit(x, v), v)


def test_a_thread_that_returns_by_itself_gets_no_impulse(device: str) -> None:
    """11 % too long, and within the limit at the end of the step: no impulse, where the paper would slow the thread."""
    simulation = sheet(device)
    limit = Limit(simulation)
    x = simulation.state.x.numpy().astype(float)
    v = (x * 1.002 - x * 1.12) / H
    assert np.array_equal(limit(1.12 * x, v), v)


def test_pins_farther_apart_than_the_limits_share_the_strain_evenly(device: str) -> None:
    """A flat sheet whose upper corners are pulled 20 % apart: the system is singular and infeasible. The row of threads
    between them shares the strain evenly, no step is rejected, and nothing leaves the plane."""
    moved = {"keyframes": [{"time": 0.0}, {"time": 0.2, "translation": [0.2, 0.0, 0.0]}]}
    simulation = sheet(
        device,
        constraints=[
            {"type": "pin", "where": {"corners": ["upper_left"]}},
            {"type": "pin", "where": {"corners": ["upper_right"]}, "motion": moved},
        ],
        cloth={"fabric": {**SOFT, "stretch_warp": 200.0, "stretch_weft": 200.0, "damping": 0.01}},
        filters=[{"type": "strain_impulse"}],
        integrator="implicit_euler",
        gravity=(0.0, 0.0, 0.0),
    )
    regularized, rejected = 0, 0
    for _ in range(200):
        rejected += simulation.advance_frame().certificate["rejected"]
        regularized += simulation.filters[0].matrix.factor.regularized
    assert regularized > 20 and rejected == 0
    x = simulation.state.x.numpy().astype(float)
    assert np.abs(x[:, 2]).max() < 1e-9
    row = x[-9:]
    strain = np.linalg.norm(np.diff(row, axis=0), axis=1) / 0.125 - 1.0
    np.testing.assert_allclose(strain, 0.2, atol=0.005)


def test_triangles_keep_warp_and_weft_within_limits(device: str) -> None:
    """A disc has more warps and wefts than degrees of freedom. All that leave their limits are brought back, except for
    the 1 % of eps. If the others had to keep their rates, as on a grid, most of the correction would be lost."""
    simulation = sheet(device, {"type": "disc", "radius": 0.5, "rings": 6})
    limit = Limit(simulation)
    rows = limit.filter.lengths
    assert len(rows) == 2 * simulation.model.triangle_count > 3 * simulation.model.particle_count
    x, _ = crumpled(simulation, 1, size=0.0)
    v = np.zeros_like(x)
    middle = np.linalg.norm(x[:, :2], axis=1) < 0.2
    v[middle] = x[middle] * [0.02, 0.02, 0.0] / H  # the middle grows by 2 % in a step
    J = np.zeros((len(rows), len(x), 3))
    w = np.einsum("pa,pac->pc", rows.weights, x[rows.particles])
    L = np.linalg.norm(w, axis=1)
    for a in range(3):
        J[np.arange(len(rows)), rows.particles[:, a]] += rows.weights[:, a, None] * w / L[:, None]
    J = J.reshape(len(rows), -1)
    ahead = limit.lengths(x + H * v)
    out = (ahead > rows.longest) | (ahead < rows.shortest)
    assert 20 < out.sum() < len(rows) / 2
    z = np.clip(L, rows.shortest, rows.longest) - L
    wanted = J @ v.ravel() - z / H
    v_new = limit(x, v)
    left = (J @ v_new.ravel() - z / H)[out]
    assert np.abs(left).max() < 0.01 * np.abs(wanted[out]).max()
    # The same with all other rates kept as far as possible: velocities of another order.
    W = weights(limit.masses, np.tile(np.eye(3), (len(x), 1, 1)))
    rigid = W @ J.T @ np.linalg.lstsq(J @ W @ J.T, np.where(out, wanted, 0.0), rcond=1e-9)[0]
    m = np.repeat(limit.masses, 3)
    assert np.sum(m * rigid**2) > 50.0 * np.sum(m * (v_new - v).ravel() ** 2)


@pytest.mark.parametrize("integrator", ["implicit_euler", "implicit_bdf2", "mixed_leapfrog", "mixed_robust"])
@pytest.mark.parametrize("shape", ["grid", "disc"])
def test_limits_hold_after_every_integrator(integrator: str, shape: str, device: str) -> None:
    """A soft sheet thrown upwards against one pin: 40 % without the filter."""
    shapes = {
        "grid": {"type": "grid", "size": (0.5, 0.5), "resolution": (11, 11)},
        "disc": {"type": "disc", "radius": 0.28, "rings": 5},
    }
    found = {}
    for name, filters in (("plain", []), ("limited", [{"type": "strain_impulse", "passes": 5}])):
        simulation = sheet(
            device,
            shapes[shape],
            constraints=[{"type": "pin", "where": {"indices": [0]}}],
            cloth={"velocity": (1.0, 1.0, 0.5), "fabric": {**SOFT, "damping": 1e-3}},
            filters=filters,
            integrator=integrator,
        )
        largest = 0.0
        for _ in range(60):
            simulation.advance_frame()
            strain = simulation.loop.strain.summary(simulation.state.x, 0.0)
            largest = max(largest, strain["warp_max"], strain["weft_max"])
        found[name] = largest
    assert found["plain"] > 0.25
    assert found["limited"] < 0.12


@pytest.mark.parametrize(
    ("thickness", "reach"),
    [(0.003, 0.75), (0.003, 0.755), (0.004, 0.748), (0.004, 0.75), (0.004, 0.751), (0.005, 0.745), (0.005, 0.75)],
)
def test_limits_hold_with_contact_between_cloths(device: str, thickness: float, reach: float) -> None:
    """A sheet drawn over itself: nothing passes through, and its threads stay near their limits."""
    over = {"keyframes": [{"time": 0.0}, {"time": 0.5, "translation": [-reach, 0.0, 0.12]}]}
    simulation = sheet(
        device,
        {"type": "grid", "size": (0.6, 0.3), "resolution": (17, 9)},
        constraints=[
            {"type": "pin", "where": {"edges": ["left"]}},
            {"type": "pin", "where": {"edges": ["right"]}, "motion": over},
        ],
        cloth={"fabric": {**SOFT, "stretch_warp": 100.0, "stretch_weft": 100.0, "damping": 1e-2}},
        filters=[{"type": "strain_impulse"}, {"type": "self_contact", "thickness": thickness}],
    )
    largest = 0.0
    for _ in range(250):
        simulation.advance_frame()
        largest = max(largest, simulation.loop.strain.summary(simulation.state.x, 0.0)["warp_max"])
    assert simulation.report()["summary"]["intersections"] == 0
    assert largest < 0.15
