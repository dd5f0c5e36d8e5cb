"""The certificate against measurements from positions, velocities and uv alone."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from toile.model.frame import Frame
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

G = 9.81
FABRIC = {
    "density": 0.17,
    "stretch_warp": 900.0,
    "stretch_weft": 400.0,
    "shear": 60.0,
    "bend_warp": 3e-4,
    "bend_weft": 1e-4,
    "damping": 1e-3,
}
B_WARP = [[0.0, 1.0], [1.0, 1.5]]  # rest stretch of the disc, changing in time


def scene(**more: Any) -> Scene:
    """A sheet held by one corner and a disc with rest stretch, so soft that all energies are significant."""
    fields: dict[str, Any] = {
        "time": {"frames": 8, "fps": 25.0, "max_step": 0.015},
        "cloth": [
            {
                "name": "sheet",
                "shape": {"type": "grid", "size": [0.5, 0.3], "resolution": [6, 5]},
                "rotation": [30.0, 0.0, 0.0],
                "fabric": FABRIC,
                "spin": [1.0, 2.0, 0.0],
            },
            {
                "name": "disc",
                "shape": {"type": "disc", "radius": 0.2, "rings": 3},
                "translation": [0.0, 0.0, 1.0],
                "fabric": {**FABRIC, "density": 0.3},
                "velocity": [0.2, 0.0, 0.0],
                "rest_stretch": [{"warp": B_WARP, "weft": 0.95}],
            },
        ],
        "constraints": [{"type": "pin", "cloth": "sheet", "where": {"corners": ["upper_left"]}}],
        **more,
    }
    return Scene(**fields)


@pytest.fixture(scope="module")
def run(device: str) -> tuple[Simulation, list[Frame]]:
    simulation = Simulation(scene(), device)
    return simulation, list(simulation.run())


def triangle_measures(simulation: Simulation, frame: Frame) -> dict[str, np.ndarray]:
    """Areas in uv, w_u and w_v of each triangle: its edges are its uv edges times (w_u, w_v)."""
    surface = simulation.surface
    edges, uv_edges = (of[:, 1:] - of[:, :1] for of in (frame.positions[surface.triangles], surface.uv))
    w = np.linalg.solve(uv_edges, edges)
    return {"area": 0.5 * np.abs(np.linalg.det(uv_edges)), "w_u": w[:, 0], "w_v": w[:, 1]}


def density(simulation: Simulation) -> np.ndarray:
    """The density of each triangle."""
    found = np.zeros(len(simulation.surface.triangles))
    for cloth, part in zip(simulation.scene.cloth, simulation.surface.parts, strict=True):
        found[part.triangles] = cloth.fabric.density
    return found


def masses(simulation: Simulation, frame: Frame) -> np.ndarray:
    """A third of each triangle to each of its corners."""
    found = np.zeros(len(frame.positions))
    shares = density(simulation) * triangle_measures(simulation, frame)["area"] / 3.0
    np.add.at(found, simulation.surface.triangles, shares[:, None])
    return found


def rest_stretch(simulation: Simulation, time: float) -> tuple[np.ndarray, np.ndarray]:
    """b_u and b_v of each triangle."""
    b_u, b_v = np.ones(len(simulation.surface.triangles)), np.ones(len(simulation.surface.triangles))
    disc = simulation.surface.parts[1].triangles
    b_u[disc], b_v[disc] = np.interp(time, *np.transpose(B_WARP)), 0.95
    return b_u, b_v


def bend_energy(simulation: Simulation, frame: Frame) -> float:
    """8 D |e|^2/(A0 + A1) sin^2(angle/4) over all pairs of triangles with a common edge, by angles of their normals."""
    surface = simulation.surface
    x = frame.positions[surface.triangles]
    normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    area = triangle_measures(simulation, frame)["area"]
    sides = defaultdict(list)
    for t, corners in enumerate(surface.triangles):
        for k in range(3):
            sides[frozenset((corners[k], corners[(k + 1) % 3]))].append((t, k))
    total = 0.0
    for pair in sides.values():
        if len(pair) == 2:
            (t0, k), (t1, _) = pair
            du, dv = surface.uv[t0, (k + 1) % 3] - surface.uv[t0, k]
            # An edge along u folds the weft threads, one along v the warp.
            rigidity = (FABRIC["bend_weft"] * du**2 + FABRIC["bend_warp"] * dv**2) / (du**2 + dv**2)
            sine, cosine = np.linalg.norm(np.cross(normals[t0], normals[t1])), normals[t0] @ normals[t1]
            angle = np.arctan2(sine, cosine)
            total += 8.0 * rigidity * (du**2 + dv**2) / (area[t0] + area[t1]) * np.sin(angle / 4.0) ** 2
    return total


def test_energies(run: tuple[Simulation, list[Frame]]) -> None:
    """By name, in joules; rounding of a sum over some hundred elements."""
    simulation, frames = run
    for frame in frames[1:]:
        assert frame.certificate is not None
        m, t = masses(simulation, frame), triangle_measures(simulation, frame)
        b_u, b_v = rest_stretch(simulation, frame.time)
        along_u, along_v = (np.linalg.norm(t[w], axis=1) for w in ("w_u", "w_v"))
        k_u, k_v = FABRIC["stretch_warp"], FABRIC["stretch_weft"]
        expected = {
            "kinetic": 0.5 * np.sum(m * np.sum(frame.velocities**2, axis=1)),
            "gravity": G * np.sum(m * frame.positions[:, 2]),
            "stretch": 0.5 * np.sum(t["area"] * (k_u * (along_u - b_u) ** 2 + k_v * (along_v - b_v) ** 2)),
            "shear": 0.5 * FABRIC["shear"] * np.sum(t["area"] * np.sum(t["w_u"] * t["w_v"], axis=1) ** 2),
            "bend_mode": bend_energy(simulation, frame),
        }
        assert set(frame.certificate["energy"]) == set(expected)
        for name, value in expected.items():
            assert value != 0.0
            assert frame.certificate["energy"][name] == pytest.approx(value, rel=1e-9), name


def test_momentum(run: tuple[Simulation, list[Frame]]) -> None:
    simulation, frames = run
    for frame in frames[1:]:
        assert frame.certificate is not None
        expected = masses(simulation, frame) @ frame.velocities
        np.testing.assert_allclose(frame.certificate["momentum"], expected, rtol=1e-10, atol=1e-15)


def test_strain(run: tuple[Simulation, list[Frame]]) -> None:
    """Relative to b along the threads: signed maxima, and means of magnitudes by area; edges relative to uv times b."""
    simulation, frames = run
    for frame in frames[1:]:
        assert frame.certificate is not None
        t = triangle_measures(simulation, frame)
        strains = {
            name: np.linalg.norm(t[w], axis=1) / b - 1.0
            for name, w, b in zip(("warp", "weft"), ("w_u", "w_v"), rest_stretch(simulation, frame.time), strict=True)
        }
        surface = simulation.surface
        following = [1, 2, 0]
        x, uv = frame.positions[surface.triangles], surface.uv
        b = np.stack(np.broadcast_arrays(*rest_stretch(simulation, frame.time)), axis=1)
        sought = np.linalg.norm((uv[:, following] - uv) * b[:, None], axis=2).ravel()
        pairs = np.sort(np.stack([surface.triangles, surface.triangles[:, following]], axis=2).reshape(-1, 2), axis=1)
        _, edge = np.unique(pairs, axis=0, return_inverse=True)
        mean = np.bincount(edge, sought) / np.bincount(edge)  # where two triangles have different rest stretch
        edges = np.linalg.norm(x[:, following] - x, axis=2).ravel() / mean[edge] - 1.0
        expected = {"edge_max": edges.max()}
        for name, strain in strains.items():
            expected[f"{name}_max"] = max(strain.max(), 0.0)
            expected[f"{name}_mean"] = np.average(np.abs(strain), weights=t["area"])
        assert set(frame.certificate["strain"]) == set(expected)
        for name, value in expected.items():
            assert frame.certificate["strain"][name] == pytest.approx(value, rel=1e-9, abs=1e-13), name
    assert expected["warp_max"] > 1e-3
    assert expected["edge_max"] > 1e-3


def test_the_names_of_values_are_fixed(run: tuple[Simulation, list[Frame]]) -> None:
    """The names are part of the interface: other programs read them."""
    report = run[0].report()
    assert list(report) == ["scene", "hash", "versions", "device", "precision", "seed", "summary", "frames"]
    assert set(report["summary"]) == {
        "frames", "steps", "rejected", "ms_per_frame", "max_strain",
        "intersections", "intersections_start", "intersections_end", "solid_depth", "pinched", "truncated", "ok",
    }  # fmt: skip
    for entry in report["frames"]:
        assert set(entry) == {
            "frame", "time", "steps", "rejected", "h_min", "h_max", "strain", "intersections", "solid_depth",
            "pinched", "truncated", "contacts", "solids", "energy", "momentum", "solver", "ms",
        }  # fmt: skip
        assert set(entry["solver"]) == {"solves", "iterations", "residual"}
        assert set(entry["contacts"]) == {"solid", "cloth"}
        assert set(entry["ms"]) == {"EVAL", "CG", "C/C", "C/S", "filters", "audit", "output"}
    assert set(report["versions"]) >= {"python", "toile", "warp-lang", "numpy", "scipy"}
    assert report["precision"] in ("double", "single")
    assert report["device"].startswith(("cpu", "cuda"))


def test_the_report_is_plain_json(run: tuple[Simulation, list[Frame]]) -> None:
    """It contains no NumPy number, no infinity and no NaN."""
    report = run[0].report()
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_frames_and_steps(run: tuple[Simulation, list[Frame]]) -> None:
    """Frames of 40 ms and steps of at most 15 ms: three equal steps in each frame."""
    simulation, frames = run
    report = simulation.report()
    assert frames[0].certificate is None
    assert [frame.certificate for frame in frames[1:]] == report["frames"]
    for number, entry in enumerate(report["frames"], start=1):
        assert entry["frame"] == number
        assert entry["time"] == number / 25.0
        assert (entry["steps"], entry["rejected"]) == (3, 0)
        assert entry["h_min"] == pytest.approx(0.04 / 3.0, rel=1e-9)
        assert entry["h_max"] == pytest.approx(0.04 / 3.0, rel=1e-9)
        assert entry["solver"]["iterations"] >= 3
        assert 0.0 <= entry["solver"]["residual"] <= 1e-3
        assert entry["ms"]["EVAL"] > 0.0
        assert entry["ms"]["CG"] > 0.0


def test_summary(run: tuple[Simulation, list[Frame]]) -> None:
    report = run[0].report()
    summary, entries = report["summary"], report["frames"]
    assert summary["frames"] == 8
    assert summary["steps"] == 24
    assert summary["rejected"] == 0
    assert summary["ms_per_frame"] == pytest.approx(
        np.median([sum(e["ms"].values()) - e["ms"]["audit"] for e in entries])
    )
    worst = max(e["strain"][f"{name}_max"] for e in entries for name in ("warp", "weft", "edge"))
    assert summary["max_strain"] == worst
    assert summary["ok"] is True


def test_ok_means_complete(device: str) -> None:
    """A run that was stopped half way is not ok."""
    simulation = Simulation(scene(), device)
    frames = simulation.run(3)
    for _ in range(3):
        next(frames)
        assert simulation.report()["summary"]["ok"] is False
    assert [frame.number for frame in frames] == [3]
    assert simulation.report()["summary"]["ok"] is True
    assert simulation.report()["summary"]["frames"] == 3


@pytest.mark.parametrize("change", [{"seed": 1}, {"gravity": (0.0, 0.0, -9.8)}, {"integrator": "implicit_euler"}])
def test_the_hash_depends_on_the_scene_alone(device: str, change: dict[str, Any]) -> None:
    same, again, other = (Simulation(s, device).report()["hash"] for s in (scene(), scene(), scene(**change)))
    assert same == again
    assert same != other


def test_free_fall(device: str) -> None:
    """After n steps of backward Euler: momentum m g t, kinetic energy m (g t)^2/2, potential -m g^2 h^2 n (n + 1)/2."""
    h, n = 0.02, 10
    falling = Scene(
        time={"frames": n, "fps": 1.0 / h, "max_step": h},
        cloth=[{"shape": {"type": "grid", "size": [0.5, 0.4], "resolution": [4, 4]}, "fabric": FABRIC}],
        integrator="implicit_euler",
        solver={"tolerance": 1e-13},
    )
    simulation = Simulation(falling, device)
    *_, last = simulation.run()
    mass = FABRIC["density"] * 0.5 * 0.4
    assert last.certificate is not None
    np.testing.assert_allclose(last.certificate["momentum"], [0.0, 0.0, -mass * G * n * h], rtol=1e-12, atol=1e-14)
    energy = last.certificate["energy"]
    assert energy["kinetic"] == pytest.approx(0.5 * mass * (G * n * h) ** 2, rel=1e-12)
    assert energy["gravity"] == pytest.approx(-mass * G**2 * h**2 * n * (n + 1) / 2.0, rel=1e-12)
    assert energy["stretch"] + energy["shear"] + energy["bend_mode"] < 1e-20


def test_a_pull_stores_energy(device: str) -> None:
    """The energy k d^2/2 of its spring has its own name."""
    pull = {"type": "pull", "cloth": "disc", "triangle": 4, "weights": (0.2, 0.3, 0.5), "target": (0.0, 0.1, 1.2)}
    simulation = Simulation(scene(forces=[{**pull, "stiffness": 20.0}]), device)
    *_, last = simulation.run(3)
    part = simulation.surface.parts[1]
    point = np.array([0.2, 0.3, 0.5]) @ last.positions[simulation.surface.triangles[part.triangles][4]]
    expected = 0.5 * 20.0 * np.sum((point - [0.0, 0.1, 1.2]) ** 2)
    assert last.certificate is not None
    assert last.certificate["energy"]["pull"] == pytest.approx(expected, rel=1e-10)
