"""Contract of the damping of every energy: its matrix is -df/dv, and it dissipates in its own mode of deformation only.

The damping of a condition C is -k_d (dC/dt) dC/dx ([BW98] eq. 11), assembled as in a simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference.energies import FOUND, INTERNAL, MODEL, OF_MASS, bench, close, differences, reference, states
from reference.sheets import EDGE, flat, sheets_in_contact
from scipy.spatial.transform import Rotation


@pytest.mark.parametrize("type_name", FOUND)
def test_damping_matrix_is_the_derivative_of_the_force_by_velocity(type_name: str, device: str) -> None:
    """The matrix of damping is -df/dv.

    Forces are linear in v, or quadratic (air), for which a central difference is exact: the error is rounding,
    eps |f|/s."""
    tested = bench(device, type_name)
    x, v = states(1, seed=7)[0]
    D = tested.matrices(x, v)[1]
    assert np.abs(D - D.T).max() <= 1e-12 * np.abs(D).max()
    expected = -differences(lambda at: tested.force(x, at), v, 1e-3)
    if type_name in OF_MASS:
        assert not D.any()
    else:
        close(D, expected, 1e-9)


@pytest.mark.parametrize("type_name", FOUND)
def test_product_with_the_damping_matrix(type_name: str, device: str) -> None:
    """D u without the matrix agrees with the product of the matrix and u."""
    tested = bench(device, type_name)
    x, v, u = *sheets_in_contact(MODEL), np.random.default_rng(8).normal(size=(MODEL.particle_count, 3))
    expected = (tested.matrices(x, v)[1] @ u.ravel()).reshape(-1, 3)
    if type_name in OF_MASS:
        assert not tested.damping(x, v, u).any()
    else:
        close(tested.damping(x, v, u), expected, 1e-10)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_damping_dissipates(type_name: str, device: str) -> None:
    """The power of damping is -k_d (dC/dt)^2, summed over elements."""
    tested = bench(device, type_name)
    for x, v in states(5, seed=11):
        power = np.sum((tested.force(x, v) - tested.force(x)) * v)
        assert power < 0.0
        assert power == pytest.approx(-reference([type_name], x, v).dissipated, rel=1e-11)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_rigid_motion_is_not_damped(type_name: str, device: str) -> None:
    """No damping force for translation and rotation, relative to that for a random velocity of the same size."""
    tested = bench(device, type_name)
    rng = np.random.default_rng(12)
    for x, v in states(20, seed=12):
        rigid = rng.normal(size=3) + np.cross(rng.normal(size=3), x)
        v = v / np.abs(v).max() * np.abs(rigid).max()
        elastic = tested.force(x)
        other = np.abs(tested.force(x, v) - elastic).max()
        # The difference of two forces is rounded like the larger of them.
        assert np.abs(tested.force(x, rigid) - elastic).max() <= 1e-12 * (other + np.abs(elastic).max())


# Velocities of a flat sheet at (X, Y) that change one condition alone, and the energies that may damp them.
MODES: dict[str, tuple[tuple[str, ...], Callable[[np.ndarray, np.ndarray], tuple[Any, Any, Any]]]] = {
    "along the warp": (("stretch", "spring", "bend_buckling"), lambda X, Y: (X, 0 * X, 0 * X)),
    "along the weft": (("stretch", "spring", "bend_buckling"), lambda X, Y: (0 * X, Y, 0 * X)),
    "shearing": (("shear", "spring", "bend_buckling"), lambda X, Y: (Y, X, 0 * X)),
    "bending": (("bend_angle", "bend_mode"), lambda X, Y: (0 * X, 0 * X, X * X - 2.0 * X * Y)),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_damping_acts_on_its_own_mode_only(mode: str, device: str) -> None:
    """Stretching, shearing and bending a flat sheet dissipate in their own energy, and nowhere else."""
    own, velocity = MODES[mode]
    x = flat(MODEL)
    v = np.stack(velocity(x[:, 0], x[:, 1]), axis=1) / EDGE
    turn = Rotation.from_rotvec([0.3, -0.8, 0.5]).as_matrix()
    x, v = x @ turn.T, v @ turn.T
    noise = np.random.default_rng(13).normal(size=v.shape)
    noise *= np.linalg.norm(v) / np.linalg.norm(noise)
    for type_name in INTERNAL:
        tested = bench(device, type_name)
        elastic = tested.force(x)
        power, typical = (-np.sum((tested.force(x, at) - elastic) * at) for at in (v, noise))
        if type_name in own:
            assert power > 1e-3 * typical
        else:  # dC/dt is rounding, and enters squared; the elastic force is subtracted
            rounding = 1e-14 * np.linalg.norm(elastic) * np.linalg.norm(v)
            assert abs(power) <= 1e-12 * typical + rounding
