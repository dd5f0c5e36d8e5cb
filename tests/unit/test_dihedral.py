"""The angle of a hinge and its gradient, up to folds of 179 degrees."""

import numpy as np
import pytest
import warp as wp
from reference.conditions import angle, gradient

from toile.math.dihedral import dihedral
from toile.math.types import mat43, real


@wp.kernel
def measure(x: wp.array(dtype=mat43), theta_out: wp.array(dtype=real), gradient_out: wp.array(dtype=mat43)):
    i = wp.tid()
    hinge = dihedral(x[i])
    theta_out[i] = hinge.theta
    gradient_out[i] = hinge.gradient


def evaluate(hinges: np.ndarray, device: str) -> tuple[np.ndarray, np.ndarray]:
    """theta and its gradient for hinges (count, 4, 3)."""
    theta = wp.zeros(len(hinges), dtype=real, device=device)
    slope = wp.zeros(len(hinges), dtype=mat43, device=device)
    wp.launch(measure, len(hinges), [wp.array(hinges, dtype=mat43, device=device), theta, slope], device=device)
    return theta.numpy().astype(float), slope.numpy().astype(float)


def folded(degrees: float) -> np.ndarray:
    """A hinge of unequal flaps about the y axis; flap x1 is rotated by an angle towards the normal of the first."""
    fold = np.radians(degrees)
    across = np.array([np.cos(fold), 0.0, np.sin(fold)])
    return np.array([[-0.8, 0.4, 0.0], [0.0, 0.7, 0.0] + 0.6 * across, [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def random_hinges(count: int) -> np.ndarray:
    """Hinges of every shape, none of them nearly collapsed or close to 180 degrees, where theta is discontinuous."""
    rng = np.random.default_rng(1)
    hinges = rng.normal(size=(4 * count, 4, 3))
    return np.array([x for x in hinges if is_regular(x)][:count])


def is_regular(x: np.ndarray) -> bool:
    edge = float(np.linalg.norm(x[3] - x[2]))
    return min(height(x, 0), height(x, 1), edge) > 0.3 and abs(angle(x).real) < 3.1


def height(x: np.ndarray, flap: int) -> float:
    """Distance of a flap from the line of the edge."""
    e = x[3] - x[2]
    return float(np.linalg.norm(np.cross(x[flap] - x[2], e)) / np.linalg.norm(e))


ANGLES = [0.0, 30.0, -30.0, 90.0, -90.0, 179.0, -179.0]


@pytest.mark.parametrize("degrees", ANGLES)
def test_angle_of_a_known_fold(degrees: float, device: str) -> None:
    """theta rotates the first normal into the second about the edge: a flap lifted towards the normal is negative."""
    theta, _ = evaluate(folded(degrees)[None], device)
    assert theta[0] == pytest.approx(-np.radians(degrees), abs=1e-14)


@pytest.mark.parametrize("degrees", ANGLES)
def test_gradient_is_the_difference_quotient(degrees: float, device: str) -> None:
    """Five-point differences with step s = 1e-3 (hinges of size 1): error s^4/30 times a fifth derivative below 1e3,
    3e-11 at most, and rounding eps/s = 1e-13."""
    x = folded(degrees)
    s = 1e-3
    offsets = s * np.eye(12).reshape(12, 4, 3)
    near, far = [[evaluate(x + sign * k * offsets, device)[0] for sign in (1, -1)] for k in (1, 2)]
    quotient = (8.0 * (near[0] - near[1]) - (far[0] - far[1])) / (12.0 * s)
    _, slope = evaluate(x[None], device)
    np.testing.assert_allclose(slope[0].ravel(), quotient, rtol=0, atol=1e-10)


def test_random_hinges_match_the_reference(device: str) -> None:
    """Against complex steps: rounding only, some ten operations on numbers below 10."""
    hinges = random_hinges(100)
    assert len(hinges) == 100
    theta, slope = evaluate(hinges, device)
    np.testing.assert_allclose(theta, [angle(x).real for x in hinges], rtol=0, atol=1e-13)
    np.testing.assert_allclose(slope, [gradient(angle, x) for x in hinges], rtol=0, atol=1e-12)


def test_gradient_has_neither_force_nor_torque(device: str) -> None:
    hinges = np.concatenate([random_hinges(200), [folded(degrees) for degrees in ANGLES]])
    _, slope = evaluate(hinges, device)
    np.testing.assert_allclose(slope.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cross(hinges, slope).sum(axis=1), 0.0, atol=1e-12)


def test_small_angles_keep_their_digits(device: str) -> None:
    """acos would give 0 for all of these, because cos(1e-9) is 1 in double precision."""
    small = np.array([1e-4, 1e-6, 1e-9, 1e-12])
    theta, _ = evaluate(np.array([folded(np.degrees(fold)) for fold in small]), device)
    np.testing.assert_allclose(theta, -small, rtol=1e-10)


def test_swapped_flaps_measure_the_same_angle(device: str) -> None:
    """Exchanging the flaps and reversing the edge gives the same hinge, seen from the other triangle."""
    hinges = random_hinges(50)
    theta, slope = evaluate(hinges, device)
    theta_swapped, slope_swapped = evaluate(hinges[:, [1, 0, 3, 2]], device)
    np.testing.assert_allclose(theta_swapped, theta, rtol=0, atol=1e-13)
    np.testing.assert_allclose(slope_swapped[:, [1, 0, 3, 2]], slope, rtol=0, atol=1e-12)


def test_collapsed_hinges_give_finite_numbers(device: str) -> None:
    """A flap on the edge, both flaps on it, an edge of zero length, all points in one, a full fold."""
    flap, both, edge = folded(30.0), folded(30.0), folded(30.0)
    flap[0] = [0.0, 0.5, 0.0]
    both[:2] = [[0.0, 0.5, 0.0], [0.0, 0.2, 0.0]]
    edge[3] = edge[2]
    theta, slope = evaluate(np.array([flap, both, edge, np.zeros((4, 3)), folded(180.0)]), device)
    assert np.isfinite(theta).all() and np.isfinite(slope).all()
    assert not slope[3].any()
