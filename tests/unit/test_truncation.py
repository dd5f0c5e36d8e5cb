"""The fail-safe shortens the paths of vertices that collide, and nothing else; ipctk and the audit judge the result."""

from __future__ import annotations

from typing import Any

import ipctk
import numpy as np
import pytest
from analytic.cloths import THICKNESS, cloths, contact_of, grid
from analytic.sheets import positions
from unit.test_contact_set import H, begin, random_motion, two

from toile.contact.intersection_audit import Audit
from toile.contact.response import resolve
from toile.contact.response.resolve import CLOTH_CAUGHT
from toile.contact.response.truncation import Truncation
from toile.model.mesh import find_edges
from toile.simulation.simulation import Simulation


def truncated(simulation: Simulation, d: np.ndarray, x: np.ndarray | None = None) -> tuple[Truncation, bool]:
    """The truncation of all paths x + d, without impulses before it, and whether it succeeded."""
    contacts = begin(simulation, d, x)
    contacts.search.update()
    contacts.contact_set.changed.fill_(1)
    return contacts._truncation, contacts._truncation.apply(H)


def ends(simulation: Simulation) -> np.ndarray:
    return np.asarray(contact_of(simulation).collision_mesh.x_end.numpy().copy())


def collides(simulation: Simulation, x: np.ndarray, end: np.ndarray) -> bool:
    """Whether anything collides on straight paths, or intersects at their ends; no code is shared with truncation."""
    triangles = contact_of(simulation).collision_mesh.triangles.astype(np.int32)
    mesh = ipctk.CollisionMesh(x, find_edges(triangles).edges.astype(np.int32), triangles)
    ccd = ipctk.AdditiveCCD(max_iterations=10_000, conservative_rescaling=0.99999)
    free = ipctk.is_step_collision_free(mesh, x, end, narrow_phase_ccd=ccd)
    return not free or Audit(triangles, len(x), simulation.device).count(end) > 0


@pytest.mark.parametrize("size", [0.01, 0.1, 1.0], ids="{} m".format)
def test_nothing_collides_afterwards(size: float, device: str) -> None:
    """Two quadrilaterals from random places, each vertex with a motion of its own, and two sheets."""
    collided = 0
    for count, seeds in ((2, 30), (6, 3)):
        sheets = [{"shape": grid(0.2, count)}, {"shape": grid(0.2, count), "translation": (0.01, 0.02, 0.01)}]
        simulation = cloths(device, sheets)
        flat = positions(simulation)
        for seed in range(seeds):
            x = flat + np.random.default_rng(seed).normal(scale=1e-3, size=flat.shape)
            d = random_motion(simulation, 1000 + seed, size)
            assert not collides(simulation, x, x)
            collided += collides(simulation, x, x + d)
            assert truncated(simulation, d, x)[1]
            assert not collides(simulation, x, ends(simulation))
    assert collided > 10


def test_only_paths_of_vertices_that_collide_are_shortened(device: str) -> None:
    """Paths keep their direction, and velocities fit them; vertices that `count` does not count keep every bit."""
    simulation = two(device, 5.0)
    for seed in range(5):
        x = positions(two(device, 5.0))
        d = random_motion(simulation, seed, 4e-3)
        d[:, 2] = np.where(np.arange(len(d)) < 36, 1.0, -1.0) * np.abs(d[:, 2])
        truncation, done = truncated(simulation, d, x)
        assert done
        mesh = contact_of(simulation).collision_mesh
        end, v, left = ends(simulation), mesh.v_end.numpy(), truncation._left.numpy()
        kept = left == 1.0
        assert truncation.count() == np.count_nonzero(~kept) > 0 and kept.any()
        assert np.array_equal(end[kept], (x + d)[kept]) and np.array_equal(v[kept], (d / H)[kept])
        assert left.min() >= 0.0
        np.testing.assert_allclose(end - x, left[:, None] * d, atol=1e-15)
        np.testing.assert_allclose(v, (end - x) / H, atol=1e-12)


@pytest.mark.parametrize("motion", ["apart", "along", "together", "close"])
def test_motion_that_does_not_collide_keeps_its_bits(motion: str, device: str) -> None:
    """Sheets separate, slide past each other, move together by half a meter, or approach to 0.3 of the thickness."""
    simulation = two(device, 1.0)
    lower = np.arange(72)[:, None] < 36
    d = {
        "apart": np.where(lower, -1.0, 1.0) * [1e-3, 0.0, 0.02],
        "along": np.where(lower, -1.0, 1.0) * [0.03, 0.01, 0.0],
        "together": np.ones((72, 1)) * [0.3, -0.2, 0.35],
        "close": np.where(lower, 0.0, -0.7) * [0.0, 0.0, THICKNESS],
    }[motion]
    x = positions(simulation)
    truncation, done = truncated(simulation, d)
    assert done and truncation.count() == 0
    assert np.array_equal(ends(simulation), x + d)
    assert np.array_equal(contact_of(simulation).collision_mesh.v_end.numpy(), d / H)


