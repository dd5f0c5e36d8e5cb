"""Loads of contacts from step to step, against a dictionary of Python."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from toile.contact.narrow_phase.contact_set import CONTACT_FIELDS, ContactArrays
from toile.contact.response.inherited_loads import InheritedLoads
from toile.math.types import numpy_real, real, vec3


def random_pairs(seed: int, count: int, elements: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices, kinds and loads. A third of the loads is zero, and a sixth is negative: pairs to be forgotten. With few
    elements many pairs are equal."""
    rng = np.random.default_rng(seed)
    vertices = rng.integers(0, elements, (count, 4)).astype(np.int32)
    load = np.where(rng.random(count) < 1.0 / 3.0, 0.0, rng.random(count)).astype(numpy_real)
    load = np.where(rng.random(count) < 1.0 / 6.0, -1.0, load).astype(numpy_real)
    return vertices, rng.integers(0, 2, count).astype(np.int32), load


def on_device(vertices: np.ndarray, kind: np.ndarray, device: str) -> ContactArrays:
    contacts = ContactArrays()
    for name, dtype in CONTACT_FIELDS.items():
        setattr(contacts, name, wp.zeros(len(kind), dtype=dtype, device=device))
    if len(kind):
        contacts.vertices.assign(vertices)
        contacts.kind.assign(kind)
    return contacts


def store(loads: InheritedLoads, vertices: np.ndarray, kind: np.ndarray, load: np.ndarray, device: str) -> dict:
    """Stores contacts; returns the largest load of each pair that is not to be forgotten. The friction is made of the
    load and of the index of the contact."""
    friction = np.stack([load, np.arange(len(load)), np.zeros(len(load))], axis=1).astype(numpy_real)
    arrays = [wp.array(load, dtype=real, device=device), wp.array(friction, dtype=vec3, device=device)]
    loads.store(on_device(vertices, kind, device), *arrays, len(kind))
    largest: dict[tuple[int, ...], float] = {}
    for at, which, value in zip(vertices.tolist(), kind.tolist(), load.tolist(), strict=True):
        if value >= 0.0:
            largest[which, *at] = max(largest.get((which, *at), 0.0), value)
    return largest


def looked_up(loads: InheritedLoads, vertices: np.ndarray, kind: np.ndarray, device: str) -> np.ndarray:
    """The loads that are found, -1 for new pairs; the array starts with what must be overwritten."""
    found, friction = wp.full(len(kind), -2.0, dtype=real, device=device), wp.full(len(kind), vec3(-2.0), device=device)
    loads.look_up(on_device(vertices, kind, device), len(kind), found, friction)
    known = found.numpy() >= 0.0
    np.testing.assert_array_equal(friction.numpy()[:, 0], np.where(known, found.numpy(), 0.0))
    return np.asarray(found.numpy())


def check(loads: InheritedLoads, largest: dict, vertices: np.ndarray, kind: np.ndarray, device: str) -> None:
    wanted = [largest.get((which, *at), -1.0) for at, which in zip(vertices.tolist(), kind.tolist(), strict=True)]
    np.testing.assert_array_equal(looked_up(loads, vertices, kind, device), wanted)


@pytest.mark.parametrize("elements", [2, 3, 1000], ids="{} elements".format)
def test_every_pair_has_its_largest_load(elements: int, device: str) -> None:
    """With 2 elements there are 32 pairs, each of them many times; with 1000 hardly one occurs twice. The same object
    serves steps with more and fewer contacts: its arrays grow, and nothing of an earlier step is found."""
    loads = InheritedLoads(device)
    for seed, count in enumerate((5, 3000, 40, 0, 20_000)):
        vertices, kind, load = random_pairs(seed, count, elements)
        largest = store(loads, vertices, kind, load, device)
        others, other_kind, _ = random_pairs(100 + seed, 500, elements)
        check(loads, largest, np.concatenate([vertices, others]), np.concatenate([kind, other_kind]), device)


def test_the_order_of_vertices_and_the_kind_make_a_pair(device: str) -> None:
    """Vertices 0..3 as a vertex and a triangle, as two edges, and in another order are three pairs."""
    loads = InheritedLoads(device)
    vertices = np.array([[0, 1, 2, 3], [0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 2, 4]], np.int32)
    kind = np.array([0, 1, 0, 0], np.int32)
    store(loads, vertices, kind, np.array([1.0, 2.0, 3.0, 0.0], numpy_real), device)
    np.testing.assert_array_equal(looked_up(loads, vertices, kind, device), [1.0, 2.0, 3.0, 0.0])


def test_of_equal_loads_the_first_counts(device: str) -> None:
    """The order in which contacts are inserted, which threads do not fix, has no effect."""
    loads, count = InheritedLoads(device), 3000
    vertices, kind = np.zeros((count, 4), np.int32), np.zeros(count, np.int32)
    store(loads, vertices, kind, np.ones(count, numpy_real), device)
    load, friction = wp.zeros(1, dtype=real, device=device), wp.zeros(1, dtype=vec3, device=device)
    loads.look_up(on_device(vertices[:1], kind[:1], device), 1, load, friction)
    np.testing.assert_array_equal(friction.numpy(), [[1.0, 0.0, 0.0]])


def test_nothing_is_found_before_anything_is_stored(device: str) -> None:
    vertices, kind, _ = random_pairs(0, 50, 3)
    assert (looked_up(InheritedLoads(device), vertices, kind, device) == -1.0).all()


@pytest.mark.parametrize("count", [0, 700])
def test_a_state_dict_restores_the_loads(count: int, device: str) -> None:
    """It has the known pairs only. What the object held before is forgotten."""
    vertices, kind, load = random_pairs(7, count, 4)
    loads, restored = InheritedLoads(device), InheritedLoads(device)
    largest = store(loads, vertices, kind, load, device)
    state = loads.state_dict()
    assert (np.asarray(state["load"]) >= 0.0).all() and len(state["load"]) == np.count_nonzero(load >= 0.0)
    store(restored, *random_pairs(8, 90, 4), device)
    restored.load_state_dict(state)
    check(restored, largest, *random_pairs(9, 2000, 4)[:2], device)
    for name, values in restored.state_dict().items():
        np.testing.assert_array_equal(values, state[name])
