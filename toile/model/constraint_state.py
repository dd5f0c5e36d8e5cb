"""The constraints of a step as kernels see them: free directions S, and the held parts of positions and velocities.

    x = S x + x_held,    v = S v + v_held    for every particle

The constraints of a scene fill the arrays that end in `_user` (toile/constraints/scene_constraints.py). Contacts with
solids hold more of what those leave free, and write the result to S, x_held and v_held (toile/contact/solid).

Source      [BW98] eq. (13)
Symbols     S  free directions: I - p p^T for a held direction p     x_held [m], v_held [m/s]  targets of the held ones
Deviations  none
"""

import warp as wp

from toile.math.types import mat33, real, vec3


@wp.struct
class ConstraintState:
    """One entry per particle."""

    S: wp.array(dtype=mat33)
    x_held: wp.array(dtype=vec3)
    v_held: wp.array(dtype=vec3)
    S_user: wp.array(dtype=mat33)
    x_user: wp.array(dtype=vec3)
    v_user: wp.array(dtype=vec3)


@wp.func
def is_held(S: mat33) -> bool:
    """Returns whether any direction is held."""
    return wp.trace(S) < real(2.5)


def make_constraint_state(particle_count: int, device: str, with_contacts: bool) -> ConstraintState:
    """Allocates the arrays; without contacts the scene's constraints are all there is, and both names share arrays."""
    state = ConstraintState()
    types = {"S": mat33, "x": vec3, "v": vec3}
    user = {name: wp.zeros(particle_count, dtype=kind, device=device) for name, kind in types.items()}
    held = user
    if with_contacts:
        held = {name: wp.zeros(particle_count, dtype=kind, device=device) for name, kind in types.items()}
    state.S, state.x_held, state.v_held = held["S"], held["x"], held["v"]
    state.S_user, state.x_user, state.v_user = user["S"], user["x"], user["v"]
    return state
