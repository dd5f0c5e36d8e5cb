"""Selections: every kind selects the particles that are counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.model.mesh import Mesh
from toile.model.selection import Selection
from toile.shapes.grid import Grid


@pytest.fixture(scope="module")
def sheet() -> Mesh:
    """Vertices 0..11, four along u and three along v, on [-1.5, 1.5] x [-1, 1]."""
    return Grid(size=(3.0, 2.0), resolution=(4, 3)).mesh(Path())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"indices": (5, 2, 5)}, [2, 5]),
        ({"corners": ("lower_left",)}, [0]),
        ({"corners": ("lower_right", "upper_left", "upper_right")}, [3, 8, 11]),
        ({"edges": ("left",)}, [0, 4, 8]),
        ({"edges": ("right",)}, [3, 7, 11]),
        ({"edges": ("lower", "upper")}, [0, 1, 2, 3, 8, 9, 10, 11]),
        ({"box": ((-0.6, -0.1, -1), (0.6, 0.1, 1))}, [5, 6]),
        ({"all": True}, list(range(12))),
        ({"indices": (5,), "corners": ("lower_left",)}, [0, 5]),
    ],
)
def test_selected_particles(sheet: Mesh, fields: dict, expected: list[int]) -> None:
    chosen = Selection(**fields).resolve(sheet)
    assert chosen.dtype == np.int32
    assert chosen.tolist() == expected


def test_regions(sheet: Mesh) -> None:
    named = Mesh(sheet.positions, sheet.triangles, sheet.uv, {"hem": np.array([1, 2])})
    assert Selection(region="hem").resolve(named).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r'no region "hen"\. Did you mean "hem"\?'):
        Selection(region="hen").resolve(named)


def test_indices_are_those_of_the_source(sheet: Mesh) -> None:
    """Source vertices 0 and 1 became vertex 0, 2 was removed, 3 became 1."""
    renumbered = Mesh(sheet.positions, sheet.triangles, sheet.uv, numbering=np.array([0, 0, -1, 1]))
    assert Selection(indices=(0, 1, 3)).resolve(renumbered).tolist() == [0, 1]
    with pytest.raises(ValueError, match="vertex 2 was removed: no triangle uses it"):
        Selection(indices=(2,)).resolve(renumbered)
    with pytest.raises(ValueError, match="vertex 4 does not exist: the cloth has vertices 0 to 3"):
        Selection(indices=(4,)).resolve(renumbered)


@pytest.mark.parametrize("index", [-1, 12, 2**70])
def test_indices_out_of_range(sheet: Mesh, index: int) -> None:
    with pytest.raises(ValueError, match=f"vertex {index} does not exist: the cloth has vertices 0 to 11"):
        Selection(indices=(index,)).resolve(sheet)
