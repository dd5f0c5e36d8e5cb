"""Packed launches: arguments are packed once, and a launch with arrays that were replaced since is an error."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from toile.device.append_buffer import AppendBuffer
from toile.device.cuda_graph import CudaGraph
from toile.device.growable import Growable
from toile.device.launcher import Launcher
from toile.linear.block_matrix import Couplings
from toile.math.types import vec3


@wp.struct
class Numbers(Growable):
    scale: wp.int32
    values: wp.array(dtype=wp.int32)


@wp.kernel
def add_numbers(first: wp.int32, numbers: Numbers, total_out: wp.array(dtype=wp.int32)):
    i = first + wp.tid()
    wp.atomic_add(total_out, 0, numbers.scale * numbers.values[i])


def numbers_of(count: int, device: str) -> Numbers:
    numbers = Numbers()
    numbers.scale, numbers.values = 2, wp.array(np.arange(count), dtype=wp.int32, device=device)
    return numbers


@pytest.mark.parametrize("way", ["one", "split"])
def test_a_launch_with_replaced_arrays_is_an_error(way: str, device: str) -> None:
    """A new struct is packed again; a number in a struct may change."""
    launch, total = Launcher(device), wp.zeros(1, dtype=wp.int32, device=device)

    def add(numbers: Numbers) -> None:
        if way == "one":
            launch(add_numbers, 5, [0, numbers, total])
        else:
            launch.split(add_numbers, 5, [numbers, total])

    numbers = numbers_of(5, device)
    add(numbers)
    numbers.scale = 3
    add(numbers)
    assert total.numpy()[0] == 20 + 30
    numbers.values = wp.zeros(9, dtype=wp.int32, device=device)
    with pytest.raises(RuntimeError, match="the arrays of Numbers were replaced after this launch was packed"):
        add(numbers)
    add(numbers_of(5, device))
    assert total.numpy()[0] == 20 + 30 + 20


def test_buffers_that_grow_invalidate_their_ranges(device: str) -> None:
    buffer = AppendBuffer(wp.vec2i, 1, device)
    ranges, generation = buffer.ranges, buffer.ranges.generation
    buffer.open(4, 1, 0)
    buffer.ranges.count.fill_(4)
    assert not buffer.close() and len(buffer.values) >= 4
    assert buffer.ranges is not ranges and ranges.generation > generation


def test_couplings_that_grow_invalidate_their_groups(device: str) -> None:
    """Products with the new arrays are correct."""
    couplings = Couplings(device)
    x, y = (wp.zeros(3, dtype=vec3, device=device) for _ in range(2))
    for capacity in (2, 4):
        groups, generation = couplings.groups, couplings.groups.generation
        couplings.reserve(capacity)
        assert couplings.groups is not groups and groups.generation > generation
        couplings.add_product(x, 1.0, y)
    assert not y.numpy().any()


def test_a_graph_is_captured_again_for_structs_that_it_names(device: str) -> None:
    """A graph that names none is an error after its arrays were replaced."""
    if wp.get_device(device).is_cpu:
        pytest.skip("no GPU")
    launch, total, structs = Launcher(device), wp.zeros(1, dtype=wp.int32, device=device), [numbers_of(5, device)]
    graph = CudaGraph(device, lambda: launch(add_numbers, 5, [0, structs[0], total]))
    for _ in range(3):
        graph(*structs)
    old, structs[0] = structs[0], numbers_of(5, device)
    old.retire()
    for _ in range(2):
        graph(*structs)
    assert total.numpy()[0] == 3 * 20 + 2 * 20
    unnamed = CudaGraph(device, lambda: launch(add_numbers, 5, [0, structs[0], total]))
    for _ in range(2):
        unnamed()
    structs[0].retire()
    with pytest.raises(RuntimeError, match="the arrays of Numbers were replaced after this graph was captured"):
        unnamed()
