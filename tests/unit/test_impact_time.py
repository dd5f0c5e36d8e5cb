"""Times of impact: never later than those of ipctk or than exactly known contacts, with few false positives.

In single precision the pairs are rounded first: the same holds for the stored positions as in double.
"""

from dataclasses import replace

import numpy as np
import pytest
import warp as wp
from reference.impact import (
    EDGE_EDGE,
    VERTEX_TRIANGLE,
    Motions,
    anything,
    cloth_like,
    distance_at,
    generate,
    judge,
    least_distance,
)

from toile.contact.narrow_phase.impact_time import ARRIVED, NEVER, edge_edge_impact, vertex_triangle_impact
from toile.math.types import numpy_real, precision, real, vec3

KINDS = [VERTEX_TRIANGLE, EDGE_EDGE]
FIRST = np.array([[1.0], [0.0], [0.0], [0.0]])  # times a vector: only the first of four points moves
EXACT = 1e-12 if precision == "double" else 1e-7  # of times
ARRIVED, NEVER = float(ARRIVED), float(NEVER)


@wp.kernel
def time_vertex_triangle(
    x: wp.array2d(dtype=vec3), x_end: wp.array2d(dtype=vec3), margin: wp.array(dtype=real), t_out: wp.array(dtype=real)
):
    i = wp.tid()
    t_out[i] = vertex_triangle_impact(
        x[i, 0], x[i, 1], x[i, 2], x[i, 3], x_end[i, 0], x_end[i, 1], x_end[i, 2], x_end[i, 3], margin[i]
    )


@wp.kernel
def time_edge_edge(
    x: wp.array2d(dtype=vec3), x_end: wp.array2d(dtype=vec3), margin: wp.array(dtype=real), t_out: wp.array(dtype=real)
):
    i = wp.tid()
    t_out[i] = edge_edge_impact(
        x[i, 0], x[i, 1], x[i, 2], x[i, 3], x_end[i, 0], x_end[i, 1], x_end[i, 2], x_end[i, 3], margin[i]
    )


KERNELS = {VERTEX_TRIANGLE: time_vertex_triangle, EDGE_EDGE: time_edge_edge}


def impact(kind: str, start: np.ndarray, end: np.ndarray, margin: np.ndarray | float, device: str) -> np.ndarray:
    margins = np.broadcast_to(margin, len(start)).copy()
    x, x_end = (wp.array(y, dtype=vec3, device=device) for y in (start, end))
    t = wp.zeros(len(start), dtype=real, device=device)
    wp.launch(KERNELS[kind], len(start), [x, x_end, wp.array(margins, dtype=real, device=device), t], device=device)
    return t.numpy().astype(float)


def stored(pairs: Motions) -> Motions:
    """The pairs as stored in memory. A time of impact is no longer known if something was rounded."""
    start, end, margin = (values.astype(numpy_real).astype(float) for values in (pairs.start, pairs.end, pairs.margin))
    same = (start == pairs.start).all(axis=(1, 2)) & (end == pairs.end).all(axis=(1, 2))
    contact_time = np.where(same, pairs.contact_time, np.inf)
    return replace(pairs, start=start, end=end, margin=margin, contact_time=contact_time)


def check(pairs: Motions, device: str) -> None:
    """Asserts that no impact is missed, false positives are rare, and the distance at the returned time is as
    requested."""
    pairs = stored(pairs)
    kind, start, end = pairs.kind, pairs.start, pairs.end
    t = impact(kind, start, end, pairs.margin, device)
    hit = t != NEVER
    distance = pairs.distance
    nearest = np.minimum(pairs.margin, 0.5 * distance)
    rounding = 1e-14 * pairs.size  # of distances
    # The returned time is rounded down; until then differences of positions change by less than twice the size.
    rounding_of_time = (0.0 if precision == "double" else 2.0**-22) * pairs.size

    # Pairs in contact without relative motion are no impacts; all other exact contacts are found before their time.
    assert (t[~pairs.moves] == NEVER).all()
    known = np.isfinite(pairs.contact_time) & pairs.moves
    assert (t[known] <= pairs.contact_time[known]).all()

    # Never later than ipctk, except where ipctk is early because it ran out of iterations on a long parallel path.
    time = judge(kind, start, end)
    later = np.flatnonzero((t > time) & pairs.moves)
    moments = distance_at(kind, start[later], end[later], np.minimum(time[later], 1.0)[:, None])[:, 0]
    early = moments > nearest[later]
    assert early.all()
    spared = later[~hit[later]]
    assert (least_distance(kind, start[spared], end[spared]) > nearest[spared] - rounding[spared]).all()

    # Until the returned time the distance is at least `nearest`; at that time it is not much more. For a distance as
    # small as the root of the rounding times the size, products lose all digits: it is only certain not to be 0.
    clear = distance > 1e-7 * pairs.size
    until = np.where(hit, t, 1.0)[:, None] * np.linspace(0.0, 1.0, 33)
    distances = distance_at(kind, start, end, until)
    least = distances.min(axis=1)
    assert (least >= nearest * (1.0 - 1e-6) - rounding)[clear].all()
    assert (least > 0.0)[distance > rounding].all()
    assert not clear[t == 0.0].any()
    # Pairs that run out of steps are early: one in ten of the grazing motions, hardly any of the others.
    arrived = distances[:, -1] <= ARRIVED * nearest * (1.0 + 1e-6) + rounding + rounding_of_time
    assert (clear & hit).mean() > 0.4
    assert arrived[clear & hit & pairs.grazes].mean() > 0.9
    assert arrived[clear & hit & ~pairs.grazes].mean() > 0.999

    # False positives among pairs that stay well apart.
    suspects = np.flatnonzero(hit & np.isinf(time) & np.isinf(pairs.contact_time))
    false = least_distance(kind, start[suspects], end[suspects]) > 1.2 * nearest[suspects]
    assert (~hit).mean() > 0.15
    assert false.sum() <= 0.02 * (~hit).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_no_collision_is_missed(kind, device):
    check(generate(kind, 5_000), device)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_collision_of_many_is_missed(kind, device):
    check(generate(kind, 50_000), device)


