"""The judge of the scoreboard: shapes whose strain, crossings and depth are known."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCOREBOARD = Path(__file__).parents[2] / "benchmarks" / "scoreboard"


@pytest.fixture(scope="module")
def judge() -> Any:
    spec = importlib.util.spec_from_file_location("judge", SCOREBOARD / "judge.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def square(n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """A unit square of n x n vertices: positions and triangles."""
    u, v = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n))
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    triangles = np.concatenate([corner[:, None] + [0, 1, n + 1], corner[:, None] + [0, n + 1, n]])
    return np.stack([u.ravel(), v.ravel(), np.zeros(n * n)], axis=1), triangles


def test_strain_of_a_stretched_square(judge: Any) -> None:
    """x -> (1.1 x, 0.95 y): strains of 10 % and -5 %, whatever the rotation; rounding only."""
    x, triangles = square()
    scene = {"triangles": triangles, "uv": x[triangles][:, :, :2]}
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    found = judge.strains(scene, x * [1.1, 0.95, 1.0] @ turn.T)
    assert found["warp_max"] == pytest.approx(0.1, abs=1e-12) and found["warp_mean"] == pytest.approx(0.1, abs=1e-12)
    assert found["weft_max"] == pytest.approx(-0.05, abs=1e-12)
    assert found["edge_max"] == pytest.approx(0.1, abs=1e-12) and found["edge_min"] == pytest.approx(-0.05, abs=1e-12)


def test_crossings_are_all_found(judge: Any) -> None:
    """Triangle soup against a solve of the linear system of each edge and triangle, all with all."""
    x = np.random.default_rng(1).uniform(size=(90, 3))
    triangles = np.arange(90).reshape(-1, 3)
    edges = judge.edges_of(triangles)
    expected = 0
    for p, q in edges:
        for a, b, c in triangles:
            if {p, q} & {a, b, c}:
                continue
            s, t, r = np.linalg.solve(np.stack([x[b] - x[a], x[c] - x[a], x[p] - x[q]], axis=1), x[p] - x[a])
            expected += min(s, t, 1 - s - t, r, 1 - r) > 0
    assert expected > 100
    assert judge.crossings(x, triangles, edges) == expected


def test_flat_cloth_does_not_cross_itself(judge: Any) -> None:
    """Level, and leaning so that rounding makes it uneven."""
    x, triangles = square(9)
    for lean in (0.0, 1 / 3):  # z = x / 3 is not exact in binary
        assert judge.crossings(x + x[:, :1] * (0, 0, lean), triangles, judge.edges_of(triangles)) == 0


def test_depth_in_a_cylinder(judge: Any) -> None:
    """Radius 0.2, height 0.6, rim rounded by 0.04, its centre at z = 0.3: side, top, and the corner of the rim."""
    solid = {"radius": 0.2, "height": 0.6, "rounding": 0.04, "translation": [0.0, 0.0, 0.3]}
    points = np.array([[0.19, 0, 0.3], [0.0, 0.1, 0.59], [0.2, 0.0, 0.6], [0.3, 0, 0.3]])
    expected = [0.01, 0.01, 0.04 - 0.04 * np.sqrt(2), -0.1]
    assert judge.cylinder_depth(solid, points) == pytest.approx(np.array(expected), abs=1e-12)


def test_swing_error(judge: Any) -> None:
    """A cloth that is 3 cm off in all frames."""
    x, _ = square()
    centre = x.mean(axis=0)
    scene = {"masses": np.ones(len(x)), "reference": {"centres": [centre, centre]}}
    moved = np.stack([x, x + np.array([0.03, 0, 0]), x - np.array([0, 0.03, 0])])
    assert judge.swing_error(scene, moved) == pytest.approx(0.03, abs=1e-12)
