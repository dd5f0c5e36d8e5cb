"""Contact with solids as constraints: a particle that reaches a solid is held there, sticks or slides, and is released.

    near a solid -> held at `thickness` in front of it     locked: tangential force at most mu times the normal force
    sliding: friction mu times the normal force, against the motion     released: when the force would pull

A step begins with the contacts that its velocities lead to. After the solve each state is compared with the force it
needed and each free particle with the solids; where they disagree, the same linear system is solved again with the
corrected constraints, a few times. Particles that are still inside a solid are then projected onto its surface.

Source      [BW98] secs. 2.1, 5.4, 6.1, 6.2
Deviations  those of toile/contact/solid/solid_contacts.py, which does all of this
"""

from typing import ClassVar

from toile.plugins import Plugin, quantity


class SolidContact(Plugin):
    """Cloth on solids; it is there by default when a scene has solids."""

    needs_solids: ClassVar[bool] = True
    keeps_out_of_solids: ClassVar[bool] = True
    at_most_one: ClassVar[bool] = True

    thickness: float = quantity(1e-3, unit="m", doc="distance at which cloth is held in front of a solid", gt=0)
    max_recovery: float = quantity(
        0.02, unit="m", doc="how far a step of max_step moves cloth that is inside a solid; a shorter one, less", gt=0
    )
    deepest_start: float = quantity(
        0.1, unit="m", doc="cloth that starts deeper than this inside a solid is an error", ge=0
    )

    def recovery(self) -> str:
        """Describes how cloth comes out of a solid, for a message."""
        return f"They are pushed out, {self.max_recovery:g} m in a step of max_step."
