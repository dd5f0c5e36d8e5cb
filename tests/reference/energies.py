"""Every energy on two small sheets: its settings, and its energy, force and matrices in NumPy.

The contract tests compare each energy that the loader finds with its counterpart here. A new energy needs an entry in
SETTINGS and a branch in `add_reference`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from reference.dense import Dense
from reference.sheets import FABRICS, Bench, perturbed, rest_stretch_at, sheet, sheets_in_contact, small_model
from reference.springs import Spring, springs
from toile import plugins
from toile.energies.base import Energy
from toile.model.model import Model
from toile.model.springs import springs_of

MODEL = small_model()

# Settings of an energy besides its defaults. An energy that is missing here fails `test_every_energy_is_tested`.
SETTINGS: dict[str, dict[str, Any]] = {
    "stretch": {},
    "shear": {},
    "bend_angle": {},
    "bend_mode": {},
    "bend_buckling": {"rigidity_warp": 3e-3, "rigidity_weft": 2e-3, "stiffness": 700.0},
    "spring": {"structural": 800.0, "shear": 300.0, "flexion": 50.0, "damping": 0.015},
    "viscous": {"rate": 1.7},
    "gravity": {"acceleration": (1.0, -2.0, -9.81)},
    "drag": {"linear": 0.7, "quadratic": 1.3},
    "wind": {"velocity": (2.0, -1.0, 3.0), "linear": 0.4, "quadratic": 0.6},
    "wind_particle": {"velocity": (2.0, -1.0, 3.0), "linear": 0.4},
    "pull": {"cloth": "disc", "triangle": 5, "weights": (0.5, 0.3, 0.2), "target": (0.1, 0.2, 0.5)},
    "push": {"acceleration": (-3.0, 1.0, 19.62)},
    "penalty": {"thickness": 0.04, "stiffness": 2e4, "damping": 0.01, "friction": 0.4, "slip_speed": 0.5},
}
FOUND = plugins.names("energies")
KNOWN = [type_name for type_name in FOUND if type_name in SETTINGS]
INTERNAL = [type_name for type_name in KNOWN if plugins.find("energies", type_name).scope == "cloth"]  # type: ignore[attr-defined]
OF_AIR = ("drag", "wind")
WITHOUT_POTENTIAL = (*OF_AIR, "viscous", "wind_particle")
OF_COMPRESSION = ("bend_buckling",)  # zero where cloth is stretched
OF_MASS = ("gravity", "push")  # the force depends on neither position nor velocity
STORED = [type_name for type_name in KNOWN if type_name not in WITHOUT_POTENTIAL]


def make(type_name: str) -> Energy:
    energy = plugins.find("energies", type_name)(**SETTINGS[type_name])
    assert isinstance(energy, Energy)
    return energy


def bench(device: str, *type_names: str, time: float = 0.0) -> Bench:
    return Bench.of(MODEL, [make(type_name) for type_name in type_names], device, time)


@cache
def springs_of_model() -> list[Spring]:
    return springs(MODEL, *sheets_in_contact(MODEL), **SETTINGS["penalty"])


def threads(model: Model, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of particles two apart along the threads of the grid, or across an edge of the disc: with their distance in
    uv, their area, and the warp share of their direction."""
    of, uv = sheet(model, part), np.zeros((model.particle_count, 2))
    uv[of.triangles] = of.uv
    if part == 1:
        hinges = of.hinges()
        ends = np.array([points[:2] for points, _, _ in hinges])
        warp = np.array([edge[1] ** 2 / (edge @ edge) for _, edge, _ in hinges])
        area = np.array([8.0 / 9.0 * area for _, _, area in hinges])
        return ends, np.linalg.norm(uv[ends[:, 0]] - uv[ends[:, 1]], axis=1), area, warp
    number = np.arange(16).reshape(4, 4)
    lines = np.array([line[k : k + 3] for line in (*number, *number.T) for k in (0, 1)])
    d = np.diff(uv[lines], axis=1)
    squares = np.sum(d**2, axis=2)
    area = np.zeros(model.particle_count)
    for corners, flat_corners in zip(of.triangles, of.uv, strict=True):
        area[corners] += abs(np.linalg.det(np.diff(flat_corners, axis=0))) / 6.0
    return lines[:, [0, 2]], np.sqrt(squares).sum(axis=1), area[lines[:, 1]], (d[:, :, 0] ** 2 / squares).mean(axis=1)


