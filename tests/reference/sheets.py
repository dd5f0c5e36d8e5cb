"""Small irregular sheets for the tests of forces and matrices, and states of them.

There are two cloths in one model, so that the numbering of the second is tested as well: a grid whose vertices are
perturbed in the plane, and a disc. They differ in fabric, position and rest stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

from reference.dense import Sheet
from toile.energies.base import Energy
from toile.linear.block_matrix import BlockMatrix
from toile.math.types import vec3
from toile.model.mesh import Mesh
from toile.model.model import Model, build_model
from toile.scene.schema import Fabric, RestStretch
from toile.shapes.disc import Disc
from toile.shapes.grid import Grid
from toile.system.system import System
from toile.system.terms import Linearization, make_term

EDGE = 0.1  # [m]  typical length of an edge

FABRICS = (
    Fabric(
        density=0.21, stretch_warp=900.0, stretch_weft=600.0, shear=40.0, bend_warp=3e-4, bend_weft=1e-4, damping=0.02
    ),
    Fabric(
        density=0.13, stretch_warp=500.0, stretch_weft=700.0, shear=90.0, bend_warp=1e-4, bend_weft=2e-4, damping=0.01
    ),
)
REST_STRETCH = ((RestStretch(warp=((0.0, 1.0), (1.0, 1.2)), weft=0.97),), ())


def rest_stretch_at(part: int, time: float) -> tuple[float, float]:
    """b_u and b_v of a cloth, evaluated from REST_STRETCH."""
    return (1.0 + 0.2 * time, 0.97) if part == 0 else (1.0, 1.0)


def jittered_grid(columns: int, rows: int, seed: int = 3) -> Mesh:
    """A grid whose vertices are perturbed in the plane by up to 15 % of an edge, so that no two triangles are alike."""
    size = ((columns - 1) * EDGE, (rows - 1) * EDGE)
    flat = Grid(size=size, resolution=(columns, rows)).mesh(Path())
    plane = flat.positions[:, :2] + np.random.default_rng(seed).uniform(-0.15 * EDGE, 0.15 * EDGE, (columns * rows, 2))
    return replace(flat, positions=np.column_stack([plane, np.zeros(len(plane))]), uv=plane[flat.triangles])


def small_model() -> Model:
    """35 particles: a grid of 4 by 4 and a disc of two rings."""
    meshes = [jittered_grid(4, 4), Disc(radius=2.0 * EDGE, rings=2).mesh(Path())]
    return build_model(["grid", "disc"], meshes, FABRICS, REST_STRETCH)


def sheet(model: Model, part: int) -> Sheet:
    triangles = model.parts[part].triangles
    return Sheet(model.triangles[triangles], model.uv[triangles], model.particle_count)


def flat(model: Model, u: float = 1.0, v: float = 1.0) -> np.ndarray:
    """Positions of both cloths in the plane, stretched uniformly by u and v."""
    x = np.concatenate([part.mesh.positions for part in model.parts])
    return x * np.array([u, v, 1.0])


def perturbed(model: Model, rng: np.random.Generator, size: float = 0.3 * EDGE) -> np.ndarray:
    """Positions with random displacements of up to `size` in every coordinate."""
    x = flat(model)
    return x + rng.uniform(-size, size, x.shape)


def sheets_in_contact(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Positions in which cloths are in contact, and velocities."""
    rng = np.random.default_rng(20)
    return perturbed(model, rng), rng.normal(size=(model.particle_count, 3))


def turned(x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x after a random rigid motion, and the rotation."""
    R = Rotation.random(random_state=rng).as_matrix()
    return x @ R.T + rng.uniform(-1.0, 1.0, 3), R


@dataclass
class Bench:
    """Energies of a model, evaluated with NumPy arrays."""

    system: System

    @staticmethod
    def of(model: Model, energies: Sequence[Energy], device: str, time: float = 0.0, seed: int = 0) -> Bench:
        """Adds each energy of scope "cloth" to every cloth, the others once. Contacts are detected for the state of
        `sheets_in_contact` and are the same for all evaluations, as they are within a step."""
        terms = []
        for energy in energies:
            parts: list[int | None] = list(range(len(model.parts))) if energy.scope == "cloth" else [None]
            terms += [make_term(energy, model, part, device, seed) for part in parts]
        system = System(model, terms, device)
        system.move(time)
        bench = Bench(system)
        x, v = sheets_in_contact(model)
        system.detect_contacts(bench.array(x), bench.array(v), 0.0)
        return bench

    def array(self, values: np.ndarray) -> Any:
        return wp.array(values, dtype=vec3, device=self.system.device)

    def energy(self, x: np.ndarray) -> float:
        at_rest = self.array(np.zeros_like(x))
        return sum(self.system.energies(self.array(x), at_rest).values())

    def force(self, x: np.ndarray, v: np.ndarray | None = None) -> np.ndarray:
        v = np.zeros_like(x) if v is None else v
        return self.system.forces(self.array(x), self.array(v)).numpy().astype(float)

    def damping(self, x: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """D u."""
        y = self.array(np.zeros_like(x))
        self.system.damping(self.array(x), self.array(v), self.array(u), y)
        return y.numpy().astype(float)

    def linearized(
        self,
        x: np.ndarray,
        v: np.ndarray,
        h: float,
        v_at: np.ndarray | None = None,
        x_tension: np.ndarray | None = None,
    ) -> tuple[BlockMatrix, np.ndarray]:
        """A, and the force at v_at."""
        at = Linearization(
            self.array(x),
            self.array(x if x_tension is None else x_tension),
            self.array(v),
            self.array(v if v_at is None else v_at),
            h,
        )
        A, f = self.system.linearize(at)
        return A, f.numpy().astype(float)

    def matrices(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """M, D and K of A(h) = M + h D + h^2 K; A(1) and A(-1) separate the odd part from the even one."""
        forward = self.linearized(x, v, 1.0)[0].dense()
        backward = self.linearized(x, v, -1.0)[0].dense()
        M = np.diag(np.repeat(self.system.model.masses, 3))
        return M, 0.5 * (forward - backward), 0.5 * (forward + backward) - M
