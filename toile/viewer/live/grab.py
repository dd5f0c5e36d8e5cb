"""The spring by which the mouse drags cloth: a `pull` whose point and target change while the simulation runs.

Source      [BW98] sec. 4.4
Deviations  the stiffness is limited to a value at which an explicit step is stable
"""

from typing import Any, ClassVar

import numpy as np
from pydantic import PrivateAttr

from toile.energies.base import Elements, Energy, Formulas, Scope
from toile.energies.pull import Pull, PullTarget
from toile.math.types import real, vec3
from toile.model.model import Model
from toile.simulation.simulation import Simulation

# Strong enough to lift any fabric, weak enough not to distort a single triangle.
STIFFNESS = 100.0  # [N/m]
DAMPING_TIME = 0.01  # [s]

# An explicit step h is stable on a spring below 4 m / h^2; other springs act on the particle as well.
SHARE_OF_LIMIT = 0.1


class Grab(Energy):
    """The mouse spring. It holds nothing until `take`. `follow` may be called from any thread."""

    scope: ClassVar[Scope] = "scene"
    changes_in_time: ClassVar[bool] = True
    formulas: ClassVar[Formulas] = Pull.formulas

    _corners: np.ndarray = PrivateAttr(default_factory=lambda: np.zeros(3, np.int32))
    _weights: np.ndarray = PrivateAttr(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    _target: tuple[float, ...] | None = PrivateAttr(default=None)

    @classmethod
    def type_name(cls) -> str:
        return Pull.type_name()  # it shares the kernels of Pull

    @property
    def holds(self) -> bool:
        return self._target is not None

    def take(self, simulation: Simulation, corners: np.ndarray, weights: np.ndarray, target: np.ndarray) -> None:
        """Grips the point of a triangle with these barycentric weights; only allowed between two steps."""
        self._corners, self._weights = np.asarray(corners, np.int32), np.asarray(weights, float)
        if not simulation.system.A.couples(self._corners):  # no energy couples the corners: one of them is gripped
            self._corners = np.repeat(self._corners[np.argmax(self._weights)], 3)
        stiffness = STIFFNESS
        if not simulation.scene.integrator.stable_at_any_step:
            mass = float(self._weights @ simulation.model.masses[self._corners])
            stiffness = min(stiffness, SHARE_OF_LIMIT * mass / simulation.control.max_step**2)
        simulation.system.put(self, self._elements(self._corners, self._weights, stiffness))
        self.follow(target)

    def follow(self, target: np.ndarray) -> None:
        """Moves the target."""
        self._target = tuple(float(c) for c in target)

    def let_go(self) -> None:
        self._target = None

    def point(self, positions: np.ndarray) -> np.ndarray:
        """Returns the gripped point."""
        return self._weights @ positions[self._corners]

    @property
    def target(self) -> tuple[float, ...] | None:
        return self._target

    def elements(self, model: Model, part: int | None) -> Elements:
        # Not at the last grip, which was in another simulation that may have had more particles.
        return self._elements(np.zeros(3, np.int32), np.array([1.0, 0.0, 0.0]), 0.0)

    def _elements(self, corners: np.ndarray, weights: np.ndarray, stiffness: float) -> Elements:
        rest: Any = np.zeros(1, self.formulas.Rest.numpy_dtype())
        rest["weights"], rest["k"], rest["d"] = weights, stiffness, DAMPING_TIME * stiffness
        return Elements(corners[None], rest)

    def uniform_at(self, time: float, seed: int) -> Any:
        target = PullTarget()
        target.active = real(0.0 if self._target is None else 1.0)
        target.position = vec3(*(self._target or (0.0, 0.0, 0.0)))
        return target
