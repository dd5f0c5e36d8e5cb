"""Color modes of the cloth: by cloth, fabric, strain or contact, each with a legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toile.model.frame import Surface
from toile.viewer.draw.palette import CLOTHS, CONTACT_COLORS, SCALE, Color
from toile.viewer.draw.strain import scale_position
from toile.viewer.draw.text import plain

CLOTH, FABRIC, WARP, WEFT, CONTACT = "cloth", "fabric", "strain along warp", "strain along weft", "contact"
MODES = (CLOTH, FABRIC, WARP, WEFT, CONTACT)

CONTACT_NAMES = ("free", "on a solid", "on cloth", "on both")


def cloth_colors(
    mode: str,
    limit: float,
    surface: Surface,
    strains: np.ndarray | None = None,
    contacts: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray | None, Sequence[Color]]:
    """Values of the triangles and colors, as SceneDrawing.show needs them.

    `limit` is the strain of the last color. `strains` of the triangles along warp and weft are needed by the modes of
    strain, and `contacts`, the vertices in contact with solids and with cloth, by the mode of contact.
    """
    if mode in (WARP, WEFT):
        assert strains is not None
        return scale_position(strains[:, (WARP, WEFT).index(mode)], limit), SCALE
    if mode == CONTACT:
        assert contacts is not None
        return contact_values(surface, *contacts), CONTACT_COLORS
    return None, _colors_by_fabric(surface) if mode == FABRIC else CLOTHS


def contact_values(surface: Surface, on_solids: np.ndarray, on_cloth: np.ndarray) -> np.ndarray:
    """Value of each triangle that selects one of CONTACT_COLORS by the contacts of its corners."""
    kinds = np.zeros(surface.vertex_count, int)
    kinds[on_solids] |= 1
    kinds[on_cloth] |= 2
    of_triangles = np.bitwise_or.reduce(kinds[surface.triangles], axis=1)
    return (of_triangles + 0.5) / len(CONTACT_COLORS)


def legend(mode: str, limit: float, surface: Surface) -> str:
    """Returns HTML that explains the colors."""
    if mode in (WARP, WEFT):
        boxes = "".join(f'<div style="flex:1;height:14px;background:{_css(color)}"></div>' for color in SCALE)
        ticks = "".join(f"<span>{100.0 * limit * at:+.3g} %</span>" for at in (-1.0, -0.5, 0.0, 0.5, 1.0))
        return _block(
            f'<div style="display:flex">{boxes}</div>'
            f'<div style="display:flex;justify-content:space-between">{ticks}</div>'
        )
    if mode == CONTACT:
        return _rows(CONTACT_NAMES, CONTACT_COLORS)
    if mode == FABRIC:
        names = _fabrics(surface)
        return _rows(names, [CLOTHS[number % len(CLOTHS)] for number in range(len(names))])
    parts = surface.parts
    return _rows([part.name for part in parts], [CLOTHS[number % len(CLOTHS)] for number in range(len(parts))])


def _fabrics(surface: Surface) -> list[str]:
    return list(dict.fromkeys(part.fabric for part in surface.parts))


def _colors_by_fabric(surface: Surface) -> list[Color]:
    fabrics = _fabrics(surface)
    return [CLOTHS[fabrics.index(part.fabric) % len(CLOTHS)] for part in surface.parts] or list(CLOTHS)


def _rows(names: Sequence[str], colors: Sequence[Color]) -> str:
    box = '<span style="display:inline-block;width:14px;height:14px;margin-right:8px;background:{}"></span>'
    rows = zip(names, colors, strict=True)
    return _block("".join(f"<div>{box.format(_css(color))}{plain(name)}</div>" for name, color in rows))


def _block(content: str) -> str:
    return f'<div style="font-size:12px;padding:2px 12px 6px">{content}</div>'


def _css(color: Color) -> str:
    return "rgb({}, {}, {})".format(*color)
