"""Several threads for a row do what one does; only a GPU runs them."""

import numpy as np
import pytest
import scipy.sparse as sparse
import warp as wp

from toile.device.lanes import thread_count
from toile.linear import precondition_multigrid
from toile.linear.multigrid import coupled_levels, couplings_gpu, rows_gpu
from toile.math.types import mat33, numpy_real, vec3, vec4


@pytest.mark.parametrize("n", [1, 2, 33, 500])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_products_are_those_of_numpy(device, n, lanes):
    if wp.get_device(device).is_cpu:
        pytest.skip("no GPU")
    random = np.random.default_rng(n)
    some = sparse.random_array((n, n), density=min(1.0, 12.0 / n), rng=random)
    pattern = sparse.csr_array(some + sparse.eye_array(n))
    blocks = random.normal(size=(pattern.nnz, 3, 3)).astype(np.float32)
    A = sparse.bsr_array((blocks.astype(float), pattern.indices, pattern.indptr)).toarray()
    d, r, x = (random.normal(size=(n, 3)).astype(np.float32) for _ in range(3))
    inverse = random.normal(size=(n, 3, 3)).astype(np.float32)

    def on(values, dtype):
        return wp.array(values, dtype=dtype, device=device)

    matrix = [on(pattern.indptr, wp.int32), on(pattern.indices, wp.int32), on(blocks.reshape(-1, 3), wp.vec3f)]
    left = r - (A @ d.ravel()).reshape(-1, 3)
    r_out, d_out, x_out = on(r, wp.vec3f), wp.zeros(n, dtype=wp.vec3f, device=device), on(x, wp.vec3f)
    inputs = [n, lanes, *matrix, on(inverse, wp.mat33f), on(d, wp.vec3f), 0.25, 0.5]
    wp.launch(rows_gpu.smooth, dim=thread_count(n, lanes), inputs=[*inputs, r_out, d_out, x_out], device=device)
    step = 0.25 * d + 0.5 * np.einsum("nij,nj->ni", inverse, left)
    for found, wanted in ((r_out, left), (d_out, step), (x_out, x + step)):
        assert np.allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)

    S = np.tile(np.diag([1.0, 0.0, 1.0]), (n, 1, 1)).astype(numpy_real)
    s_out = wp.zeros(n, dtype=vec3, device=device)
    given = [on(r, wp.vec3f), on(x, wp.vec3f), on(S, mat33)]
    wp.launch(rows_gpu.smooth_last, dim=thread_count(n, lanes), inputs=[*inputs, *given, s_out], device=device)
    assert np.allclose(s_out.numpy(), (x + step) * [1.0, 0.0, 1.0], rtol=1e-4, atol=1e-4)

    r_out = on(r, wp.vec3f)
    inputs = [n, lanes, *matrix, on(d, wp.vec3f), r_out]
    wp.launch(rows_gpu.subtract_product, dim=thread_count(n, lanes), inputs=inputs, device=device)
    assert np.allclose(r_out.numpy(), left, rtol=1e-4, atol=1e-4)

    P = sparse.csr_array(sparse.random_array((n, n), density=min(1.0, 9.0 / n), rng=random, dtype=np.float32))
    weights = [on(P.indptr, wp.int32), on(P.indices, wp.int32), on(P.data, wp.float32)]
    out = [wp.zeros(n, dtype=wp.vec3f, device=device) for _ in range(3)]
    inputs = [n, lanes, *weights, on(r, wp.vec3f), on(inverse, wp.mat33f), 0.5, *out]
    wp.launch(rows_gpu.restrict, dim=thread_count(n, lanes), inputs=inputs, device=device)
    coarse = P @ r
    first = 0.5 * np.einsum("nij,nj->ni", inverse, coarse)
    for found, wanted in zip(out, (coarse, first, first), strict=True):
        assert np.allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_contacts_push_nodes_as_by_numpy(device, count):
    if wp.get_device(device).is_cpu:
        pytest.skip("no GPU")
    random = np.random.default_rng(count)
    n, nodes, capacity = 60, 25, 41
    particles = np.array([random.permutation(n)[:4] for _ in range(capacity)], np.int32)
    weights = random.normal(size=(capacity, 4)).astype(numpy_real)
    blocks = random.normal(size=(capacity, 3, 3)).astype(numpy_real)
    S = np.tile(np.diag([1.0, 0.0, 1.0]), (n, 1, 1)).astype(numpy_real)
    Q = sparse.csr_array(sparse.random_array((n, nodes), density=0.3, rng=random, dtype=np.float32))
    d, r = (random.normal(size=(nodes, 3)).astype(np.float32) for _ in range(2))

    def on(values, dtype):
        return wp.array(values, dtype=dtype, device=device)

    groups = [on([count], wp.int32), on(particles, wp.vec4i), on(weights, vec4), on(blocks, mat33), on(S, mat33)]
    through = [on(Q.indptr, wp.int32), on(Q.indices, wp.int32), on(Q.data, wp.float32)]
    found, threads = on(r, wp.vec3f), thread_count(capacity, int(couplings_gpu.LANES))
    inputs = [*groups, *through, on(d, wp.vec3f), found]
    wp.launch(couplings_gpu.subtract_coupled, dim=threads, inputs=inputs, device=device)
    left = r.astype(float)
    for at, w, block in zip(particles[:count], weights[:count], blocks[:count], strict=True):
        moved = np.einsum("nij,nj->ni", S[at], Q[at] @ d)
        left -= Q[at].T @ np.einsum("n,nij,j->ni", w, S[at], block @ (w @ moved))
    assert np.allclose(found.numpy(), left, rtol=1e-4, atol=1e-4)


def test_contacts_have_one_kernel_for_each_device():
    kernels = coupled_levels.subtract_coupled, couplings_gpu.subtract_coupled
    labels = [[argument.label for argument in kernel.adj.args] for kernel in kernels]
    assert labels[0] == labels[1]


def test_every_kernel_by_rows_has_one_for_a_gpu():
    for kernel, alike in precondition_multigrid.GPU_KERNELS.items():
        labels = [[argument.label for argument in each.adj.args] for each in (kernel, alike)]
        assert labels[0][4:] == labels[1][5:]  # after where the range begins, or the rows, and the matrix
