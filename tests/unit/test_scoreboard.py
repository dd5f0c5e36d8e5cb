"""The scoreboard: its measures on shapes with known strain, intersections and depth, its scenes and simulators."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCOREBOARD = Path(__file__).parents[2] / "benchmarks" / "scoreboard"


@pytest.fixture(scope="module")
def module() -> Iterator[Callable[[str], Any]]:
    """A script of the scoreboard by its name."""
    sys.path.insert(0, str(SCOREBOARD))
    yield importlib.import_module
    sys.path.remove(str(SCOREBOARD))


@pytest.fixture(scope="module")
def judge(module: Any) -> Any:
    return module("judge")


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


def test_all_intersections_are_found(judge: Any) -> None:
    """Random triangles against a linear solve for every edge and triangle."""
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
    assert judge.intersections(x, triangles, edges) == expected


def test_flat_cloth_does_not_intersect_itself(judge: Any) -> None:
    """Horizontal, and inclined so that rounding makes it uneven."""
    x, triangles = square(9)
    for lean in (0.0, 1 / 3):  # z = x / 3 is not exact in binary
        assert judge.intersections(x + x[:, :1] * (0, 0, lean), triangles, judge.edges_of(triangles)) == 0


def test_depth_in_a_cylinder(judge: Any) -> None:
    """Radius 0.2, height 0.6, rim rounded by 0.04, its center at z = 0.3: side, top, and the corner of the rim."""
    solid = {"radius": 0.2, "height": 0.6, "rounding": 0.04, "translation": [0.0, 0.0, 0.3]}
    points = np.array([[0.19, 0, 0.3], [0.0, 0.1, 0.59], [0.2, 0.0, 0.6], [0.3, 0, 0.3]])
    expected = [0.01, 0.01, 0.04 - 0.04 * np.sqrt(2), -0.1]
    assert judge.cylinder_depth(solid, points) == pytest.approx(np.array(expected), abs=1e-12)


def test_swing_error(judge: Any) -> None:
    """A cloth that is displaced by 3 cm in all frames."""
    x, _ = square()
    center = x.mean(axis=0)
    scene = {"masses": np.ones(len(x)), "reference": {"centers": [center, center]}}
    moved = np.stack([x, x + np.array([0.03, 0, 0]), x - np.array([0, 0.03, 0])])
    assert judge.swing_error(scene, moved) == pytest.approx(0.03, abs=1e-12)


def test_an_unstable_result_is_not_measured(judge: Any) -> None:
    """An edge of 12 times its length, and a NaN position: the frame is reported, and intersections are not counted."""
    x, triangles = square()
    scene = {
        "time": {"frames": 2}, "vertices": x, "triangles": triangles, "uv": x[triangles][:, :, :2],
        "masses": np.ones(len(x)), "pins": [], "solids": [],
    }  # fmt: skip
    ms = np.array([9.0, 5.0])
    whole = judge.judge(scene, np.stack([x, x, 10.9 * x]), ms=ms)  # a strain of 9.9
    assert whole["burst_at_frame"] is None and whole["edge_max"] == pytest.approx(9.9, abs=1e-12)
    for last in (12.0 * x, np.full_like(x, np.nan)):
        found = judge.judge(scene, np.stack([x, x, last]), ms=ms)
        assert found == {"burst_at_frame": 2, "ms_per_frame": {"median": 5.0, "mean": 5.0}}


def test_sag_is_the_mean_of_an_oscillation(judge: Any) -> None:
    """1 + cos with a period of four frames about the closed form: the mean is 1."""
    scene = {"sag": {"vertices": [1], "sinks_m": 0.002, "mean_of_last": 8}}
    positions = np.zeros((12, 2, 3))
    positions[1:, 1, 2] = -0.002 * (1.0 + np.cos(0.5 * np.pi * np.arange(11)))
    assert judge.sag(scene, positions) == pytest.approx(1.0, abs=1e-12)
    assert judge.sag({}, positions) is None


def test_depth_in_a_moving_cylinder(judge: Any) -> None:
    """Points that are carried with the solid keep their depth."""
    random = np.random.default_rng(3)
    x, triangles = square(9)
    solid = {"radius": 0.2, "height": 0.6, "rounding": 0.04, "translation": [0.5, 0.5, 0.2], "type": "cylinder"}
    solid |= {"vertices": random.normal(size=(20, 3)), "motion": None}
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    turn *= np.linalg.det(turn)  # no reflection
    shift = random.normal(size=3)
    moving = {**solid, "motion": [solid["vertices"], solid["vertices"] @ turn.T + shift]}
    expected = judge.depths({"triangles": triangles, "solids": [solid]}, 1, x)
    assert expected["vertices"] > 0.09
    found = judge.depths({"triangles": triangles, "solids": [moving]}, 1, x @ turn.T + shift)
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_fastest_accurate_settings_are_compared(module: Any) -> None:
    def row(error: float, edge: float, ms: float, burst: int | None = None) -> dict[str, Any]:
        times = {f"{kind}_per_frame": {"mean": ms, "median": 1.0} for kind in ("ms", "cpu_ms")}
        return {"swing_error_cm": error, "edge_max": edge, "burst_at_frame": burst, **times}

    rows = {
        "toile/default": row(2.0, 0.05, 10.0), "mujoco/a": row(5.0, 0.01, 20.0), "mujoco/b": row(3.0, 2.0, 30.0),
        "mujoco/c": row(3.9, 0.09, 80.0), "mujoco/d": row(1.0, 0.02, 90.0), "newton/xpbd a": row(0.0, 0.0, 1.0, 3),
    }  # fmt: skip
    found = module("score").compared("hang_51", rows)
    assert found["mujoco"]["cheapest"] == {"settings": "mujoco/b", "ms": 3.0, "cpu_ms": 3.0}
    assert found["mujoco"]["cheapest that is sound"] == {"settings": "mujoco/c", "ms": 8.0, "cpu_ms": 8.0}
    assert "none" in found["newton/xpbd"] and "none" in found["newton/vbd"]
    rows = {name: {**row, "date": "2026-01-02"} for name, row in rows.items()}
    rows["mujoco/b"]["date"] = "2026-01-01"  # not compared: another day
    assert module("score").compared("hang_51", rows)["mujoco"]["cheapest"]["settings"] == "mujoco/c"


def test_exported_scenes_are_up_to_date(module: Any) -> None:
    """The exported scenes are those of the exporter, without the references, which take too long to compute."""
    export = module("export")
    for path in sorted((SCOREBOARD / "scenes").glob("*.json")):
        written = json.loads(path.read_text(encoding="utf-8"))
        again = export.plain(written["name"], written["resolution"])
        assert {key: written[key] for key in again} == json.loads(json.dumps(again)), path.name
        assert set(written) - set(again) <= {"reference", "sag"}


def test_the_page_is_up_to_date(module: Any) -> None:
    page = module("page")
    board = json.loads((SCOREBOARD / "scoreboard.json").read_text(encoding="utf-8"))
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page(text, board) == text, "python benchmarks/scoreboard/page.py makes it anew"


def test_simulators_are_run_in_turn(module: Any, tmp_path: Path) -> None:
    """Two settings of Toile on the strip: all frames, their times, and the sag of the closed form."""
    run, strip = module("run"), SCOREBOARD / "scenes" / "strip_11.json"
    entries = {f"toile/{name}": (sys.executable, "toile", settings) for name, settings in (("a", {}), ("b", {}))}
    results = run.in_turn(strip, entries, tmp_path)
    scene = json.loads(strip.read_text(encoding="utf-8"))
    for name, path in zip("ab", results, strict=True):
        result = np.load(path)
        assert json.loads(str(result["label"]))["settings"] == {"name": name}
        assert result["positions"].shape == (61, 66, 3) and len(result["ms"]) == len(result["cpu_ms"]) == 60
        # Steps of 1/60 s have damped the oscillation along the strip; the tolerance of the solver remains.
        assert module("judge").sag(scene, result["positions"]) == pytest.approx(1.0, rel=1e-3)


# The stiffness of other simulators is checked against the closed form, where they are installed.
@pytest.mark.parametrize(
    ("simulator", "settings", "tolerance"),
    [
        ("mujoco", "guide", 5e-3),  # Green's strain is stiffer than linear by 1.5 times the strain, 0.4 % at most
        ("newton", "xpbd 640", 2e-2),  # single precision: 1e-7 m a substep, and 5 mm of swing
        ("newton", "vbd converged", 5e-3),
    ],
)
def test_other_simulators_have_the_sag_of_the_closed_form(
    module: Any, simulator: str, settings: str, tolerance: float
) -> None:
    pytest.importorskip(simulator)
    adapter = module("worker").adapter(simulator)
    scene = json.loads((SCOREBOARD / "scenes" / "strip_11.json").read_text(encoding="utf-8"))
    positions = np.stack(list(adapter.run(scene, adapter.SETTINGS[settings])))
    assert module("judge").sag(scene, positions) == pytest.approx(1.0, rel=tolerance)


@pytest.mark.parametrize("solver", ["xpbd", "vbd"])
def test_hinges_of_newton_have_the_bending_rigidity(module: Any, solver: str) -> None:
    """Two triangles at an angle theta: the first flap starts with K theta / (height m), K = D |e|^2 / (A_1 + A_2)."""
    newton = pytest.importorskip("newton")
    adapter = module("worker").adapter("newton")
    theta, d, h = 0.02, 1e-3, 1e-4
    flat = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.4, 0.5, 0.0], [0.6, -0.7, 0.0]])
    triangles = [[0, 1, 2], [1, 0, 3]]
    bent = flat.copy()
    bent[2] = [0.4, 0.5 * np.cos(theta), 0.5 * np.sin(theta)]
    scene = {
        "vertices": flat.tolist(), "triangles": triangles, "uv": flat[triangles][:, :, :2].tolist(), "pins": [],
        "material": {"density": 0.2, "stretch_warp": 0.0, "shear": 0.0, "bend_warp": d, "damping": 0.0},
        "contact": {"solid_thickness": None, "cloth_thickness": None}, "solids": [], "gravity": [0.0, 0.0, 0.0],
    }  # fmt: skip
    settings = {"solver": solver, "substeps": 1, "iterations": 1}
    model = adapter.build(scene, settings)
    now, then = model.state(), model.state()
    now.particle_q.assign(bent.astype(np.float32))
    adapter.make_solver(model, scene, settings).step(now, then, model.control(), None, h)
    areas = 0.5 * np.array([0.5, 0.7])
    force = d * 1.0**2 / areas.sum() * theta / 0.5
    acceleration = -then.particle_qd.numpy()[2, 2] / h
    # Only velocities resolve the step of 1e-9 m in single precision; mesh and angle are large for the same reason.
    assert acceleration == pytest.approx(force / (0.2 * areas[0] / 3.0), rel=0.03)
    assert newton.__version__
