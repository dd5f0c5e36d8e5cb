"""Merged contacts of two lists, each pair once, against NumPy's unique, and their state in a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from analytic.cloths import cloths, grid

from toile.contact.narrow_phase.contact_set import CONTACT_FIELDS
from toile.contact.response.merge_contacts import ContactList, ContactMerger
from toile.math.types import numpy_real, real


def random_contacts(seed: int, count: int, elements: int) -> dict[str, np.ndarray]:
    """Pairs of few elements, so that many occur more than once."""
    rng = np.random.default_rng(seed)
    shapes = {name: wp.zeros(count, dtype=kind, device="cpu").numpy().shape for name, kind in CONTACT_FIELDS.items()}
    values = {name: rng.normal(size=shape).astype(numpy_real) for name, shape in shapes.items()}
    values["vertices"] = rng.integers(0, elements, (count, 4)).astype(np.int32)
    values["kind"] = rng.integers(0, 2, count).astype(np.int32)
    return values


def random_load(seed: int, count: int) -> np.ndarray:
    """Random loads, half of them zero."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < 0.5, 0.0, rng.random(count)).astype(numpy_real)


def once(lists: list[tuple[dict[str, np.ndarray], np.ndarray]]) -> dict[str, np.ndarray]:
    """The first contact of each pair that carries a load, with the sum of the loads."""
    both = {name: np.concatenate([contacts[name] for contacts, _ in lists]) for name in CONTACT_FIELDS}
    load = np.concatenate([load for _, load in lists])
    loaded = np.flatnonzero(load > 0.0)
    pairs = np.column_stack([both["vertices"], both["kind"]])[loaded]
    _, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    sums = np.bincount(which.ravel(), load[loaded], len(first))
    turn = np.argsort(first)
    return {**{name: values[loaded[first[turn]]] for name, values in both.items()}, "normal_impulse": sums[turn]}


def on_device(values: dict[str, np.ndarray], device: str) -> ContactList:
    made = ContactList(device)
    made.assign(values)
    return made


@pytest.mark.parametrize("counts", [(40, 60), (0, 50), (50, 0), (1000, 3000), (0, 0)], ids="{0[0]} and {0[1]}".format)
def test_each_pair_once_in_the_order_found(counts: tuple[int, int], device: str) -> None:
    """On a GPU sums of more than two have another order, and other bits."""
    merger, found = ContactMerger(device), ContactList(device)
    for seed in range(3):  # the same tables again, with other lists
        given = [(random_contacts(seed + 10 * k, count, 2), random_load(seed, count)) for k, count in enumerate(counts)]
        lists = [on_device(values, device) for values, _ in given]
        loads = [wp.array(load, dtype=real, device=device) for _, load in given]
        whole = tuple((each.contacts, each.count, load) for each, load in zip(lists, loads, strict=True))
        merger.merge(whole, found)
        wanted = once(given)
        assert found.count == len(wanted["normal_impulse"])
        if sum(counts):
            assert found.count < (np.concatenate([load for _, load in given]) > 0.0).sum()
            for name, values in found.numpy().items():
                if name == "normal_impulse" and device != "cpu":
                    np.testing.assert_allclose(values, wanted[name], rtol=1e-14)
                else:
                    np.testing.assert_array_equal(values, wanted[name])


def test_entries_beyond_the_count_are_ignored(device: str) -> None:
    """The arrays are longer, and entries beyond the count are outdated."""
    values = random_contacts(1, 30, 100)
    whole = on_device(values, device)
    load = wp.array(np.ones(30), dtype=real, device=device)
    merger, found = ContactMerger(device), ContactList(device)
    merger.merge(((whole.contacts, 12, load), (whole.contacts, 0, load)), found)
    assert found.count == 12
    np.testing.assert_array_equal(found.numpy()["vertices"], values["vertices"][:12])


def test_arrays_that_grow_are_read(device: str) -> None:
    merger, found = ContactMerger(device), ContactList(device)
    for count in (5, 500, 7, 2000):
        values = random_contacts(count, count, 200)
        made, load = on_device(values, device), np.ones(count, numpy_real)
        none = ContactList(device)
        loaded = wp.array(load, dtype=real, device=device)
        merger.merge(((made.contacts, count, loaded), (none.contacts, 0, loaded)), found)
        wanted = once([(values, load)])
        np.testing.assert_array_equal(found.numpy()["vertices"], wanted["vertices"])


def test_the_state_dict_restores_persistent_contacts(device: str) -> None:
    """The state dict, and that of another run after it has loaded it."""

    def folded() -> tuple:
        above = {"translation": (0.01, 0.02, 1.5e-3), "rotation": (0.0, 0.0, 17.0), "velocity": (0.0, 0.0, -1.0)}
        simulation = cloths(device, [{"shape": grid(0.2, 6)}, {"shape": grid(0.2, 6), **above}])
        return simulation, simulation.filters[-1]

    simulation, contact = folded()
    for _ in simulation.run(3):
        pass
    state_dict = contact.state_dict()
    assert len(state_dict["normal_impulse"]) > 10 and (state_dict["normal_impulse"] > 0.0).all()
    _, other = folded()
    other.load_state_dict(state_dict)
    again = other.state_dict()
    assert set(again) == set(state_dict)
    for name, values in state_dict.items():
        np.testing.assert_array_equal(again[name], values)
