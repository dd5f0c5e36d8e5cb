"""Closed-form positive-definite Hessians against a numerical eigenvalue clamp, and A as a whole.

Ten thousand triangles that share no vertex are assembled as in a simulation; each has its own deformation F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from reference.dense import Dense
from reference.hessians import at_corners, clamped, shear_hessian, stretch_hessian
from reference.sheets import EDGE, FABRICS, Bench, flat, perturbed, rest_stretch_at, sheet, small_model

from toile.energies.bend_angle import BendAngle
from toile.energies.shear import Shear
from toile.energies.stretch import Stretch
from toile.model.mesh import Mesh
from toile.model.model import build_model
from toile.scene.schema import Fabric

COUNT = 10_000
K_WARP, K_WEFT, K_SHEAR, DAMPING = 800.0, 300.0, 150.0, 0.05


def deformations() -> np.ndarray:
    """(COUNT, 3, 2): equal shares of general, compressed, inverted, sheared and rank-1 F."""
    rng = np.random.default_rng(1)
    n = COUNT // 10
    upright = np.eye(3)[:, :2]

    def turned(F: np.ndarray) -> np.ndarray:
        Q, _ = np.linalg.qr(rng.normal(size=(len(F), 3, 3)))
        return Q @ F

    general = rng.normal(size=(3 * n, 3, 2))
    near_rest = turned(upright + 0.05 * rng.normal(size=(n, 3, 2)))
    compressed = turned(upright * rng.uniform(0.05, 0.95, (n, 1, 2)))
    # Not below 1e-4: the direction of w then has a rounding of 1e-12, which its rate of change in damping multiplies.
    crushed = turned(upright * 10.0 ** rng.uniform(-4.0, -1.0, (n, 1, 2)))
    inverted = turned(upright * rng.uniform(0.2, 1.5, (n, 1, 2)) * np.array([1.0, -1.0]))
    sheared = turned(upright + rng.uniform(-3.0, 3.0, (n, 1, 1)) * np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    w = rng.normal(size=(n, 3, 1))
    rank_one = w * np.concatenate([np.ones((n, 1, 1)), rng.normal(size=(n, 1, 1))], axis=2)
    orthogonal = turned(upright * rng.uniform(0.5, 1.5, (n, 1, 2)))
    return np.concatenate([general, near_rest, compressed, crushed, inverted, sheared, rank_one, orthogonal])


def coinciding_threads() -> np.ndarray:
    """(COUNT, 3, 2): w_v = +-w_u up to tiny differences, where the eigenvectors of shear nearly coincide."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=(COUNT, 3, 1))
    off = 10.0 ** rng.uniform(-17.0, -2.0, (COUNT, 1, 1)) * rng.normal(size=(COUNT, 3, 1))
    return np.concatenate([w, rng.choice([-1.0, 1.0], (COUNT, 1, 1)) * w + off], axis=2)


@dataclass
class Soup:
    """Separate triangles with given deformations, and their 9x9 matrices."""

    uv: np.ndarray
    bench: Bench

    @staticmethod
    def of(energy: Stretch | Shear, device: str) -> Soup:
        rng = np.random.default_rng(2)
        corners = EDGE * np.array([[0.0, 0.0], [1.0, 0.0], [0.3, 0.9]])
        uv = corners + rng.uniform(-0.15 * EDGE, 0.15 * EDGE, (COUNT, 3, 2))
        triangles = np.arange(3 * COUNT, dtype=np.int32).reshape(-1, 3)
        mesh = Mesh(np.zeros((3 * COUNT, 3)), triangles, uv)
        return Soup(uv, Bench.of(build_model(["soup"], [mesh], [Fabric()], [()]), [energy], device))

    def corners(self, F: np.ndarray) -> np.ndarray:
        """Positions or velocities with this deformation or rate of deformation."""
        return (self.uv @ np.swapaxes(F, 1, 2)).reshape(-1, 3)

    def stiffness(self, F: np.ndarray, F_tension: np.ndarray, F_rate: np.ndarray) -> np.ndarray:
        """(COUNT, 9, 9): the part of A that is multiplied by h^2; A(1) and A(-1) cancel the part multiplied by h."""
        x, x_tension, v = map(self.corners, (F, F_tension, F_rate))
        matrices = (self.bench.linearized(x, v, h, x_tension=x_tension)[0] for h in (1.0, -1.0))
        both = [A.values.numpy().astype(float) for A in matrices]
        # Vertices of a triangle are consecutive, so its nine blocks are, too.
        blocks = (0.5 * (both[0] + both[1])).reshape(COUNT, 3, 3, 3, 3)
        masses = self.bench.system.model.masses.reshape(COUNT, 3)
        blocks[:, range(3), range(3)] -= masses.T[..., None, None].swapaxes(0, 1) * np.eye(3)
        return blocks.transpose(0, 1, 3, 2, 4).reshape(COUNT, 9, 9)


def compare(found: np.ndarray, expected: np.ndarray, uv: np.ndarray, k: float) -> None:
    """Asserts equality to 1e-9 and no negative eigenvalue below -1e-10 k; k is transformed to the corners."""
    stiffness = np.abs(at_corners(k * np.eye(6), uv)).max(axis=(1, 2))
    scale = np.maximum(stiffness, np.abs(expected).max(axis=(1, 2)))
    error = np.abs(found - expected).max(axis=(1, 2)) / scale
    assert error.max() <= 1e-9, f"triangle {np.argmax(error)}"
    lowest = np.linalg.eigvalsh(found)[:, 0] / scale
    assert lowest.min() >= -1e-10, f"triangle {np.argmin(lowest)}"


