"""Block-wise sums over a launch match NumPy, also where a launch ends in the middle of a block."""

import numpy as np
import pytest
import warp as wp

from toile.device.reductions import add_to_sum


@wp.kernel
def sum_in_parts(values: wp.array(dtype=wp.float64), rows: wp.int32, sums_out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    add_to_sum(sums_out, i // rows, values[i])


@pytest.mark.parametrize("count", [1, 31, 64, 1000, 5003])
def test_block_wise_sums_match_numpy(device, count):
    values = np.random.default_rng(count).normal(size=count)
    parts = -(-count // 64)
    sums = wp.zeros(parts, dtype=wp.float64, device=device)
    given = wp.array(values, dtype=wp.float64, device=device)
    wp.launch(sum_in_parts, dim=count, inputs=[given, 64, sums], device=device)
    wanted = [values[64 * part : 64 * part + 64].sum() for part in range(parts)]
    assert np.allclose(sums.numpy(), wanted, rtol=1e-12, atol=1e-12)
