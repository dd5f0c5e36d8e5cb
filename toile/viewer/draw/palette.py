"""Colors of the viewer's pages."""

from __future__ import annotations

import numpy as np

Color = tuple[int, int, int]

CLOTHS: tuple[Color, ...] = ((196, 86, 74), (72, 120, 168), (212, 164, 72), (104, 150, 104), (140, 104, 160))
SOLID: Color = (150, 146, 140)
PIN: Color = (30, 30, 30)
PULL: Color = (20, 150, 60)
MARK: Color = (240, 190, 0)
BACKGROUND: Color = (236, 238, 241)

# Triangles that are in contact with nothing, a solid, cloth, both
CONTACT_COLORS: tuple[Color, ...] = ((205, 205, 200), (214, 96, 40), (52, 110, 190), (120, 40, 130))

# Lines of charts, in turn, and the marks of flagged frames in them
SERIES = ("#4878a8", "#c4564a", "#689668", "#d4a448", "#8c68a0", "#50a0a0", "#8a7460", "#b06a90")
FLAGGED = "#e02020"

# Number of colors of the scale. It is odd, so that rest, in the middle, has one color and does not flicker between two.
BINS = 13
_STOPS = (
    (0.0, (59, 76, 192)),
    (0.25, (141, 176, 254)),
    (0.5, (221, 221, 221)),
    (0.75, (244, 152, 122)),
    (1.0, (180, 4, 38)),
)


def _scale(at: float) -> Color:
    stops = [stop for stop, _ in _STOPS]
    r, g, b = (round(float(np.interp(at, stops, [color[i] for _, color in _STOPS]))) for i in range(3))
    return r, g, b


# Colors of strain, from shortened, blue, over rest to stretched, red
SCALE = [_scale((number + 0.5) / BINS) for number in range(BINS)]
