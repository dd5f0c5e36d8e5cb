"""Candidate pairs and contacts: which pairs are contacts, their targets, and no loss when arrays are full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import warp as wp
from analytic.cloths import THICKNESS, cloths, contact_of, grid
from analytic.sheets import positions
from scipy.spatial.transform import Rotation

from toile.contact.broad_phase.broad_phase import BroadPhase, CandidatePairs
from toile.contact.intersection_audit import Audit
from toile.contact.narrow_phase.contact_set import ContactSet
from toile.contact.response.resolve import ContactResolver
from toile.contact.response.search import NearPairSearch
from toile.simulation.simulation import Simulation

H = 1.0 / 60.0


def two(device: str, gap: float = 1.0, **more: Any) -> Simulation:
    """A rotated sheet above another, at a gap given in thicknesses."""
    above = {"translation": (0.01, 0.02, gap * THICKNESS), "rotation": (0.0, 0.0, 17.0)}
    return cloths(device, [{"shape": grid(0.2, 6)}, {"shape": grid(0.2, 6), **above}], **more)


def begin(simulation: Simulation, moved: np.ndarray | float = 0.0, x: np.ndarray | None = None) -> ContactResolver:
    """The contacts at the start of a step with these displacements, before any correction."""
    contact, state = contact_of(simulation), simulation.state
    if x is not None:
        state.x.assign(x)
    end = state.empty_like()
    d = np.zeros_like(positions(simulation)) + moved
    end.x.assign(positions(simulation) + d)
    end.v.assign(d / H)
    simulation.constraints.move(0.0, H, state.x)
    simulation.solids.move(0.0, H)
    constraints = simulation.constraints.state
    contact.collision_mesh.begin(state.x, state.v, constraints, 0.0, H)
    contact.collision_mesh.set_candidate(end.x, end.v)
    contact.collision_mesh.update_inverse_mass(
        contact.context.masses, constraints.S, constraints.S_user, contact.context.planes
    )
    found: ContactResolver = contact.resolver
    return found


def arrays_of(contact_set: ContactSet) -> dict[str, np.ndarray]:
    names = ("vertices", "kind", "weights", "normal", "target", "mu", "thickness")
    return {name: getattr(contact_set.contacts, name).numpy()[: contact_set.contact_count].copy() for name in names}


def random_motion(simulation: Simulation, seed: int, size: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=size, size=(simulation.model.particle_count, 3))


@pytest.mark.parametrize(("gap", "target"), [(1.9, -0.9), (1.0, 0.0), (0.5, 0.05), (0.1, 0.09)])
def test_pairs_closer_than_twice_the_thickness_are_contacts(gap: float, target: float, device: str) -> None:
    """The target allows the gap to shrink to the thickness, or recovers a tenth of the deficit; normals are
    vertical."""
    contacts = begin(two(device, gap))
    contacts.search.update()
    assert contacts.contact_set.find_close_contacts() > 20
    found = arrays_of(contacts.contact_set)
    np.testing.assert_allclose(found["target"], target * THICKNESS, atol=1e-15)
    np.testing.assert_allclose(np.abs(found["normal"]), [(0.0, 0.0, 1.0)] * len(found["normal"]), atol=1e-12)
    np.testing.assert_allclose(found["weights"].sum(axis=1), 0.0, atol=1e-15)
    assert set(found["kind"]) == {0, 1}


def test_distant_pairs_are_not_contacts(device: str) -> None:
    contacts = begin(two(device, 2.1))
    contacts.search.update()
    assert contacts.contact_set.find_close_contacts() == 0
    assert contacts.contact_set.find_impacts(False) == 0


def test_the_thickness_of_a_pair_is_the_mean(device: str) -> None:
    """1 mm and 3 mm give 2 mm; contacts of a cloth with itself have its own thickness."""
    sheets = [
        {"shape": grid(0.2, 6), "thickness": 1e-3},
        {"shape": grid(0.2, 6), "thickness": 3e-3, "translation": (0.01, 0.02, 2.5e-3), "rotation": (0.0, 0.0, 17.0)},
    ]
    contacts = begin(cloths(device, sheets))
    contacts.search.update()
    contacts.contact_set.find_close_contacts()
    found = arrays_of(contacts.contact_set)
    between = (found["vertices"] < 36).any(axis=1) & (found["vertices"] >= 36).any(axis=1)
    assert between.all() and between.any()
    np.testing.assert_allclose(found["thickness"], 2e-3)


@pytest.mark.parametrize("thickness", [1e-3, 0.05, 0.3])
def test_a_flat_sheet_has_no_contact_with_itself(thickness: float, device: str) -> None:
    """At any ratio of thickness and cells, and also bent to a half cylinder."""
    simulation = cloths(device, [{"shape": grid(0.2, 9)}], contact={"thickness": thickness})
    x = positions(simulation)
    radius = 0.2 / np.pi
    bent = np.column_stack([radius * np.sin(x[:, 0] / radius), x[:, 1], radius * np.cos(x[:, 0] / radius)])
    for shape in (x, bent):
        contacts = begin(simulation, x=shape)
        contacts.search.update()
        contacts.contact_set.find_close_contacts()
        assert (arrays_of(contacts.contact_set)["target"] <= 0.0).all()  # no contact has an impulse
        assert contacts.contact_set.find_impacts(False) == 0


def test_pairs_that_collide_in_the_step_are_contacts(device: str) -> None:
    """The upper sheet moves 5 cm down through the lower one: vertex and edge contacts. Upwards there are none."""
    simulation = two(device, 10.0)
    down = np.where(np.arange(72)[:, None] < 36, 0.0, 1.0) * [0.0, 0.0, -0.05]
    contacts = begin(simulation, down)
    contacts.search.update()
    assert contacts.contact_set.find_close_contacts() == 0
    hits = contacts.contact_set.find_impacts(False)
    found = arrays_of(contacts.contact_set)
    x, d = positions(simulation), down
    inside = np.abs(x[36:, :2]).max(axis=1) < 0.1 - 1e-9
    assert set(found["vertices"][found["kind"] == 0, 0]) >= set(36 + np.flatnonzero(inside))
    np.testing.assert_allclose(found["target"], (1.0 - 10.0) * THICKNESS, rtol=1e-9)
    assert hits == len(found["kind"])
    contacts = begin(simulation, -d)
    contacts.search.update()
    assert contacts.contact_set.find_impacts(False) == 0


@pytest.mark.parametrize("size", [3e-3, 0.03])
def test_full_arrays_grow_and_nothing_is_lost(size: float, device: str) -> None:
    """A capacity of one pair and one contact gives the same contacts as a sufficient one, including earlier ones."""
    simulation = two(device, 1.5)
    contacts = begin(simulation, random_motion(simulation, 5, size))
    contacts.search.update()
    contacts.contact_set.find_close_contacts()
    contacts.contact_set.find_impacts(False)
    wanted = arrays_of(contacts.contact_set)
    mesh = contacts.mesh
    tight = ContactResolver(mesh, 0.3)
    pairs = BroadPhase(mesh.edges, mesh.triangles, mesh.count, mesh.moving_count, device, capacity=1)
    tight.contact_set = ContactSet(mesh, pairs.edges, pairs.triangles, 0.3, capacity=1)
    tight.search = NearPairSearch(mesh, pairs, tight.contact_set)
    tight.search.update()
    tight.contact_set.find_close_contacts()
    tight.contact_set.find_impacts(False)
    found = arrays_of(tight.contact_set)
    assert tight.contact_set.near_pair_count == contacts.contact_set.near_pair_count > 100
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    assert len(wanted["kind"]) > 50


def all_pairs(contacts: ContactResolver) -> CandidatePairs:
    """Every vertex with every triangle and every edge with every other, without those with common vertices."""
    edges, triangles = contacts.mesh.edges, contacts.mesh.triangles
    vertices = np.arange(contacts.mesh.count)[:, None]
    apart = ~(triangles[None] == vertices[:, :, None]).any(axis=2)
    others = ~(edges[:, None, :, None] == edges[None, :, None, :]).any(axis=(2, 3))
    found = [np.argwhere(apart), np.argwhere(np.triu(others))]
    arrays = [wp.array(pairs.astype(np.int32), dtype=wp.vec2i, device=contacts.device) for pairs in found]
    return CandidatePairs(*arrays, *map(len, found))


def noise(x: np.ndarray, random: np.random.Generator, size: float) -> np.ndarray:
    return random.normal(scale=size, size=x.shape)


MOTIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "small": lambda x, random: noise(x, random, 1e-3),
    "wild": lambda x, random: noise(x, random, 0.03),
    "huge": lambda x, random: noise(x, random, 1.0),
    "fall": lambda x, random: noise(x, random, 1e-3) + np.array([0.0, 3.0, -3.0]),
    "roll": lambda x, random: x @ Rotation.from_rotvec(random.normal(size=3)).as_matrix() - x,
    "shrink": lambda x, random: -0.9 * x,
    "cross": lambda x, random: np.where(np.arange(len(x))[:, None] < 36, 0.01, -0.01) * [0.2, 0.5, 1.0],
}


def assert_nothing_is_lost(contacts: ContactResolver) -> int:
    """Asserts that contacts are the same to the last bit as from tests of all pairs; returns their number."""
    mesh, contact_set = contacts.mesh, contacts.contact_set
    contact_set.find_close_contacts()
    contact_set.find_impacts(False)
    found = arrays_of(contact_set)
    pairs = contacts.search.broad_phase
    reference = ContactSet(mesh, pairs.edges, pairs.triangles, contact_set.friction)
    reference.find_near_pairs(all_pairs(contacts), mesh.x_end, 1e6)
    assert reference.near_pair_count > 20_000
    reference.find_close_contacts()
    reference.find_impacts(False)
    wanted = arrays_of(reference)
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    return len(wanted["kind"])


def test_the_list_of_near_pairs_does_not_grow_within_a_step(device: str) -> None:
    """Fifty vertices move farther than a search reaches, and then one of them to and fro, sixty times: the list remains
    about as long as that of one search, and nothing is lost."""
    above = {"shape": grid(0.2, 15), "translation": (0.01, 0.02, THICKNESS), "rotation": (0.0, 0.0, 17.0)}
    contacts = begin(cloths(device, [{"shape": grid(0.2, 15)}, above]))
    mesh = contacts.mesh
    contacts.search.update()
    end, longest = mesh.x_end.numpy().copy(), 0
    end[85:135, 2] += 2.0 * THICKNESS
    for turn in range(60):
        end[100, 2] += (-1) ** turn * 2.0 * THICKNESS
        mesh.x_end.assign(end)
        contacts.search.update()
        longest = max(longest, contacts.contact_set.near_pairs.count)
    assert_nothing_is_lost(contacts)
    contacts.search._search(mesh.x_end)
    assert 0 < longest < 3 * contacts.contact_set.near_pairs.count


@pytest.mark.parametrize("motion", MOTIONS)
def test_no_search_loses_a_contact(motion: str, device: str) -> None:
    """The same contacts to the last bit as from tests of all pairs; also when ends have moved since the search, by the
    whole slack, or far enough for another search; and in the next step, which uses the same search where it can."""
    simulation = two(device, 3.0)
    n = simulation.model.particle_count
    total = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        x = positions(two(device, 3.0)) + random.normal(scale=3e-4, size=(n, 3))
        d = MOTIONS[motion](x, random)
        contacts = begin(simulation, d, x)
        mesh = contacts.mesh
        contacts.search.update()
        for farthest in (0.0, 0.999, 120.0):
            away = random.normal(size=x.shape)
            away *= contacts.search._slack / np.linalg.norm(away, axis=1)[:, None]
            far = farthest if farthest < 1.0 else np.where(random.uniform(size=(n, 1)) < 0.1, farthest, 0.999)
            mesh.x_end.assign(contacts.search._x_searched.numpy() + far * away)
            contacts.search.update()
            total += assert_nothing_is_lost(contacts)
        # The next step begins where this one has ended, and has no search of its own yet.
        mesh.x.assign(mesh.x_end.numpy())
        contacts.search.at_start()
        for size in (0.0, 0.5, 120.0):
            mesh.x_end.assign(contacts.search._x_searched.numpy() + size * away)
            contacts.search.update()
            total += assert_nothing_is_lost(contacts)
    assert total > 100 or motion in ("fall", "roll")


def test_few_vertices_that_leave_a_reused_search_lose_no_contact(device: str) -> None:
    """A step that begins with the pairs of the last one, in which all have moved by 3 cm, and in which three vertices
    then hit the sheet below."""
    simulation = two(device, 10.0)
    contacts = begin(simulation, [0.0, 0.0, -0.03])
    mesh = contacts.mesh
    contacts.search.update()
    mesh.x.assign(mesh.x_end.numpy())
    contacts.search.at_start()
    end = mesh.x.numpy()
    end[[50, 51, 56], 2] -= 0.03
    mesh.x_end.assign(end)
    contacts.search.update()
    assert contacts.search._searched_again == 3
    assert assert_nothing_is_lost(contacts) > 4


@pytest.mark.parametrize("passes", [10, 0], ids=["impulses", "truncation"])
@pytest.mark.parametrize("pins", [0, 4, 36], ids="{} pins".format)
@pytest.mark.parametrize(
    ("size", "shrink"), [(0.01, 0.0), (0.05, 0.0), (1.0, 0.0), (0.01, 1.0)], ids=["small", "wild", "huge", "crumpled"]
)
def test_no_collision_remains_after_the_correction(
    size: float, shrink: float, pins: int, passes: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random displacements of each particle, or all to one point: a new search finds no impact on the way, and the
    audit no intersection at the end. Pins stay, free cloth keeps its momentum where no path is shortened, and the
    energy of the motion does not grow.
    """
    monkeypatch.setattr("toile.contact.response.resolve.MAX_IMPACT_PASSES", passes)
    corners = {0: [], 4: [0, 5, 30, 35], 36: list(range(36))}[pins]
    held = [{"type": "pin", "cloth": "0", "where": {"indices": corners}}] if corners else []
    simulation = two(device, 5.0, constraints=held)
    audit = Audit(simulation.model.triangles, simulation.model.particle_count, device)
    m = simulation.model.masses
    for seed in range(3):
        x = positions(two(device, 5.0)) + random_motion(simulation, 50 + seed, 5e-4)
        d = random_motion(simulation, seed, size) + shrink * (x.mean(axis=0) - x)
        d[corners] = 0.0
        assert audit.count(x) == 0
        contacts = begin(simulation, d, x)
        assert contacts.resolve(None, H) is None
        end = contacts.mesh.x_end.numpy().copy()
        contacts.search.update()
        assert contacts.contact_set.find_impacts(False) == 0
        assert audit.count(end) == 0
        assert np.array_equal(end[corners], x[corners])
        assert np.abs(end - x - d).max() > 0.1 * size
        assert passes or contacts.truncated_count
        if not pins and not contacts.truncated_count:
            np.testing.assert_allclose(m @ (end - x), m @ d, rtol=0, atol=1e-13 * float(m @ np.abs(d).sum(axis=1)))
        v = contacts.mesh.v_end.numpy()
        assert m @ (v**2).sum(axis=1) <= m @ (d**2).sum(axis=1) / H**2


