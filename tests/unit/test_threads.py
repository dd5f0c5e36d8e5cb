"""Launches that threads share: every index once, whatever the number of threads."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given
from hypothesis import strategies as st

from toile import threads
from toile.errors import InputError
from toile.launcher import Launcher, shares


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    before = threads.count()
    yield
    threads.use(before)


@given(st.integers(1, 5000), st.integers(0, 9), st.sampled_from([1, 64, 1000]))
def test_shares_are_the_whole_range_in_pieces_that_begin_at_multiples(dim, count, multiple):
    found = shares(dim, count, multiple)
    assert [i for begin, end in found for i in range(begin, end)] == list(range(dim))
    assert all(begin % multiple == 0 for begin, _ in found)
    assert len(found) <= max(count, 1)


@wp.kernel
def count_visits(first: wp.int32, visits: wp.array(dtype=wp.int32)):
    i = first + wp.tid()
    visits[i] = visits[i] + 1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_index_runs_once(count):
    threads.use(count)
    visits = wp.zeros(10_001, dtype=wp.int32, device="cpu")
    launch = Launcher("cpu")
    for _ in range(2):
        launch.split(count_visits, len(visits), [visits], multiple=16)
    assert np.all(visits.numpy() == 2)


def test_a_failure_in_a_thread_is_raised():
    def fail() -> None:
        raise ValueError("in a thread")

    threads.use(2)
    with pytest.raises(ValueError, match="in a thread"):
        threads.together([lambda: None, fail])


@pytest.mark.parametrize("number", [0, -1])
def test_no_threads_are_refused(number):
    with pytest.raises(InputError, match="must be 1 or more"):
        threads.use(number)
