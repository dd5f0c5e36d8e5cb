"""The contacts of each vertex in compressed rows, against NumPy: by counting (CPU) and by sorting (GPU)."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from reference.contact_problem import Problem, random_problem

from toile.contact.response.vertex_contacts import VertexContacts
from toile.math.types import mat33


@pytest.fixture(params=["counted", "sorted"])
def counted(request: pytest.FixtureRequest, device: str) -> bool:
    if request.param == "counted" and device != "cpu":
        pytest.skip("one thread counts, on the CPU only")
    return bool(request.param == "counted")


def make_rows(count: int, device: str, counted: bool) -> VertexContacts:
    """Rows of `count` vertices, by one of the two ways; sorting runs on both devices."""
    rows = VertexContacts(count, device)
    rows._on_cpu = counted
    rows._reserve(0)
    return rows


def check(rows: VertexContacts, problem: Problem, device: str) -> None:
    """Every row has the corners of its vertex in the order of contacts, and their weights."""
    n, count = len(problem.d), len(problem.targets)
    rows.update(problem.contacts(device), count, wp.array(problem.inverse_mass, dtype=mat33, device=device))
    offsets = rows.arrays.offsets.numpy()
    entries, weights = (array.numpy()[: offsets[-1]] for array in (rows.arrays.entries, rows.arrays.weights))
    moves = np.trace(problem.inverse_mass, axis1=1, axis2=2) > 0.0
    corners = problem.vertices.ravel()
    wanted = [np.flatnonzero(corners == i) if moves[i] else np.zeros(0, int) for i in range(n)]
    np.testing.assert_array_equal(offsets, np.cumsum([0, *map(len, wanted)]))
    np.testing.assert_array_equal(entries, np.concatenate(wanted))
    np.testing.assert_array_equal(weights, problem.weights.ravel()[np.concatenate(wanted)])


@pytest.mark.parametrize("held", [False, True], ids=["free", "some held"])
def test_rows_of_a_growing_and_shrinking_set(held: bool, device: str, counted: bool) -> None:
    """The same rows are used again; some vertices have no contact, and some that cannot move have contacts."""
    rows = make_rows(40, device, counted)
    for seed, count in enumerate((3, 200, 17, 1000, 1)):
        check(rows, random_problem(seed, count, 40, held=held), device)


def test_rows_without_contacts(device: str, counted: bool) -> None:
    rows = make_rows(40, device, counted)
    check(rows, random_problem(0, 20, 40), device)
    problem = random_problem(0, 20, 40)
    rows.update(problem.contacts(device), 0, wp.array(problem.inverse_mass, dtype=mat33, device=device))
    assert not rows.arrays.offsets.numpy().any()


def test_rows_of_vertices_that_cannot_move(device: str, counted: bool) -> None:
    problem = random_problem(1, 30, 20)
    problem.inverse_mass[:] = 0.0
    rows = make_rows(20, device, counted)
    rows.update(problem.contacts(device), 30, wp.array(problem.inverse_mass, dtype=mat33, device=device))
    assert not rows.arrays.offsets.numpy().any()
