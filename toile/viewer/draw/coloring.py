"""What the colors of the cloth mean in the live page, and the legend that says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toile.model.frame import Surface
from toile.viewer.draw.colors import shade
from toile.viewer.draw.palette import CLOTHS, CONTACT_COLORS, SCALE, Color
from toile.viewer.draw.text import plain
from toile.viewer.live.live import View

CLOTH, FABRIC, WARP, WEFT, CONTACT = "cloth", "fabric", "strain along warp", "strain along weft", "contact"
MODES = (CLOTH, FABRIC, WARP, WEFT, CONTACT)

CONTACT_NAMES = ("free", "on a solid", "on cloth", "on both")


def shading(
    mode: str, limit: float, view: View, strains: np.ndarray | None
) -> tuple[np.ndarray | None, Sequence[Color]]:
    """Figures of triangles and their colors, as drawing.show wants them. `limit` is the strain of the last color."""
    assert view.surface is not None
    if mode in (WARP, WEFT):
        assert strains is not None
        return shade(strains[:, MODES.index(mode) - MODES.index(WARP)], limit), SCALE
    if mode == CONTACT:
        return contact_kinds(view), CONTACT_COLORS
    return None, of_fabrics(view.surface) if mode == FABRIC else CLOTHS


def contact_kinds(view: View) -> np.ndarray:
    """The place among TOUCHES of each triangle, by what its corners touch."""
    assert view.surface is not None
    kinds = np.zeros(len(view.positions), int)
    kinds[view.vertices_on_solids] |= 1
    kinds[view.vertices_on_cloth] |= 2
    of_triangles = np.bitwise_or.reduce(kinds[view.surface.triangles], axis=1)
    return (of_triangles + 0.5) / len(CONTACT_COLORS)


def legend(mode: str, limit: float, surface: Surface) -> str:
    """HTML that tells what each color is."""
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


def of_fabrics(surface: Surface) -> list[Color]:
    """The color of each cloth."""
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
