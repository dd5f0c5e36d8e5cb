"""Launches that are shared by threads: every index runs once, for any number of threads."""

import os
import signal
import time

import numpy as np
import pytest
import warp as wp
from hypothesis import given
from hypothesis import strategies as st

from toile.device import threads
from toile.device.launcher import Launcher, shares
from toile.errors import InputError


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    before = threads.count()
    yield
    threads.use(before)


@given(st.integers(1, 5000), st.integers(0, 9), st.sampled_from([1, 64, 1000]), st.sampled_from([1, 4]))
def test_shares_cover_the_range_and_start_at_multiples(dim, count, multiple, fewest):
    found = shares(dim, count, multiple, fewest)
    assert [i for begin, end in found for i in range(begin, end)] == list(range(dim))
    assert all(begin % multiple == 0 for begin, _ in found)
    assert len(found) <= max(count, 1)
    assert len(found) == 1 or all(end - begin >= fewest * multiple for begin, end in found[:-1])


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


def test_a_failure_is_raised_after_all_threads_have_ended():
    """The caller may then use the arrays that other threads wrote."""
    done = []

    def fail() -> None:
        raise ValueError("here")

    def slow() -> None:
        time.sleep(0.2)
        done.append(True)

    threads.use(2)
    with pytest.raises(ValueError, match="here"):
        threads.together([fail, slow])
    assert done


@pytest.mark.parametrize("number", [0, -1])
def test_zero_threads_are_refused(number):
    with pytest.raises(InputError, match="must be 1 or more"):
        threads.use(number)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_threads_of_its_own():
    """Those of the parent do not exist there: a task for them would never run."""
    before = threads.count()
    threads.use(2)
    threads.together([lambda: None] * 2)
    child = os.fork()
    if child == 0:
        threads.together([lambda: None] * 2)
        os._exit(0)
    ended = 0
    for _ in range(100):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    threads.use(before)
    assert ended == child and status == 0