def test_constrained_vertices_keep_their_displacement(device: str) -> None:
    """Pins, to the last bit; vertices that slide on a plane keep its direction, to rounding. The rest gives way."""
    pins, slides, normal = [0, 5, 30, 35], [7, 8, 13, 14], np.array([2.0, -1.0, 2.0]) / 3.0
    constraints = [
        {"type": "pin", "cloth": "0", "where": {"indices": pins}},
        {"type": "slide_on_plane", "cloth": "0", "where": {"indices": slides}, "normal": tuple(normal)},
    ]
    shortened = 0
    for seed in range(4):
        simulation = two(device, 5.0, constraints=constraints)
        x = positions(simulation)
        d = random_motion(simulation, seed, 0.03)
        d[pins] = (0.0, 0.0, 1e-3)
        d[slides] -= np.outer(d[slides] @ normal - 1e-3, normal)  # the plane moves as well
        truncation, done = truncated(simulation, d)
        assert done
        end = ends(simulation)
        assert np.array_equal(end[pins], (x + d)[pins])
        np.testing.assert_allclose((end - x - d)[slides] @ normal, 0.0, atol=1e-16)
        shortened += int(np.count_nonzero(truncation._left.numpy()[slides] < 1.0))
        assert not collides(simulation, x, end)
    assert shortened > 0


def test_vertices_of_solids_keep_their_displacement(device: str) -> None:
    """A sharp box rises by 2 cm through the place of a sheet that falls on it: the sheet ends before the impact."""
    up: dict[str, Any] = {"keyframes": [{"time": 0.0}, {"time": H, "translation": (0.0, 0.0, 2e-3)}]}
    box = {"type": "box", "size": (0.1, 0.1, 0.1), "translation": (0.0, 0.0, -0.06), "sharp": True, "motion": up}
    sheet = {"shape": grid(0.2, 4), "translation": (0.01, 0.02, -5e-3), "rotation": (0.0, 0.0, 17.0)}
    simulation = cloths(device, [sheet], solids=[box])
    d = np.tile([0.0, 0.0, -0.02], (16, 1))
    contacts = begin(simulation, d)
    x, wanted = contacts.mesh.x.numpy().copy(), contacts.mesh.x_end.numpy().copy()
    contacts.search.update()
    contacts.contact_set.changed.fill_(1)
    assert contacts._truncation.apply(H)
    end = contacts.mesh.x_end.numpy()
    assert np.array_equal(end[16:], wanted[16:]) and (wanted[16:] != x[16:]).any()
    assert collides(simulation, x, wanted) and not collides(simulation, x, end)


def test_pins_that_are_led_through_each_other_are_named(device: str) -> None:
    """Nothing can be shortened where both sides are pinned: the vertices of these pairs are stuck, and the reason that
    a step is rejected names them."""
    pins = [{"type": "pin", "cloth": name, "where": {"all": True}} for name in ("0", "1")]
    simulation = two(device, 10.0, constraints=pins)
    inner = np.abs(positions(simulation)[:, :2]).max(axis=1) < 0.08
    down = np.where(np.arange(72) < 36, 0.0, 1.0)[:, None] * [0.0, 0.0, -0.05]
    truncation, done = truncated(simulation, down)
    assert not done
    stuck = truncation.stuck()
    assert set(np.flatnonzero(inner)) <= set(stuck)  # corners of the upper sheet move past the lower one
    contacts = begin(simulation, down)
    assert contacts.resolve(None, H) == CLOTH_CAUGHT
    assert np.array_equal(contacts.caught_vertices, stuck)
    assert "Pins move" in (contact_of(simulation).remedy(CLOTH_CAUGHT, np.ones(72, bool)) or "")


@pytest.mark.parametrize("turns", [False, True], ids=["rises", "turns"])
def test_a_moving_solid_carries_the_cloth_that_it_would_run_over(
    turns: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sheets lie on a sharp box that rises by ten thicknesses, or turns as well; each vertex also has a motion of
    its own. Paths that end where they began would leave the sheets to the box; no step is too long."""
    monkeypatch.setattr(resolve, "MAX_IMPACT_PASSES", 0)
    up: dict[str, Any] = {"time": H, "translation": (0.0, 0.0, 10.0 * THICKNESS)}
    if turns:
        up["rotation"] = (1.0, 0.0, 2.0)
    box = {"type": "box", "size": (0.1, 0.1, 0.1), "translation": (0.0, 0.0, -0.05), "sharp": True}
    box["motion"] = {"keyframes": [{"time": 0.0}, up], "interpolation": "linear"}
    heights, carried = (2e-5, 2e-5 + 0.3 * THICKNESS), 0
    sheets = [{"shape": grid(0.2, 6), "translation": (0.01, 0.02, z), "rotation": (0.0, 0.0, 17.0)} for z in heights]
    for seed in range(5):
        simulation = cloths(device, sheets, solids=[box])
        x = positions(simulation)
        d = random_motion(simulation, seed, THICKNESS)
        d[:, 2] += 10.0 * THICKNESS
        contacts = begin(simulation, d)
        start, wanted = contacts.mesh.x.numpy().copy(), contacts.mesh.x_end.numpy().copy()
        contacts.contact_set.changed.fill_(1)
        assert contacts.resolve(None, H) is None
        end = contacts.mesh.x_end.numpy()
        assert np.array_equal(end[len(x) :], wanted[len(x) :])
        assert collides(simulation, start, wanted) and not collides(simulation, start, end)
        carried += np.count_nonzero(contacts._carried.displacement.numpy())
        np.testing.assert_allclose(contacts.mesh.v_end.numpy()[: len(x)], (end - start)[: len(x)] / H, atol=1e-9)
    assert carried > 0
