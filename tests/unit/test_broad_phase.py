"""Overlapping boxes against a comparison of all with all: exactly the same pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.pairs import pairs_by_hand
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from toile.contact.broad_phase.broad_phase import REBUILD_INTERVAL, BroadPhase, CandidatePairs
from toile.contact.broad_phase.patches import partition
from toile.device import threads
from toile.math.types import numpy_real, real, vec3


@pytest.fixture(scope="module", autouse=True, params=[False, True], ids=["narrow", "wide"])
def runs_on_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """The variant for a GPU runs on the CPU too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BroadPhase, "runs_on_gpu", staticmethod(lambda _: request.param))
        yield


def grid(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges, triangles and uv in 0..1 of a sheet of n by n vertices."""
    at = np.arange(n * n).reshape(n, n)
    a, b, c, d = at[:-1, :-1].ravel(), at[:-1, 1:].ravel(), at[1:, :-1].ravel(), at[1:, 1:].ravel()
    triangles = np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)])
    u, v = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    return edges_of(triangles), triangles, np.stack([u.ravel(), v.ravel()], axis=1)


def edges_of(triangles: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)


def pleated(uv: np.ndarray, folds: float = 6.0, depth: float = 0.1, gap: float = 0.004) -> np.ndarray:
    """The sheet in pleats whose layers are a gap apart, rotated."""
    s = folds * uv[:, 0]
    x = np.stack([depth * np.abs((s + 1.0) % 2.0 - 1.0), uv[:, 1], gap * s], axis=1)
    turn = np.linalg.qr(np.array([[1.0, 0.4, 0.1], [-0.3, 1.0, 0.5], [0.2, -0.6, 1.0]]))[0]
    return x @ turn.T


def array(values: np.ndarray, device: str, dtype: type = vec3) -> wp.array:
    return wp.array(np.ascontiguousarray(values), dtype=dtype, device=device)


def find(
    phase: BroadPhase, x: np.ndarray, x_end: np.ndarray, reach: np.ndarray, reach_end: np.ndarray | None = None
) -> CandidatePairs:
    places = [array(x, phase.device), array(x_end, phase.device)]
    reaches = [None if values is None else array(values, phase.device, real) for values in (reach, reach_end)]
    return phase.find(*places, reaches[0], None, reaches[1])


def as_arrays(pairs: CandidatePairs) -> tuple[np.ndarray, np.ndarray]:
    return (
        pairs.vertex_triangle.numpy()[: pairs.vertex_triangle_count],
        pairs.edge_edge.numpy()[: pairs.edge_edge_count],
    )


def ordered(pairs: np.ndarray) -> np.ndarray:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def check(
    phase: BroadPhase, x: np.ndarray, x_end: np.ndarray, reach: np.ndarray, reach_end: np.ndarray | None = None
) -> tuple[int, int]:
    """Asserts that found and expected pairs are the same; returns their numbers."""
    reach_end = reach if reach_end is None else reach_end
    x, x_end, reach, reach_end = (np.asarray(a, dtype=numpy_real) for a in (x, x_end, reach, reach_end))
    edges, triangles = phase.edges.numpy().reshape(-1, 2), phase.triangles.numpy().reshape(-1, 3)
    expected = pairs_by_hand(edges, triangles, phase.moving_count, x, x_end, reach, reach_end)
    found = as_arrays(find(phase, x, x_end, reach, reach_end))
    for some, others in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ordered(some), others)
    return len(found[0]), len(found[1])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    vertex_count=st.integers(3, 40),
    offset=st.sampled_from([0.0, 1.0, 1e3, -1e6]),
    reach=st.sampled_from([0.0, 1e-9, 1e-3, 0.2]),
    motion=st.sampled_from([0.0, 1e-6, 0.3]),
    lattice=st.booleans(),
)
def test_pairs_of_random_triangles(
    seed: int, vertex_count: int, offset: float, reach: float, motion: float, lattice: bool, device: str
) -> None:
    """Random triangles; on a lattice boxes are flat and have common faces, so one lost bit would lose a pair."""
    random = np.random.default_rng(seed)
    triangles = np.stack([random.permutation(vertex_count)[:3] for _ in range(random.integers(1, 40))])
    phase = BroadPhase(edges_of(triangles), triangles, vertex_count, int(random.integers(0, vertex_count + 1)), device)
    for _ in range(2):  # the second time in the tree of the first
        x = random.uniform(-1.0, 1.0, (vertex_count, 3))
        if lattice:
            x = np.round(2.0 * x) / 10.0
        x_end = x + motion * random.normal(size=x.shape)
        if lattice:
            x_end = np.round(10.0 * x_end) / 10.0
        reaches = reach * random.uniform(0.0, 1.0, (2, vertex_count))
        check(phase, x + offset, x_end + offset, *reaches)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_pairs_of_a_pleated_and_moving_sheet(offset: float, device: str) -> None:
    """A flat sheet that is pleated, then moved fast through itself; the tree was built for the flat one."""
    edges, triangles, uv = grid(16)
    phase = BroadPhase(edges, triangles, 256, 256, device)
    flat, folded = np.column_stack([uv, np.zeros(256)]) + offset, pleated(uv) + offset
    reach = np.full(256, 1e-3)
    few = check(phase, flat, flat, reach)
    many = check(phase, folded, folded, reach)
    assert many[0] > few[0] and many[1] > few[1]
    fast = folded + np.random.default_rng(1).normal(0.0, 0.02, folded.shape)
    check(phase, folded, fast, reach)
    check(phase, flat, folded, reach)


def test_the_capacity_grows_without_losing_pairs(device: str) -> None:
    """No pair is lost with an initial capacity of one."""
    edges, triangles, uv = grid(12)
    x, reach = pleated(uv), np.full(144, 2e-3)
    large = as_arrays(find(BroadPhase(edges, triangles, 144, 144, device), x, x, reach))
    small = as_arrays(find(BroadPhase(edges, triangles, 144, 144, device, capacity=1), x, x, reach))
    assert min(len(pairs) for pairs in large) > 100
    for some, others in zip(large, small, strict=True):
        np.testing.assert_array_equal(ordered(some), ordered(others))


def test_a_refitted_tree_finds_all_pairs(device: str) -> None:
    """A tree is refitted until it is rebuilt: the pairs are always the same."""
    edges, triangles, uv = grid(12)
    random = np.random.default_rng(3)
    phase = BroadPhase(edges, triangles, 144, 120, device)
    flat, reach = np.column_stack([uv, np.zeros(144)]), np.full(144, 2e-3)
    for k in range(2 * REBUILD_INTERVAL + 1):
        share = abs(1.0 - k / REBUILD_INTERVAL)
        x = share * flat + (1.0 - share) * pleated(uv)
        check(phase, x, x + random.normal(0.0, 1e-3, x.shape), reach)


def test_elements_that_move_together_are_no_pairs(device: str) -> None:
    """A sheet that falls by twenty cells has the pairs of a sheet at rest; one that rotates in the step, and one that
    is
    turned inside out, have the pairs that come close on the way."""
    edges, triangles, uv = grid(16)
    phase = BroadPhase(edges, triangles, 256, 256, device)
    hanging, reach = np.column_stack([uv[:, 0], np.zeros(256), uv[:, 1]]), np.full(256, 1e-3)
    still = check(phase, hanging, hanging, reach)
    assert check(phase, hanging, hanging - [0.0, 0.0, 1.3], reach) == still
    turned = check(phase, hanging, hanging[:, [2, 1, 0]], reach)
    assert all(some < count < 100 * some for some, count in zip(still, turned, strict=True))


def test_boxes_bound_the_motion_of_their_elements(device: str) -> None:
    """No sampling in time finds a pair within reach that is missing, for points of elements that move along straight
    lines and reaches that shrink or grow with time."""
    edges, triangles, uv = grid(7)
    random = np.random.default_rng(8)
    phase = BroadPhase(edges, triangles, 49, 49, device)
    for size in (0.02, 0.3):
        x = pleated(uv, folds=3.0) + random.normal(0.0, 1e-3, (49, 3))
        x_end = x + random.normal(0.0, size, x.shape)
        reaches = random.uniform(1e-3, 0.02, (2, 49))
        listed = set(map(tuple, as_arrays(find(phase, x, x_end, *reaches))[0]))
        weights = random.dirichlet(np.ones(3), 8)
        found_count = 0
        for t in np.linspace(0.0, 1.0, 41):
            at, reach = (1.0 - t) * x + t * x_end, (1.0 - t) * reaches[0] + t * reaches[1]
            points = np.einsum("kc,tcd->tkd", weights, at[triangles])
            distance = np.linalg.norm(at[:, None, None] - points[None], axis=3).min(axis=2)
            for v, f in np.argwhere(distance < reach[:, None] + reach[triangles].min(axis=1)[None]):
                if v not in triangles[f]:
                    found_count += 1
                    assert (v, f) in listed
        assert found_count > 100


@pytest.mark.parametrize("count", [2, 3, 5])
def test_any_number_of_threads_finds_the_same(count: int, device: str) -> None:
    """Byte for byte, also with a capacity of one pair."""
    edges, triangles, uv = grid(40)
    x, reach = pleated(uv), np.full(1600, 2e-3)
    x_end = x + np.random.default_rng(2).normal(0.0, 2e-3, x.shape)
    found = {}
    before = threads.count()
    try:
        for number in (1, count):
            threads.use(number)
            for capacity in (None, 1):
                phase = BroadPhase(edges, triangles, 1600, 1500, device, capacity)
                pairs = as_arrays(find(phase, x, x_end, reach))
                if device != "cpu":  # where the order is not deterministic
                    pairs = ordered(pairs[0]), ordered(pairs[1])
                found[number, capacity] = [some.tobytes() for some in pairs]
    finally:
        threads.use(before)
    assert all(pairs == found[1, None] for pairs in found.values())
    assert min(map(len, found[1, None])) > 8 * 1000


@pytest.mark.parametrize("solid_first", [False, True])
def test_pairs_of_two_solids_are_left_out(solid_first: bool, device: str) -> None:
    """All elements overlap: pairs of two cloths and of cloth and solid are found, and none of two solids."""
    count, moving = 24, 12
    random = np.random.default_rng(5)
    cloth = np.array([[0, 1, 2], [1, 2, 3], [4, 5, 6], [7, 8, 9], [9, 10, 11]])
    triangles = np.concatenate([cloth + moving, cloth] if solid_first else [cloth, cloth + moving])
    phase = BroadPhase(edges_of(triangles)[:: -1 if solid_first else 1], triangles, count, moving, device)
    x = random.uniform(0.0, 1e-3, (count, 3))
    vertex_triangle, edge_edge = check(phase, x, x, np.full(count, 1.0))
    # 24 vertices x 10 triangles and pairs of 28 edges, less those of solids and those with a common vertex.
    assert vertex_triangle == 24 * 10 - 12 * 5 - 15
    edges = phase.edges.numpy()
    sharing = sum(bool(set(a) & set(b)) for i, a in enumerate(edges.tolist()) for b in edges.tolist()[:i])
    assert edge_edge == 28 * 27 // 2 - 14 * 13 // 2 - sharing // 2


def test_elements_with_a_common_vertex_are_no_pairs(device: str) -> None:
    """A closed fan around one vertex has edge pairs only between spokes and the rim, whatever the reach."""
    triangles = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1]])
    phase = BroadPhase(edges_of(triangles), triangles, 4, 4, device)
    x = np.random.default_rng(2).normal(size=(4, 3))
    vertex_triangle, edge_edge = check(phase, x, x, np.full(4, 10.0))
    assert (vertex_triangle, edge_edge) == (3, 3)  # each rim vertex and the face across, each spoke and the rim across


def test_the_numbering_does_not_change_the_pairs(device: str) -> None:
    """The numbering of vertices and the order of edges and triangles do not matter."""
    edges, triangles, uv = grid(12)
    random = np.random.default_rng(4)
    number = random.permutation(144)
    edges, triangles = random.permutation(number[edges]), random.permutation(number[triangles])
    x = pleated(uv)[np.argsort(number)]
    phase = BroadPhase(edges, triangles, 144, 100, device)
    assert min(check(phase, x, x + random.normal(0.0, 1e-3, x.shape), np.full(144, 1e-3))) > 100


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    moving_count=st.sampled_from([90, 144]),
)
def test_a_second_search_finds_the_pairs_of_moved_vertices(
    seed: int, share: float, moving_count: int, device: str
) -> None:
    """When a few vertices have moved, all pairs with one of them are found, and no others."""
    edges, triangles, uv = grid(12)
    random = np.random.default_rng(seed)
    phase = BroadPhase(edges, triangles, 144, moving_count, device)
    x, reach = pleated(uv), np.full(144, 1e-3)
    x_end = x + random.normal(0.0, 1e-3, x.shape)
    find(phase, x, x_end, reach)
    astray = random.uniform(size=144) < share
    x_end[astray] += random.normal(0.0, 0.05, (astray.sum(), 3))
    arrays = [array(x, device), array(x_end, device), array(reach, device, real)]
    found = as_arrays(phase.find(*arrays, array(astray.astype(np.int32), device, wp.int32)))
    of_edges, of_triangles = (phase.edges.numpy().reshape(-1, 2), phase.triangles.numpy().reshape(-1, 3))
    vertices, sides = pairs_by_hand(of_edges, of_triangles, moving_count, x, x_end, reach)
    vertices = vertices[astray[vertices[:, 0]] | astray[of_triangles[vertices[:, 1]]].any(axis=1)]
    sides = sides[astray[of_edges[sides]].any(axis=(1, 2))]
    np.testing.assert_array_equal(ordered(found[0]), vertices)
    np.testing.assert_array_equal(ordered(found[1]), sides)


@pytest.mark.parametrize("shuffled", [False, True])
def test_patches_are_connected_and_of_four_vertices(shuffled: bool) -> None:
    """Patches are connected, have up to four vertices and mostly four, and belong to cloth or solid but not both."""
    edges, _, _ = grid(20)
    if shuffled:
        edges = np.random.default_rng(7).permutation(400)[edges]
    for moving_count in (400, 150, 0):
        patch = partition(edges, 400, moving_count)
        sizes = np.bincount(patch)
        assert sizes.min() >= 1 and sizes.max() <= 4
        assert set(patch[:moving_count]).isdisjoint(patch[moving_count:])
        assert patch[:moving_count].max(initial=-1) < patch[moving_count:].min(initial=400)
        inner = edges[patch[edges[:, 0]] == patch[edges[:, 1]]]
        links = coo_matrix((np.ones(len(inner)), (inner[:, 0], inner[:, 1])), shape=(400, 400))
        assert connected_components(links, directed=False)[0] == len(sizes)
        if moving_count in (0, 400):  # a shuffled sheet without this would have many small patches
            assert sizes.mean() > 3.8


def test_no_vertices(device: str) -> None:
    phase = BroadPhase(np.zeros((0, 2), dtype=np.int32), np.zeros((0, 3), dtype=np.int32), 0, 0, device)
    assert check(phase, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0)) == (0, 0)


@pytest.mark.parametrize("edge_count", [0, 2])
def test_no_triangles(edge_count: int, device: str) -> None:
    edges = np.array([[0, 1], [2, 3]])[:edge_count]
    phase = BroadPhase(edges, np.zeros((0, 3), dtype=np.int32), 4, 4, device)
    x = np.array([[-1.0, 0, 0], [1, 0, 0], [0, -1, 1e-3], [0, 1, 1e-3]])
    assert check(phase, x, x, np.full(4, 6e-4)) == (0, edge_count // 2)
    assert check(phase, x, x, np.full(4, 4e-4)) == (0, 0)


def test_all_vertices_in_one_point(device: str) -> None:
    """All boxes are the same point, so each overlaps all others."""
    edges, triangles, uv = grid(6)
    phase = BroadPhase(edges, triangles, 36, 36, device)
    for x in (np.zeros((36, 3)), np.full((36, 3), 1.0 / 3.0), np.column_stack([uv, uv[:, 0]]) * 0.0 - 1e-40):
        check(phase, x, x, np.zeros(36))
