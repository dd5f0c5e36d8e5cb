"""Resistance of still air to motion along the normal of each triangle.

Source      [BW98] sec. 4.4; the formula is in toile/math/air.py
Symbols     linear  c [N s/m^3]     quadratic  q [kg/m^3]; q = air density is a flat plate with drag coefficient 2
Deviations  none beyond those of toile/math/air.py
"""

from toile.energies._air import AirForce


class Drag(AirForce):
    """Drag of still air; `wind` includes it, so a scene has one or the other."""
