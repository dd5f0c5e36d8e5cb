"""Colours of the viewer."""

from __future__ import annotations

import numpy as np

CLOTHS = ((196, 86, 74), (72, 120, 168), (212, 164, 72), (104, 150, 104), (140, 104, 160))
SOLID = (150, 146, 140)
PIN = (30, 30, 30)
PULL = (20, 150, 60)

BINS = 12
_STOPS = (
    (0.0, (59, 76, 192)),
    (0.25, (141, 176, 254)),
    (0.5, (221, 221, 221)),
    (0.75, (244, 152, 122)),
    (1.0, (180, 4, 38)),
)


def _scale(at: float) -> tuple[int, int, int]:
    places, colours = zip(*_STOPS, strict=True)
    r, g, b = (round(float(np.interp(at, places, channel))) for channel in zip(*colours, strict=True))
    return r, g, b


# From nothing, blue, to most, red.
SCALE = [_scale((number + 0.5) / BINS) for number in range(BINS)]
