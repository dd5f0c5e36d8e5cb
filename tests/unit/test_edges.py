"""The closest points of two edges, against the minimum over every case."""

import numpy as np
import pytest
import warp as wp
from reference.impact import edge_edge_distance, length

from toile.math.edges import nearest_of_edges
from toile.math.types import double, precision, real, vec3

# Of distances relative to the size of the pair: rounding of positions, and of products for parallel edges.
EXACT = 1e-13 if precision == "double" else 1e-5


@wp.kernel
def nearest(x: wp.array2d(dtype=vec3), s_out: wp.array(dtype=real), t_out: wp.array(dtype=real)):
    i = wp.tid()
    found = nearest_of_edges(double(x[i, 0]), double(x[i, 1]), double(x[i, 2]), double(x[i, 3]))
    s_out[i] = real(found.s)
    t_out[i] = real(found.t)


def evaluate(x: np.ndarray, device: str) -> tuple[np.ndarray, np.ndarray]:
    """s and t for edges (count, 4, 3)."""
    s, t = (wp.zeros(len(x), dtype=real, device=device) for _ in range(2))
    wp.launch(nearest, len(x), [wp.array(x, dtype=vec3, device=device), s, t], device=device)
    return s.numpy().astype(float), t.numpy().astype(float)


def between(x: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Vectors from the point of the second edge to that of the first."""
    first = x[:, 0] + s[:, None] * (x[:, 1] - x[:, 0])
    return first - x[:, 2] - t[:, None] * (x[:, 3] - x[:, 2])


def any_edges(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.uniform(-1.0, 1.0, (count, 4, 3))


def parallel(rng: np.random.Generator, count: int) -> np.ndarray:
    x = any_edges(rng, count)
    x[:, 3] = x[:, 2] + rng.uniform(-2.0, 2.0, (count, 1)) * (x[:, 1] - x[:, 0])
    return x


def nearly_parallel(rng: np.random.Generator, count: int) -> np.ndarray:
    return parallel(rng, count) + rng.normal(size=(count, 4, 3)) * 10.0 ** rng.uniform(-16.0, -2.0, (count, 1, 1))


def on_one_line(rng: np.random.Generator, count: int) -> np.ndarray:
    places = rng.integers(-3, 4, (count, 4, 1))  # including ends that coincide, and edges of zero length
    return places * rng.integers(-3, 4, (count, 1, 3)) / 4.0


def without_length(rng: np.random.Generator, count: int) -> np.ndarray:
    x = any_edges(rng, count)
    which = np.arange(count) % 3
    x[which != 1, 1] = x[which != 1, 0]
    x[which != 0, 3] = x[which != 0, 2]
    return x


def in_a_plane(rng: np.random.Generator, count: int) -> np.ndarray:
    x = rng.integers(-4, 5, (count, 4, 3)) / 4.0
    x[:, :, 2] = 0.0
    return x


def crossing(rng: np.random.Generator, count: int) -> np.ndarray:
    """Closest points within both edges, at distances down to zero."""
    x = any_edges(rng, count)
    s, t = rng.uniform(0.0, 1.0, (2, count))
    n = np.cross(x[:, 1] - x[:, 0], x[:, 3] - x[:, 2])
    gap = n / length(n)[:, None] * 10.0 ** rng.uniform(-15.0, 0.0, (count, 1))
    x[:, :2] -= (between(x, s, t) - gap)[:, None]
    return x


def of_uneven_length(rng: np.random.Generator, count: int) -> np.ndarray:
    x = any_edges(rng, count)
    x[:, 1] = x[:, 0] + 1e-6 * (x[:, 1] - x[:, 0])
    return x


@pytest.mark.parametrize(
    "edges",
    [any_edges, parallel, nearly_parallel, on_one_line, without_length, in_a_plane, crossing, of_uneven_length],
    ids=lambda edges: edges.__name__,
)
def test_no_points_are_closer(edges, device):
    x = edges(np.random.default_rng(1), 4000).astype(np.float32).astype(float)
    s, t = evaluate(x, device)
    assert s.min() >= 0.0 and s.max() <= 1.0 and t.min() >= 0.0 and t.max() <= 1.0
    assert (length(between(x, s, t)) - edge_edge_distance(x)).max() <= EXACT


def test_the_feet_of_the_common_perpendicular(device):
    """Edges along x at height 0 and along y at height 2, whose projections cross at a quarter and at a third."""
    x = np.array([[[-1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, -1.0, 2.0], [0.0, 2.0, 2.0]]])
    s, t = evaluate(x, device)
    assert s[0] == pytest.approx(1.0 / 4.0, abs=EXACT) and t[0] == pytest.approx(1.0 / 3.0, abs=EXACT)


def test_closest_points_of_parallel_edges_are_in_the_middle_of_the_overlap(device):
    """From 0 to 4 and from 1 to 7 on parallel lines: 1..4 is common, and its middle is 2.5."""
    x = np.array([[[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [1.0, 1.0, 0.0], [7.0, 1.0, 0.0]]])
    for order in ([0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2], [2, 3, 0, 1]):
        y = x[:, order]
        s, t = evaluate(y, device)
        points = y[0, 0] + s * (y[0, 1] - y[0, 0]), y[0, 2] + t * (y[0, 3] - y[0, 2])
        assert [point[0] for point in points] == pytest.approx([2.5, 2.5], abs=10.0 * EXACT)


def test_exchanging_the_edges_exchanges_the_points(device):
    x = any_edges(np.random.default_rng(2), 4000)
    s, t = evaluate(x, device)
    t_swapped, s_swapped = evaluate(x[:, [2, 3, 0, 1]], device)
    assert np.abs(s - s_swapped).max() < 1e4 * EXACT and np.abs(t - t_swapped).max() < 1e4 * EXACT