def rates(size: float) -> np.ndarray:
    return size * np.random.default_rng(3).normal(size=(COUNT, 3, 2))


# Rate of deformation [1/s]: with k_d/k = 0.05 s, 1/s changes the tension by a few hundredths, 50/s by more than itself.
@pytest.mark.parametrize("rate", [0.0, 1.0, 50.0])
def test_stretch_is_the_clamped_hessian(rate: float, device: str) -> None:
    """With and without damping; the tension is that of another state, as in an implicit step."""
    F, F_rate = deformations(), rates(rate)
    soup = Soup.of(Stretch(stiffness_warp=K_WARP, stiffness_weft=K_WEFT, damping=DAMPING), device)
    for F_tension in (F, np.roll(F, 1, axis=0)):
        H = np.zeros((COUNT, 6, 6))
        for axis, k in enumerate((K_WARP, K_WEFT)):
            w, w_rate, length = F[..., axis], F_rate[..., axis], np.linalg.norm(F[..., axis], axis=1)
            speed = np.sum(w * w_rate, axis=1) / length
            s = k * (np.linalg.norm(F_tension[..., axis], axis=1) - 1.0) + DAMPING * k * speed
            H += stretch_hessian(F, axis, k, s)
        found = soup.stiffness(F, F_tension, F_rate)
        compare(found, at_corners(clamped(H), soup.uv), soup.uv, min(K_WARP, K_WEFT))


@pytest.mark.parametrize("rate", [0.0, 1.0, 50.0])
def test_shear_is_the_clamped_hessian(rate: float, device: str) -> None:
    """With and without damping, as for stretch."""
    compare_shear(deformations(), rates(rate), device)


@pytest.mark.parametrize("rate", [0.0, 50.0])
def test_shear_is_the_clamped_hessian_where_threads_coincide(rate: float, device: str) -> None:
    """On triangles folded along their diagonal, so that warp and weft coincide."""
    compare_shear(coinciding_threads(), rates(rate), device)


def compare_shear(F: np.ndarray, F_rate: np.ndarray, device: str) -> None:
    soup = Soup.of(Shear(stiffness=K_SHEAR, damping=DAMPING, limit_stiffness=0.0), device)
    for F_tension in (F, np.roll(F, 1, axis=0)):
        shear = np.sum(F_tension[..., 0] * F_tension[..., 1], axis=1)
        speed = np.sum(F[..., 0] * F_rate[..., 1] + F[..., 1] * F_rate[..., 0], axis=1)
        H = shear_hessian(F, K_SHEAR, K_SHEAR * (shear + DAMPING * speed))
        found = soup.stiffness(F, F_tension, F_rate)
        compare(found, at_corners(clamped(H), soup.uv), soup.uv, K_SHEAR)


def test_most_hessians_are_indefinite_before_clamping(device: str) -> None:
    """Most of these triangles have negative eigenvalues before clamping; otherwise the tests above would be vacuous."""
    F = deformations()
    length = np.linalg.norm(F[..., 0], axis=1)
    stretch = np.linalg.eigvalsh(stretch_hessian(F, 0, 1.0, length - 1.0))[:, 0]
    shear = np.linalg.eigvalsh(shear_hessian(F, 1.0, np.sum(F[..., 0] * F[..., 1], axis=1)))[:, 0]
    assert np.mean(stretch < -1e-3) > 0.3 and np.mean(stretch >= 0.0) > 0.1
    assert np.mean(shear < -1e-3) > 0.5


@pytest.mark.parametrize("energy", [Stretch(), Shear()], ids=["stretch", "shear"])
def test_collapsed_triangles_give_finite_matrices(energy: Stretch | Shear, device: str) -> None:
    """F = 0, and w_u = 0 or w_v = 0 alone."""
    soup = Soup.of(energy, device)
    F = deformations()
    F[: COUNT // 3] = 0.0
    F[COUNT // 3 : 2 * COUNT // 3, :, 0] = 0.0
    F[2 * COUNT // 3 :, :, 1] = 0.0
    found = soup.stiffness(F, F, rates(1.0))
    assert np.isfinite(found).all()
    assert np.isfinite(soup.bench.force(soup.corners(F), soup.corners(rates(1.0)))).all()


STEPS = [1e-4, 1e-3, 1.0 / 60.0, 1.0 / 30.0, 0.1]


def test_the_matrix_is_positive_definite_at_every_step(device: str) -> None:
    """Cholesky succeeds for A of random states, including compressed and moving ones, with h from 1e-4 to 1/10.

    The reference without clamping fails for some of the same states, so the test is not vacuous.
    """
    model = small_model()
    tested = Bench.of(model, [Stretch(), Shear(), BendAngle()], device)
    rng = np.random.default_rng(4)
    failures = 0
    for scale in (1.0, 0.7, 0.4):
        for size in (0.05 * EDGE, 0.3 * EDGE):
            x = scale * flat(model) + perturbed(model, rng, size) - flat(model)
            v = rng.normal(size=x.shape)
            plain = Dense(x, v, model.masses, project=lambda H: H)
            for part, fabric in enumerate(FABRICS):
                k = (fabric.stretch_warp, fabric.stretch_weft)
                plain.add_stretch(sheet(model, part), k, rest_stretch_at(part, 0.0), fabric.damping)
                plain.add_shear(sheet(model, part), fabric.shear, fabric.damping)
            for h in STEPS:
                np.linalg.cholesky(tested.linearized(x, v, h)[0].dense())  # raises when A is not positive definite
                failures += np.linalg.eigvalsh(plain.A(h))[0] < 0.0
    assert failures > 0
