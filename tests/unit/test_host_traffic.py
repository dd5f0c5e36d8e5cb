"""Readbacks of contact within a step: a few numbers that control its flow, and no lists.

On the CPU reading an array costs nothing; on a GPU each readback waits for the device, and lists are copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import warp as wp
from analytic.cloths import cloths, grid

from toile.contact.broad_phase.motion import RelativeMotion
from toile.device.readback import Readback
from toile.math.types import vec3

FEW = 4  # numbers
OF_CONTACT = (
    "resolve", "contact_springs", "inherited_loads", "motion", "impulses", "truncation", "vertex_contacts",
    "collision_mesh", "self_contact",
)  # fmt: skip


def test_contact_reads_back_few_numbers(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sheet thrown at another: the whole filter, without the search for pairs."""
    above = {"translation": (0.01, 0.02, 0.01), "rotation": (3.0, 5.0, 17.0), "velocity": (0.3, 0.2, -2.0)}
    simulation = cloths(device, [{"shape": grid(0.2, 8)}, {"shape": grid(0.2, 8), **above}])
    contact = simulation.filters[-1]
    for _ in simulation.run(1):
        pass
    seen: list[int] = []
    inside = [False]
    readback = wp.array.numpy

    def counted(array: wp.array) -> Any:
        if inside[0] and sys._getframe(1).f_globals["__name__"].split(".")[-1] in OF_CONTACT:
            seen.append(array.size)
        return readback(array)

    def watched(method: Callable) -> Callable:
        def call(*inputs: Any) -> Any:
            inside[0] = True
            try:
                return method(*inputs)
            finally:
                inside[0] = False

        return call

    def counted_readback(one: Readback) -> Any:
        if inside[0] and sys._getframe(1).f_globals["__name__"].split(".")[-1] in OF_CONTACT:
            seen.append(one._array.size)
        return short_readback(one)

    short_readback = Readback.__call__
    monkeypatch.setattr(Readback, "__call__", counted_readback)
    monkeypatch.setattr(wp.array, "numpy", counted)
    for owner, name in (
        (contact, "apply"), (contact, "accept"),
        (contact.springs, "detect"), (contact.springs, "linearize"), (contact.springs, "check"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    in_contact, truncated = 0, 0
    for _ in simulation.run(4):
        in_contact += contact.resolver.contact_count
        truncated += contact.resolver.truncated_count
    assert in_contact > 50 and truncated == 0
    assert len(seen) > 10 and max(seen) <= FEW


@pytest.mark.parametrize("solid", [0, 7])
def test_mean_and_largest_motion(solid: int, device: str) -> None:
    """Against NumPy; vertices of solids move, and are not part of the mean."""
    rng = np.random.default_rng(0)
    n = 300
    x, d = rng.normal(size=(2, n + solid, 3))
    ends = [wp.array(values, dtype=vec3, device=device) for values in (x, x + d)]
    motion = RelativeMotion(n, device)
    mean = d[:n].mean(axis=0)
    assert motion.find(*ends) == pytest.approx(np.linalg.norm(d - mean, axis=1).max(), rel=1e-13)
    np.testing.assert_allclose(motion.mean.numpy()[0], mean, atol=1e-14)


def test_a_common_translation_is_no_relative_motion(device: str) -> None:
    x = np.random.default_rng(1).normal(size=(100, 3))
    ends = [wp.array(values, dtype=vec3, device=device) for values in (x, x - [0.0, 0.0, 0.25])]
    assert RelativeMotion(100, device).find(*ends) < 1e-15