def add_reference(dense: Dense, type_name: str, model: Model, time: float) -> None:
    """Adds an energy in NumPy."""
    settings = SETTINGS[type_name]
    for part, fabric in enumerate(FABRICS):
        k = (fabric.stretch_warp, fabric.stretch_weft)
        if type_name == "stretch":
            dense.add_stretch(sheet(model, part), k, rest_stretch_at(part, time), fabric.damping)
        elif type_name == "shear":
            dense.add_shear(sheet(model, part), fabric.shear, fabric.damping)
        elif type_name == "bend_angle":
            dense.add_bend(sheet(model, part), fabric.bend_warp, fabric.bend_weft, fabric.damping)
        elif type_name == "bend_mode":
            dense.add_bend_mode(sheet(model, part), fabric.bend_warp, fabric.bend_weft, fabric.damping)
        elif type_name == "spring":
            of_kind = np.array([settings[kind] for kind in ("structural", "shear", "flexion")])
            pairs = springs_of(model.parts[part])
            dense.add_lines(pairs.particles, pairs.lengths, of_kind[pairs.kind], settings["damping"])
        elif type_name == "bend_buckling":
            ends, L, area, warp = threads(model, part)
            D = settings["rigidity_warp"] * warp + settings["rigidity_weft"] * (1.0 - warp)
            dense.add_buckling(ends, L, 4.0 / 3.0 * D * area / L, settings["stiffness"] * area / L**2, fabric.damping)
    if type_name in OF_MASS:
        dense.add_gravity(np.array(settings["acceleration"]))
    elif type_name == "viscous":
        dense.add_viscous(settings["rate"])
    elif type_name == "wind_particle":
        dense.add_air_at_particles(model.triangles, model.areas, np.array(settings["velocity"]), settings["linear"])
    elif type_name in OF_AIR:
        u = np.array(settings.get("velocity", (0.0, 0.0, 0.0)))
        dense.add_air(model.triangles, u, settings["linear"], settings["quadratic"])
    elif type_name == "penalty":
        dense.add_springs(springs_of_model())
    elif type_name == "pull":
        corners = model.triangles[model.parts[1].triangles][5]
        weights, target = np.array(settings["weights"]), np.array(settings["target"])
        dense.add_pull(corners, weights, target, np.zeros(3), 50.0, 0.5)


def reference(type_names: list[str], x: np.ndarray, v: np.ndarray, time: float = 0.0) -> Dense:
    dense = Dense(x, v, MODEL.masses)
    for type_name in type_names:
        add_reference(dense, type_name, MODEL, time)
    return dense


def states(count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random (x, v): positions perturbed by up to 30 % of an edge, velocities of meters per second."""
    rng = np.random.default_rng(seed)
    return [(perturbed(MODEL, rng), rng.normal(size=(MODEL.particle_count, 3))) for _ in range(count)]


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Asserts that arrays are equal relative to the largest entry."""
    scale = np.abs(expected).max()
    assert scale > 0.0, "the state does not excite what is compared"
    assert np.abs(found - expected).max() <= tolerance * scale


def differences(force: Callable[[np.ndarray], np.ndarray], at: np.ndarray, step: float) -> np.ndarray:
    """The matrix of derivatives of a force, column by column, by central differences."""
    columns = []
    for place in np.ndindex(*at.shape):
        offset = np.zeros_like(at)
        offset[place] = step
        columns.append((force(at + offset) - force(at - offset)).ravel() / (2.0 * step))
    return np.array(columns).T