@pytest.mark.parametrize("margin", [0.3, 0.05, 1e-3])
def test_a_vertex_falls_on_a_triangle(margin, device):
    """From height 1 at speed 2 it is at height `nearest` after (1 - nearest) / 2, and not more than a tenth above."""
    start = np.array([[[0.2, 0.3, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    end = start - FIRST * [0.0, 0.0, 2.0]
    assert impact(VERTEX_TRIANGLE, start, end, margin, device)[0] == pytest.approx((1.0 - margin) / 2.0, abs=EXACT)


def test_edges_cross(device):
    """At distance 1, both at speed 1 towards each other, perpendicular: (1 - nearest) / 2."""
    start = np.array([[[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -1.0, 1.0], [0.0, 2.0, 1.0]]])
    end = start + np.array([[1.0], [1.0], [-1.0], [-1.0]]) * [0.0, 0.0, 1.0]
    assert impact(EDGE_EDGE, start, end, 0.1, device)[0] == pytest.approx(0.45, abs=EXACT)


def test_the_margin_is_at_most_half_the_distance_at_the_start(device):
    """From height 1 with a margin of 5: down to 0.5."""
    start = np.array([[[0.2, 0.3, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    end = start - FIRST * [0.0, 0.0, 1.0]
    assert impact(VERTEX_TRIANGLE, start, end, 5.0, device)[0] == pytest.approx(0.5, abs=EXACT)


def test_a_vertex_that_stops_above_the_margin_has_no_impact(device):
    start = np.array([[[0.2, 0.3, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    for stop, arrives in ((0.1001, False), (0.0999, True)):
        end = start.copy()
        end[0, 0, 2] = stop
        assert (impact(VERTEX_TRIANGLE, start, end, 0.1, device)[0] != NEVER) == arrives


def test_sliding_along_is_not_an_impact(device):
    """By 1.4 m at a height of 1 um: a bound on the speed in all directions would need a million steps."""
    start = np.array([[[-0.7, 0.2, 1e-6], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    end = start + FIRST * [1.4, 0.0, 0.0]
    assert impact(VERTEX_TRIANGLE, start, end, 1e-3, device)[0] == NEVER


@pytest.mark.parametrize("kind", KINDS)
def test_moving_together_is_not_an_impact(kind, device):
    start = anything(np.random.default_rng(3), kind, 2000)[0]
    end = start + np.random.default_rng(4).normal(size=(2000, 1, 3))
    assert (impact(kind, start, end, 0.1, device) == NEVER).all()


@pytest.mark.parametrize("kind", KINDS)
def test_moving_apart_is_not_an_impact(kind, device):
    """All positions are scaled up about a point: no distance decreases."""
    start = anything(np.random.default_rng(5), kind, 2000)[0]
    assert (impact(kind, start, 3.0 * start, 0.1, device) == NEVER).all()


@pytest.mark.parametrize("kind", KINDS)
def test_times_are_invariant_under_rigid_motion(kind, device):
    """Convergence is a threshold, so a time may change by the last step, which is within a tenth of `nearest`."""
    rng = np.random.default_rng(6)
    start, end, _ = cloth_like(rng, kind, 4000)
    t = impact(kind, start, end, 0.02, device)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    together = rng.normal(size=3)
    there = impact(kind, start @ turn.T, end @ turn.T + together, 0.02, device)
    same = np.abs(t - there) < (1e-9 if precision == "double" else 1e-3)
    assert ((t != NEVER).mean() > 0.02) and same.mean() > (0.999 if precision == "double" else 0.99)


@pytest.mark.parametrize("kind", KINDS)
def test_times_are_the_same_a_kilometer_from_the_origin(kind, device):
    """Positions that a shift by 1024 does not round: the same bits, and never a distance of 0."""
    rng = np.random.default_rng(7)
    fine = 2.0**30 if precision == "double" else 2.0**13
    start, end, _ = (np.round(y * fine) / fine for y in cloth_like(rng, kind, 4000))
    t = impact(kind, start, end, 1e-3, device)
    assert np.array_equal(t, impact(kind, start + 1024.0, end + 1024.0, 1e-3, device))


@pytest.mark.parametrize("order", [[2, 3, 0, 1], [1, 0, 2, 3], [0, 1, 3, 2]])
def test_the_order_of_edges_and_ends_does_not_matter(order, device):
    start, end, _ = cloth_like(np.random.default_rng(8), EDGE_EDGE, 4000)
    t = impact(EDGE_EDGE, start, end, 0.02, device)
    other = impact(EDGE_EDGE, start[:, order], end[:, order], 0.02, device)
    assert (np.abs(t - other) < (1e-9 if precision == "double" else 1e-3)).mean() > 0.999


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_in_contact_at_the_start_is_an_impact_if_it_moves(kind, device):
    x = np.array([[[0.25, 0.25, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    assert impact(kind, x, x, 0.1, device)[0] == NEVER
    moved = x - FIRST * [0.0, 0.0, 1.0]
    if kind == VERTEX_TRIANGLE:
        assert impact(kind, x, moved, 0.1, device)[0] == 0.0
    else:
        assert impact(kind, x[:, [0, 1, 1, 2]], moved[:, [0, 1, 1, 2]], 0.1, device)[0] == 0.0
