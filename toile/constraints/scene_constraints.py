"""The constraints that a scene lists, turned into the arrays of ConstraintState at every step.

Several constraints on one particle leave the directions that none of them holds: each adds what earlier ones left free.

Source      [BW98] secs. 2.4, 5.1, eq. (13)
Deviations  none
"""

import numpy as np
import warp as wp

from toile.constraints.base import Constraint, Hold
from toile.math.types import identity, mat33, numpy_real, vec3
from toile.model.constraint_state import make_constraint_state
from toile.model.state_dict import StateDict, joined

# Held directions of two constraints closer to parallel than this count as one [sine of the angle].
PARALLEL = 1e-6


class SceneConstraints:
    """The constraints of a scene on its particles; `state` is what kernels read."""

    def __init__(
        self,
        constraints: list[tuple[Constraint, np.ndarray]],
        particle_count: int,
        device: str,
        with_contacts: bool = False,
    ):
        """`constraints` come with the particles they hold, numbered in the whole model. `with_contacts` reserves arrays
        of their own for what contacts hold besides.
        """
        self.constraints, self.device = constraints, device
        self.state = make_constraint_state(particle_count, device, with_contacts)
        self.particles = np.zeros(0, np.int32)  # held in any direction
        self._anchors: dict[int, np.ndarray] = {}
        self._active: list[int] | None = None

    def move(self, begin: float, time: float, x: wp.array) -> bool:
        """Fills `state` for the end of a step; constraints that begin hold particles where they are in x.

        Returns whether a constraint began or ended.
        """
        active = [k for k, (constraint, _) in enumerate(self.constraints) if constraint.active(begin)]
        changed = active != self._active
        if not changed and all(self.constraints[k][0].motion is None for k in active):
            return False
        # Where the particles were when their constraint began; forgotten when it ends.
        now = x.numpy().astype(float)
        self._anchors = {k: self._anchors.get(k, now[self.constraints[k][1]]) for k in active}
        self._active = active
        self._fill([(self.constraints[k][1], self.constraints[k][0].hold(self._anchors[k], time)) for k in active])
        return changed

    def take_over(self, other: "SceneConstraints", time: float, x: np.ndarray) -> None:
        """Continues from another scene's constraints: a constraint that both have keeps what it held, and a new one
        holds particles where they are in x, on their way along its motion.
        """
        self._active = None
        self._anchors = {}
        for k, (constraint, particles) in enumerate(self.constraints):
            if constraint.active(time):
                self._anchors[k] = constraint.anchors(x[particles], time)
                for j, anchors in other._anchors.items():
                    same, of = other.constraints[j]
                    if same == constraint and np.array_equal(of, particles):
                        self._anchors[k] = anchors

    def state_dict(self) -> StateDict:
        """Where particles were when their constraints began; nothing before the first step."""
        if self._active is None:
            return {}
        anchors = {str(k): positions for k, positions in self._anchors.items()}
        return {"active": np.array(self._active, np.int64), **joined({"anchors": anchors})}

    def load_state_dict(self, state_dict: StateDict) -> None:
        if "active" not in state_dict:
            return
        self._active = np.asarray(state_dict["active"]).tolist()
        self._anchors = {k: np.asarray(state_dict[f"anchors.{k}"]) for k in self._active}
        held = [(*self.constraints[k], self._anchors[k]) for k in self._active]
        # Those that move are held anew by the next step; others are the same at any time.
        self._fill([(particles, constraint.hold(anchors, constraint.start)) for constraint, particles, anchors in held])

    def _fill(self, holds: list[tuple[np.ndarray, Hold]]) -> None:
        user = [self.state.S_user, self.state.x_user, self.state.v_user]
        wp.launch(free_all, len(self.state.S), user, device=self.device)
        self.particles = np.unique(np.concatenate([np.zeros(0, np.int32), *(particles for particles, _ in holds)]))
        if not len(self.particles):
            return
        count = len(self.particles)
        S, x_held, v_held = np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3)), np.zeros((count, 3))
        for particles, hold in holds:
            at = np.searchsorted(self.particles, particles)
            for d in range(hold.directions.shape[1]):
                # Only what earlier constraints left free: Gram-Schmidt, one direction at a time.
                free = np.einsum("pij,pj->pi", S[at], hold.directions[:, d])
                length = np.linalg.norm(free, axis=1)
                new = length > PARALLEL
                p = np.where(new[:, None], free / np.where(new, length, 1.0)[:, None], 0.0)
                scale = np.where(new, 1.0 / np.where(new, length, 1.0), 0.0)
                remaining = hold.offsets[:, d] - np.einsum("pi,pi->p", hold.directions[:, d], x_held[at])
                x_held[at] += p * (scale * remaining)[:, None]
                remaining = hold.speeds[:, d] - np.einsum("pi,pi->p", hold.directions[:, d], v_held[at])
                v_held[at] += p * (scale * remaining)[:, None]
                S[at] -= np.einsum("pi,pj->pij", p, p)
        # A fully held particle has S = 0 exactly, not a remainder of rounding.
        S[np.einsum("pii->p", S) < 0.5] = 0.0
        indices = wp.array(self.particles, dtype=wp.int32, device=self.device)
        types = ((S, mat33), (x_held, vec3), (v_held, vec3))
        arrays = [wp.array(values.astype(numpy_real), dtype=kind, device=self.device) for values, kind in types]
        wp.launch(hold_some, count, [indices, *arrays, *user], device=self.device)


@wp.kernel
def free_all(S_out: wp.array(dtype=mat33), x_held_out: wp.array(dtype=vec3), v_held_out: wp.array(dtype=vec3)):
    i = wp.tid()
    S_out[i] = identity()
    x_held_out[i] = vec3()
    v_held_out[i] = vec3()


@wp.kernel
def hold_some(
    # in
    particles: wp.array(dtype=wp.int32), S: wp.array(dtype=mat33),
    x_held: wp.array(dtype=vec3), v_held: wp.array(dtype=vec3),
    # out
    S_out: wp.array(dtype=mat33), x_held_out: wp.array(dtype=vec3), v_held_out: wp.array(dtype=vec3),
):  # fmt: skip
    k = wp.tid()
    i = particles[k]
    S_out[i] = S[k]
    x_held_out[i] = x_held[k]
    v_held_out[i] = v_held[k]
