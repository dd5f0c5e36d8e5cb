"""Products by rows against NumPy: with several lanes per row, which only a GPU has, and with one."""

import numpy as np
import pytest
import scipy.sparse as sparse
import warp as wp

from toile.device.lanes import rows_of, thread_count
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.linear.modified_pcg import PartialSums, multiply_direction
from toile.linear.multigrid import cycle_kernels
from toile.linear.multigrid.coupled_levels import CoupledLevels
from toile.linear.multigrid.dense_inverse import multiply_dense
from toile.math.types import mat33, numpy_real, precision, vec3


@pytest.fixture(params=[1, 4, 8, 16])
def lanes(request, device):
    """The number of lanes: one on the CPU, several on a GPU."""
    if (request.param == 1) != wp.get_device(device).is_cpu:
        pytest.skip("for the other device")
    return request.param


def pattern_of(n, random):
    some = sparse.random_array((n, n), density=min(1.0, 12.0 / n), rng=random)
    return sparse.csr_array(some + sparse.eye_array(n))


@pytest.mark.parametrize("n", [1, 2, 33, 500])
def test_products_match_numpy(device, n, lanes):
    random = np.random.default_rng(n)
    pattern = pattern_of(n, random)
    blocks = random.normal(size=(pattern.nnz, 3, 3)).astype(np.float32)
    A = sparse.bsr_array((blocks.astype(float), pattern.indices, pattern.indptr)).toarray()
    d, r, x = (random.normal(size=(n, 3)).astype(np.float32) for _ in range(3))
    inverse = random.normal(size=(n, 3, 3)).astype(np.float32)

    def on(values, dtype):
        return wp.array(values, dtype=dtype, device=device)

    def launch(kernel, inputs):
        wp.launch(kernel, dim=thread_count(n, lanes), inputs=[0, *inputs], device=device)

    values, by_lanes = on(blocks, wp.mat33f), cycle_kernels.BlockLanes()
    by_lanes.count, by_lanes.rows = lanes, rows_of(values, wp.vec3f)
    matrix = [by_lanes, on(pattern.indptr, wp.int32), on(pattern.indices, wp.int32), values]
    left = r - (A @ d.ravel()).reshape(-1, 3)
    r_out, d_out, x_out = on(r, wp.vec3f), wp.zeros(n, dtype=wp.vec3f, device=device), on(x, wp.vec3f)
    smoothed = [*matrix, on(inverse, wp.mat33f), on(d, wp.vec3f)]
    launch(cycle_kernels.smooth, [*smoothed, 0.25, 0.5, r_out, d_out, x_out])
    step = 0.25 * d + 0.5 * np.einsum("nij,nj->ni", inverse, left)
    for found, wanted in ((r_out, left), (d_out, step), (x_out, x + step)):
        assert np.allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)

    S = np.tile(np.diag([1.0, 0.0, 1.0]), (n, 1, 1)).astype(numpy_real)
    s_out = wp.zeros(n, dtype=vec3, device=device)
    given = [wp.vec2f(0.25, 0.5), on(r, wp.vec3f), on(x, wp.vec3f), on(S, mat33)]
    launch(cycle_kernels.smooth_last, [*smoothed, *given, s_out])
    assert np.allclose(s_out.numpy(), (x + step) * [1.0, 0.0, 1.0], rtol=1e-4, atol=1e-4)

    r_out = on(r, wp.vec3f)
    launch(cycle_kernels.subtract_product, [*matrix, on(d, wp.vec3f), r_out])
    assert np.allclose(r_out.numpy(), left, rtol=1e-4, atol=1e-4)

    P = sparse.csr_array(sparse.random_array((n, n), density=min(1.0, 9.0 / n), rng=random, dtype=np.float32))
    weights = [on(P.indptr, wp.int32), on(P.indices, wp.int32), on(P.data, wp.float32)]
    out = [wp.zeros(n, dtype=wp.vec3f, device=device) for _ in range(3)]
    launch(cycle_kernels.restrict, [lanes, *weights, on(r, wp.vec3f), on(inverse, wp.mat33f), 0.5, *out])
    coarse = P @ r
    first = 0.5 * np.einsum("nij,nj->ni", inverse, coarse)
    for found, wanted in zip(out, (coarse, first, first), strict=True):
        assert np.allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 33, 64])
def test_dense_products_match_numpy(device, n, lanes):
    random = np.random.default_rng(n)
    inverse = random.normal(size=(n, n, 3, 3)).astype(numpy_real)
    given = random.normal(size=(n, 3)).astype(np.float32)
    x = wp.zeros(n, dtype=wp.vec3f, device=device)
    arrays = [wp.array(inverse, dtype=mat33, device=device), wp.array(given, dtype=wp.vec3f, device=device)]
    wp.launch(multiply_dense, dim=thread_count(n, lanes), inputs=[lanes, *arrays, x], device=device)
    assert np.allclose(x.numpy(), np.einsum("ijab,jb->ia", inverse, given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 33, 500])
