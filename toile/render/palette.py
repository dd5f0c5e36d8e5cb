"""Colors of cloths and solids, in pictures and in formats that hold materials."""

from __future__ import annotations

# Judgments of taste, as sRGB: front and back of the cloths in turn
CLOTH_COLORS = (
    ("#3a6ea5", "#e6c79c"),
    ("#b4493a", "#ead8c3"),
    ("#4f8a5b", "#ddd3a4"),
    ("#c98f2e", "#c3d3dc"),
    ("#70599c", "#e4d0e2"),
    ("#3e8f8d", "#f0cbb2"),
)
SOLID = (0.32, 0.305, 0.285)  # linear
ROUGHNESS = 0.9  # of every material


def cloth_color(number: int) -> tuple[float, ...]:
    """Returns the linear color of the front of the cloth with this number."""
    return linear(CLOTH_COLORS[number % len(CLOTH_COLORS)][0])


def linear(color: str) -> tuple[float, ...]:
    """Returns linear red, green and blue of an sRGB color such as #3a6ea5."""
    values = [int(color[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    return tuple(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
