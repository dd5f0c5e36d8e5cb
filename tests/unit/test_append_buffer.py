"""Append buffers: no entry is lost, and neither the capacity nor the number of threads changes the contents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from toile.device import threads
from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot, pair_key
from toile.device.launcher import Launcher


@pytest.fixture(autouse=True)
def same_threads_afterwards() -> Iterator[None]:
    before = threads.count()
    yield
    threads.use(before)


@wp.kernel
def list_pairs(
    # in
    first: wp.int32, often: wp.array(dtype=wp.int32), pairs: wp.array(dtype=wp.vec2i),
    # out
    ranges: BufferRanges, pairs_out: wp.array(dtype=wp.vec2i),
    odd_parts: BufferRanges, odd_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Appends each pair `often` times, and once to another buffer where that is odd."""
    i = first + wp.tid()
    for _k in range(often[i]):
        n = next_slot(ranges, first)
        if n >= 0:
            pairs_out[n] = pairs[i]
            ranges.keys[n] = pair_key(pairs[i][0] % 2, pairs[i])
    if often[i] % 2 == 1:
        n = next_slot(odd_parts, first)
        if n >= 0:
            odd_out[n] = pairs[i]


def array(values: np.ndarray, dtype: Any, device: str) -> wp.array:
    return wp.array(values.astype(np.int32), dtype=dtype, device=device)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(0, 200),
    capacity=st.sampled_from([0, 1, 50, 5000]),
    count=st.integers(1, 6),
)
def test_every_entry_is_appended_once(seed: int, dim: int, capacity: int, count: int, device: str) -> None:
    """This includes a second launch that appends to the entries of the first, and keys."""
    random = np.random.default_rng(seed)
    threads.use(count)
    often, cut = random.integers(0, 5, dim), int(random.integers(0, dim + 1))
    pairs = np.column_stack([random.integers(0, 9, dim), np.arange(dim)])
    keyed, launch = AppendBuffer(wp.vec2i, capacity, device, keyed=True), Launcher(device)
    odd = []
    for begin, end in ((0, cut), (cut, dim)):
        other = AppendBuffer(wp.vec2i, capacity + keyed.count, device)
        inputs = [array(often[begin:end], wp.int32, device), array(pairs[begin:end], wp.vec2i, device)]
        kept = keyed.count
        fill([keyed, other], launch, list_pairs, end - begin, inputs, block=8, kept=kept)
        odd.append(other.values.numpy()[kept : other.count].copy())
    wanted, wanted_odd = np.repeat(pairs, often, axis=0), pairs[often % 2 == 1]
    found, found_odd = keyed.values.numpy()[: keyed.count], np.concatenate(odd)
    in_order = found[keyed.order().numpy()[: keyed.count]]
    if device != "cpu":  # where the order is not deterministic
        found, found_odd = found[np.argsort(found[:, 1])], found_odd[np.argsort(found_odd[:, 1])]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(found_odd, wanted_odd)
    np.testing.assert_array_equal(in_order, wanted[np.lexsort((wanted[:, 1], wanted[:, 0], wanted[:, 0] % 2))])


def test_a_buffer_can_be_filled_again(device: str) -> None:
    """With more entries, with fewer and with none."""
    lists = [AppendBuffer(wp.vec2i, 4, device, keyed=keyed) for keyed in (True, False)]
    launch = Launcher(device)
    for dim in (3, 900, 40, 0, 2000):
        pairs = np.column_stack([np.arange(dim), np.arange(dim)])
        fill(lists, launch, list_pairs, dim, [array(np.ones(dim), wp.int32, device), array(pairs, wp.vec2i, device)])
        assert [one.count for one in lists] == [dim, dim]
        np.testing.assert_array_equal(np.sort(lists[1].values.numpy()[:dim], axis=0), pairs)


@wp.kernel
def make_key(kind: wp.int32, pair: wp.vec2i, key_out: wp.array(dtype=wp.int64)):
    key_out[0] = pair_key(kind, pair)


def test_keys_keep_the_order_of_pairs(device: str) -> None:
    """Keys sort by kind, first and second element, up to the largest indices."""
    most = 2**31 - 1
    key, keys = wp.zeros(1, dtype=wp.int64, device=device), []
    for kind in (0, 1):
        for pair in ((0, 0), (0, 1), (0, most), (1, 0), (most - 1, most), (most, 0), (most, most)):
            wp.launch(make_key, 1, inputs=[kind, wp.vec2i(*pair)], outputs=[key], device=device)
            keys.append(int(key.numpy()[0]))
    assert keys == sorted(set(keys)) and keys[0] >= 0


def test_a_buffer_that_keeps_most_of_its_entries_grows_by_half(device: str) -> None:
    """It is filled behind 999 of its 1,000 slots: a buffer that grew by what is missing would grow in every launch."""
    buffer, other = AppendBuffer(wp.vec2i, 1000, device, keyed=True), AppendBuffer(wp.vec2i, 1000, device)
    inputs = [array(np.full(8, 2), wp.int32, device), array(np.zeros((8, 2)), wp.vec2i, device)]
    fill([buffer, other], Launcher(device), list_pairs, 8, inputs, kept=999)
    assert buffer.count == 999 + 16
    assert len(buffer.values) >= 1500