def test_the_product_of_cg_matches_numpy(device, n, lanes):
    """Partial sums of c . q are over 32 rows each."""
    random = np.random.default_rng(n)
    pattern = pattern_of(n, random)
    matrix = BlockMatrix(pattern.indptr, pattern.indices, device)
    blocks = random.normal(size=(pattern.nnz, 3, 3)).astype(numpy_real)
    matrix.values.assign(blocks)
    if precision == "single":
        sums = np.zeros((n, 3, 3))
        np.add.at(sums, matrix.rows, blocks)
        matrix.row_sum.assign(sums.astype(numpy_real))
    matrix.lanes.count = lanes
    coupled, c = (random.normal(size=(n, 3)).astype(numpy_real) for _ in range(2))
    S = np.tile(np.diag([1.0, 0.0, 1.0]), (n, 1, 1)).astype(numpy_real)
    q, sums = wp.zeros(n, dtype=vec3, device=device), PartialSums()
    sums.rows, sums.values = 32, wp.zeros(-(-n // 32), dtype=wp.float64, device=device)
    given = [wp.array(coupled, dtype=vec3, device=device), wp.array(S, dtype=mat33, device=device)]
    inputs = [0, matrix.lanes, *matrix.arrays, *given, wp.array(c, dtype=vec3, device=device), q, sums]
    wp.launch(multiply_direction, dim=thread_count(n, lanes), inputs=inputs, device=device)
    wanted = ((matrix.dense() @ c.ravel()).reshape(-1, 3) + coupled) * [1.0, 0.0, 1.0]
    assert np.allclose(q.numpy(), wanted, rtol=1e-4, atol=1e-4)
    along = np.einsum("ni,ni->n", c, wanted)
    assert np.allclose(sums.values.numpy(), [along[i : i + 32].sum() for i in range(0, n, 32)], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_products_of_contact_couplings_match_numpy(device, count):
    random = np.random.default_rng(count)
    n, nodes, capacity = 60, 25, 41
    particles = np.array([random.permutation(n)[:4] for _ in range(capacity)], np.int32)
    weights = random.normal(size=(capacity, 4)).astype(numpy_real)
    blocks = random.normal(size=(capacity, 3, 3)).astype(numpy_real)
    S = np.where(np.arange(n)[:, None, None] < 10, np.diag([1.0, 0.0, 1.0]), np.eye(3)).astype(numpy_real)  # some held
    between = 35
    P = [
        sparse.csr_array(sparse.random_array(shape, density=0.3, rng=random, dtype=np.float32))
        for shape in ((n, between), (between, nodes))
    ]

    def on(values, dtype):
        return wp.array(values, dtype=dtype, device=device)

    matrix = BlockMatrix(np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32), device)
    couplings = Couplings(device)
    couplings.reserve(capacity)
    for array, values in ((couplings.particles, particles), (couplings.weights, weights), (couplings.blocks, blocks)):
        array.assign(values)
    couplings.count.assign([count])
    matrix.couplings.append(couplings)
    levels = CoupledLevels(matrix, on(S, mat33), P)
    for _ in range(2):  # the second update must forget the first
        levels.reserve()
        levels.update()
    dense = wp.zeros((nodes, nodes), dtype=mat33, device=device)
    levels.add_to(dense)
    C = dense.numpy().transpose(0, 2, 1, 3).reshape(3 * nodes, 3 * nodes)
    for level, Q in enumerate([sparse.eye_array(n).tocsr(), P[0], sparse.csr_array(P[0] @ P[1])]):
        d, r = (random.normal(size=(Q.shape[1], 3)).astype(np.float32) for _ in range(2))
        left, bound = r.astype(float), np.zeros((Q.shape[1], 3, 3))
        for at, w, block in zip(particles[:count], weights[:count], blocks[:count], strict=True):
            moved = np.einsum("nij,nj->ni", S[at], Q[at] @ d)
            left -= Q[at].T @ np.einsum("n,nij,j->ni", w, S[at], block @ (w @ moved))
            own = 0.25 * np.abs(w).sum() * np.einsum("n,nij,jk,nkl->nil", np.abs(w), S[at], block, S[at])
            bound += np.einsum("an,aij->nij", Q[at].toarray(), own)
        found = on(r, wp.vec3f)
        for _ in range(2):  # a product leaves nothing behind for the next
            found.assign(r)
            levels.subtract_product(level, on(d, wp.vec3f), found)
        assert np.allclose(found.numpy(), left, rtol=1e-4, atol=1e-4)
        if level:
            assert np.allclose(levels.K[level].numpy(), bound, rtol=1e-4, atol=1e-4)
    assert np.allclose(r - (C @ d.ravel()).reshape(-1, 3), found.numpy(), rtol=1e-4, atol=1e-4)
