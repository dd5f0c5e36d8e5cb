"""The contract of a filter: it corrects the candidate of a step, after any integrator and in the order of the scene."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import warp as wp

from toile.contact.collision_mesh import Planes
from toile.device.launcher import Launcher
from toile.math.types import real, vec3
from toile.model.constraint_state import ConstraintState
from toile.model.corrections import Corrections
from toile.model.model import Model
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import Plugin

if TYPE_CHECKING:
    from toile.colliders.base import Solid
    from toile.colliders.solids import Solids
    from toile.contact.solid.solid_contacts import SolidContacts
    from toile.system.terms import ContactForce


@dataclass(frozen=True)
class FilterContext:
    """Everything that a filter uses, made once per run."""

    model: Model
    masses: wp.array
    constraints: ConstraintState
    corrections: Corrections
    solids: "Solids"
    solid_contacts: "SolidContacts | None"
    max_step: float  # [s]  the longest of the run
    # [-]  the largest strain that the filters of the scene allow threads: warp and weft of every triangle, interleaved;
    # infinite where none limits it
    extensions: np.ndarray

    def step(self, h: float) -> tuple[float, float]:
        """Start and end [s] of the present step; without solids just its length counts."""
        return self.solids.step or (0.0, h)

    @property
    def planes(self) -> Planes | None:
        """The planes that contacts with solids hold particles at in the present step."""
        return None if self.solid_contacts is None else self.solid_contacts.planes()


class Filter(Plugin):
    """Settings of a filter; `start` makes the correction."""

    resolves_cloth_contact: ClassVar[bool] = False  # it keeps cloth from passing through cloth, and untangles it
    shear_fields: ClassVar[tuple[str, ...]] = ()  # shear-spring fields; they have no effect on meshes without quads
    must_be_last: ClassVar[bool] = False  # no other filter may change the cloth after it
    limits_lengths: ClassVar[bool] = False  # it limits the lengths of threads, without regard to `rest_stretch`

    def start(self, context: FilterContext) -> "Correction":
        raise NotImplementedError

    def extensions(self, model: Model) -> np.ndarray:
        """Returns the largest strain that it allows threads: warp and weft of every triangle, interleaved; infinite
        where it has no limit."""
        return np.full(2 * model.triangle_count, np.inf)

    def advice(self, model: Model, max_step: float | None) -> list[str]:
        """Returns warnings about its settings; `max_step` is None in a scene without solids."""
        return []


class Correction:
    """Corrects candidates. It may change `state_out`, never `state`: a rejected step leaves no trace."""

    stage = "filters"  # of the certificate, where its time is counted
    limits_velocity = False  # whether it is a VelocityLimit
    limits_strain = False  # whether it shortens what the step stretched: strain is judged after it
    limits_few = False  # whether it does where few threads are stretched: the strain of these is judged after it
    contact_forces: "Sequence[ContactForce]" = ()  # forces that it adds to the linear system
    # [N]  reaction force of the constraints to its impulses in the present step, on each particle
    reaction: wp.array | None = None

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        """Corrects `state_out`. Returns why that is impossible and the step must be shorter, or None."""
        raise NotImplementedError

    def accept(self) -> None:
        """The step stands."""

    def state_dict(self) -> StateDict:
        """Returns everything that the next step needs of earlier ones (toile/model/state_dict.py)."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores what `state_dict` holds."""

    def contact_count(self) -> int:
        """Returns the number of contacts between cloths in the last step."""
        return 0

    def forces_on_solids(self) -> "list[tuple[Solid, np.ndarray]]":
        """Returns the force [N] on each solid whose faces and edges it kept cloth from in the last step."""
        return []

    def caught_by(self) -> np.ndarray | None:
        """Returns the solids that catch each particle, or None (contact/response/caught.py)."""
        return None

    def truncated_count(self) -> int:
        """Returns the number of vertices whose paths the last step shortened."""
        return 0

    def vertices_in_contact(self) -> np.ndarray:
        """Returns the particles in contact with cloth in the last step."""
        return np.zeros(0, np.int64)

    def remedy(self, trouble: str, pinned: np.ndarray) -> str | None:
        """Returns what helps against the trouble that `apply` returned last, where no step size does."""
        return None


class VelocityLimit(Correction):
    """Corrects velocities, so that positions stay within limits ([BMF03] sec. 3).

    Integrators that move positions by a velocity of their own call `limit` themselves. After any other integrator it
    acts on the mean velocity of the step, and the velocity at its end takes the same change.
    """

    limits_velocity = True
    reaction: wp.array

    def __init__(self, context: FilterContext):
        self.context = context
        n, device = len(context.masses), context.masses.device
        self._wanted, self._limited, self.reaction = (wp.zeros(n, dtype=vec3, device=device) for _ in range(3))
        self._launch = Launcher(str(device))

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        """Changes v in place so that x + h v is within limits. Held directions do not change; `reaction` is the force
        that this takes. Integrators may call it for two velocities: the last one is that at the end of the step.
        """
        raise NotImplementedError

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        n = len(state.x)
        self._launch(mean_velocity, n, [state.x, state_out.x, h, self._wanted, self._limited])
        self.limit(state.x, self._limited, h)
        corrections = self.context.corrections
        changed = [state_out.x, state_out.v, corrections.dx, corrections.dv]
        self._launch(follow, n, [self._wanted, self._limited, h, *changed])
        return None


@wp.kernel
def mean_velocity(
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), h: real,
    # out
    wanted_out: wp.array(dtype=vec3), limited_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    v = (x_end[i] - x[i]) / h
    wanted_out[i] = v
    limited_out[i] = v


@wp.kernel
def follow(
    # in
    wanted: wp.array(dtype=vec3), limited: wp.array(dtype=vec3), h: real,
    # in and out
    x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
    dx_out: wp.array(dtype=vec3), dv_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Applies the change of velocity; particles that were not limited keep their bits."""
    i = wp.tid()
    change = limited[i] - wanted[i]
    x_out[i] = x_out[i] + h * change
    v_out[i] = v_out[i] + change
    dx_out[i] = dx_out[i] + h * change
    dv_out[i] = dv_out[i] + change
