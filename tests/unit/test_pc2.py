"""The native cache, byte by byte, and the rest surface, digit by digit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from toile.model.frame import Frame, Part, Surface
from toile.outputs.pc2 import Pc2


def triangle(name: str = "sheet", fabric: str = "cotton") -> Surface:
    rest = np.array([[0.0, 0.0, 1.0], [1.0 / 3.0, -0.0, 1e-300], [0.1 + 0.2, 1e20, -5e-324]])
    uv = np.array([[[0.1, 0.2], [1.0 / 7.0, 0.2], [0.1, 1e-17]]])
    return Surface(np.array([[0, 1, 2]], np.int32), uv, rest, (Part(name, slice(0, 3), slice(0, 1), fabric),), 30.0)


def test_the_cache_byte_by_byte(tmp_path: Path) -> None:
    """Two frames of three points; 1.0 is 0000803f and 2.0 is 00000040 in little-endian float32."""
    surface = triangle()
    writer = Pc2().writer(tmp_path, "run", surface)
    for k in (0, 1):
        writer.write(Frame(k, k / 30.0, np.full((3, 3), k + 1.0), np.zeros((3, 3))))
    writer.close()
    header = "504f494e5443414348453200" + "01000000" + "03000000" + "00000000" + "0000803f" + "02000000"
    assert (tmp_path / "cache.pc2").read_bytes().hex() == header + 9 * "0000803f" + 9 * "00000040"


def test_the_rest_surface_is_restored_exactly(tmp_path: Path) -> None:
    surface = triangle()
    Pc2().writer(tmp_path, "run", surface).close()
    rows = [line.split() for line in (tmp_path / "rest.obj").read_text().splitlines()]
    rest = np.array([[float(x) for x in row[1:]] for row in rows if row[0] == "v"])
    assert rest.tobytes() == surface.rest.tobytes()  # -0.0 and the smallest double too


def test_corners_that_share_a_uv_share_its_line(tmp_path: Path) -> None:
    uv = np.array([[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]], float)
    triangles = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
    rest = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    surface = Surface(triangles, uv, rest, (Part("a", slice(0, 4), slice(0, 2)),), 30.0)
    Pc2().writer(tmp_path, "run", surface).close()
    text = (tmp_path / "rest.obj").read_text()
    assert sum(line.startswith("vt ") for line in text.splitlines()) == 4


def test_a_name_with_a_line_break_stays_on_its_line(tmp_path: Path) -> None:
    Pc2().writer(tmp_path, "run\nv 9 9 9", triangle("a\nv 9 9 9\x85b", "x\ny")).close()
    lines = (tmp_path / "rest.obj").read_text().splitlines()
    assert sum(line.startswith("v ") for line in lines) == 3
    assert "o a_v 9 9 9_b" in lines
    assert json.loads(lines[0].removeprefix("# toile ")) == {"name": "run\nv 9 9 9", "fps": 30.0}


def test_cloths_out_of_order_are_refused(tmp_path: Path) -> None:
    """The cache numbers vertices through all cloths; a file with another order would fit it and be wrong."""
    surface = triangle()
    wrong = Surface(surface.triangles, surface.uv, surface.rest, (Part("b", slice(1, 3), slice(0, 1)),), 30.0)
    with pytest.raises(ValueError, match='"b" does not start where the one before it ends'):
        Pc2().writer(tmp_path, "run", wrong)
    assert list(tmp_path.iterdir()) == []
