"""Random contacts between particles, as arrays for the kernels and as dense matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp
from scipy.optimize import nnls

from toile.contact.collision_mesh import Planes
from toile.contact.narrow_phase.contact_set import CONTACT_FIELDS, ContactArrays, make_impulses
from toile.contact.response.impulses import SWEEP, AcceleratedJacobi, make_response
from toile.contact.solid.added_planes import make_added_planes
from toile.math.types import mat33, real, vec3


@dataclass
class Problem:
    """Contacts of four vertices each, with weights that sum to zero."""

    vertices: np.ndarray  # (contacts, 4)
    weights: np.ndarray  # (contacts, 4)
    normals: np.ndarray  # (contacts, 3)
    targets: np.ndarray  # [m]
    mu: np.ndarray
    inverse_mass: np.ndarray  # (n, 3, 3)  [1/kg]
    d: np.ndarray  # (n, 3)  displacements before [m]

    def relative(self, d: np.ndarray) -> np.ndarray:
        """Relative displacement of the closest points of each contact."""
        return np.einsum("ta,tai->ti", self.weights, d[self.vertices])

    def along(self, d: np.ndarray) -> np.ndarray:
        return np.einsum("ti,ti->t", self.normals, self.relative(d))

    def displacements(self, impulses: np.ndarray) -> np.ndarray:
        """Displacements after an impulse at each contact."""
        d = self.d.copy()
        for t, vertices in enumerate(self.vertices):
            for a, i in enumerate(vertices):
                d[i] += self.weights[t, a] * self.inverse_mass[i] @ impulses[t]
        return d

    def best_impulses(self) -> np.ndarray:
        """Normal impulses p >= 0 without friction that minimize p A p / 2 - p b, with A = J W J^T and b = target - J
        d."""
        J = np.zeros((len(self.targets), self.d.size))
        for t, vertices in enumerate(self.vertices):
            for a, i in enumerate(vertices):
                J[t, 3 * i : 3 * i + 3] += self.weights[t, a] * self.normals[t]
        root = np.zeros((self.d.size, self.d.size))
        for i, inverse_mass in enumerate(self.inverse_mass):
            values, vectors = np.linalg.eigh(inverse_mass)
            root[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        B = root @ J.T
        # |B p - c|^2 / 2 differs from it by a constant if B^T c = b.
        c = np.linalg.lstsq(B.T, self.targets - J @ self.d.ravel(), rcond=None)[0]
        return np.asarray(nnls(B, c)[0])

    def effective_inverse_masses(self) -> np.ndarray:
        """Effective inverse mass of each contact along its normal."""
        of_each = np.einsum("ti,taij,tj->ta", self.normals, self.inverse_mass[self.vertices], self.normals)
        return np.asarray((self.weights**2 * of_each).sum(axis=1))

    def contacts(self, device: str) -> ContactArrays:
        contacts, count = ContactArrays(), len(self.targets)
        given = {"vertices": self.vertices, "weights": self.weights, "normal": self.normals, "target": self.targets,
                 "mu": self.mu, "effective_inverse_mass": self.effective_inverse_masses()}  # fmt: skip
        for name, kind in CONTACT_FIELDS.items():
            array = wp.zeros(count, dtype=kind, device=device)
            if name in given:
                array.assign(given[name])
            setattr(contacts, name, array)
        return contacts


def random_problem(seed: int, count: int, particles: int, mu: float = 0.0, held: bool = False) -> Problem:
    """Vertex-triangle and edge-edge contacts; with `held`, some particles can move in some directions only."""
    rng = np.random.default_rng(seed)
    vertices = np.array([rng.choice(particles, 4, replace=False) for _ in range(count)], np.int32)
    s, t = rng.uniform(0.1, 0.45, (2, count))
    one = np.ones(count)
    corners = np.stack([one, s + t - 1.0, -s, -t], axis=1)
    edges = np.stack([1.0 - s, s, t - 1.0, -t], axis=1)
    weights = np.where(np.arange(count)[:, None] % 2 == 0, corners, edges)
    normals = rng.normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    inverse_mass = np.eye(3) / rng.uniform(0.5, 5.0, particles)[:, None, None]
    if held:
        n = np.array([2.0, -1.0, 2.0]) / 3.0
        inverse_mass[::3] = (np.eye(3) - np.outer(n, n)) @ inverse_mass[::3]
        inverse_mass[1::5] = 0.0
    targets, d = rng.normal(scale=0.3, size=count), rng.normal(scale=0.3, size=(particles, 3))
    return Problem(vertices, weights, normals, targets, np.full(count, mu), inverse_mass, d)


@dataclass
class Relaxed:
    normal_impulse: np.ndarray
    friction_impulse: np.ndarray
    d: np.ndarray
    sweeps: int


@dataclass
class GivenContacts:
    """The part of a ContactSet that the solver reads."""

    contacts: ContactArrays
    count: wp.array
    contact_count: int


def relaxed(
    problem: Problem, device: str, sweeps: int = 20000, tolerance: float = 1e-15, planes: tuple | None = None,
    for_velocities: bool = False,
) -> Relaxed:  # fmt: skip
    """The result of the kernels; planes are (count, normal, clearance) of the particles."""

    def array(values: np.ndarray, kind: type) -> wp.array:
        return wp.array(values, dtype=kind, device=device)

    count, normal, clearance = planes or (np.zeros(0, np.int32), np.zeros((0, 3)), np.zeros(0))
    contacts, d, inverse_mass = problem.contacts(device), array(problem.d, vec3), array(problem.inverse_mass, mat33)
    number = len(problem.targets)
    given = GivenContacts(contacts, array(np.array([number], np.int32), wp.int32), number)
    nobody = array(np.full((len(count), 4), -1), wp.vec4i), array(np.full(3 * len(count), -1), wp.int32)
    solids = Planes(array(count, wp.int32), array(normal, vec3), array(np.zeros(len(count)), real), *nobody)
    none = make_added_planes(0, device)
    response = make_response(inverse_mass, solids, array(clearance, real), none, none.least_d)
    solver = AcceleratedJacobi(len(problem.d), device)
    impulses = make_impulses(contacts.normal_impulse, contacts.friction_impulse)
    solver.solve(given, response, for_velocities, tolerance, sweeps, impulses, d)  # type: ignore[arg-type]
    done = int(solver.control.numpy()[int(SWEEP)])
    return Relaxed(contacts.normal_impulse.numpy(), contacts.friction_impulse.numpy(), d.numpy(), done)