@pytest.mark.parametrize("passes", [10, 0], ids=["impulses", "truncation"])
def test_a_collision_held_on_both_sides_is_reported(passes: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins drive a sheet through one that pins hold: the collision cannot be resolved, and this is reported."""
    monkeypatch.setattr("toile.contact.response.resolve.MAX_IMPACT_PASSES", passes)
    pins = [{"type": "pin", "cloth": name, "where": {"all": True}} for name in ("0", "1")]
    simulation = two(device, 10.0, constraints=pins)
    down = np.where(np.arange(72)[:, None] < 36, 0.0, 1.0) * [0.0, 0.0, -0.05]
    contacts = begin(simulation, down)
    assert "cloth is caught between things" in (contacts.resolve(None, H) or "")


@pytest.mark.parametrize("friction", [0.0, 0.4])
def test_contacts_with_a_sharp_solid_have_its_friction(friction: float, device: str) -> None:
    """It is not that between cloths, which is 0.3 here."""
    box = {
        "type": "box",
        "size": (0.1, 0.1, 0.1),
        "translation": (0.0, 0.0, -0.05),
        "friction": friction,
        "sharp": True,
    }
    sheet = {"shape": grid(0.2, 4), "translation": (0.01, 0.02, 0.3e-3), "rotation": (0.0, 0.0, 17.0)}
    contacts = begin(cloths(device, [sheet], solids=[box], contact={"friction": 0.3}))
    contacts.search.update()
    assert contacts.contact_set.find_close_contacts() > 0
    np.testing.assert_array_equal(arrays_of(contacts.contact_set)["mu"], friction)


def test_impacts_ahead_are_contacts_after_a_hard_step(device: str) -> None:
    """Particles of two sheets leap at random through each other: impulses need three passes and more for that. Contacts
    of the next step include the pairs that will collide, which close pairs alone do not."""
    simulation = two(device, gap=5.0)
    leaps, hard = random_motion(simulation, 1, 40.0 * THICKNESS), []
    for moved in (leaps, leaps, 0.0, leaps):
        resolver = begin(simulation, moved)
        resolver.detect(H)
        hard.append(resolver.hard)
        assert (resolver.contact_set.contact_count > 0) == (resolver.hard and np.max(moved) > 0.0)
        assert resolver.resolve(None, H) is None
        resolver.accept()
    assert hard == [False, True, True, False]
