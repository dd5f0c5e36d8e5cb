"""Shipped scenes with contact between cloths, on coarse meshes: topology, order of layers, and balances.

[BFA02] figure 1 is a curtain that folds over itself; each scene here shows one kind of contact.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from toile.contact.intersection_audit import Audit
from toile.model.mesh import Mesh
from toile.scene.consistency import SceneParts, check_consistency
from toile.scene.load import load
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

UNTANGLED = ("flip", "fold", "funnel", "knives", "layers", "needle", "reef_knot", "stack", "twist")


def simulate(name: str, device: str, *overrides: str) -> Simulation:
    return Simulation(load(name, overrides=["outputs=[]", *overrides]), device)


def at_resolution(name: str, share: float) -> Scene:
    """The scene with a finer or coarser mesh of every cloth."""
    overrides = []
    for i, cloth in enumerate(load(name).cloth):
        counts = [max(2, round(share * count)) for count in cloth.shape.resolution]  # type: ignore[attr-defined]
        overrides.append(f"cloth[{i}].shape.resolution={counts}")
    return load(name, overrides=overrides)


def start_meshes(scene: Scene) -> list[Mesh]:
    found = check_consistency(SceneParts.of(scene))
    assert not found.problems
    return list(found.meshes.values())


def intersections(meshes: list[Mesh], device: str) -> int:
    first = np.cumsum([0, *(mesh.vertex_count for mesh in meshes)])
    triangles = np.concatenate([mesh.triangles + start for mesh, start in zip(meshes, first[:-1], strict=True)])
    return Audit(triangles, int(first[-1]), device).count(np.concatenate([mesh.positions for mesh in meshes]))


@pytest.mark.parametrize("share", [0.85, 1.0, 1.5])
@pytest.mark.parametrize("name", UNTANGLED)
def test_scenes_start_without_intersections_and_unstretched(name: str, share: float, device: str) -> None:
    """At every resolution nothing intersects, and no edge differs from its rest length by more than 1 %."""
    meshes = start_meshes(at_resolution(name, share))
    assert intersections(meshes, device) == 0
    for mesh in meshes:
        assert not mesh.warnings
        edges = mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
        flat = np.linalg.norm(mesh.uv - np.roll(mesh.uv, -1, axis=1), axis=2).ravel()
        length = np.linalg.norm(mesh.positions[edges[:, 1]] - mesh.positions[edges[:, 0]], axis=1)
        np.testing.assert_allclose(length, flat, rtol=0.01)


@pytest.mark.parametrize("share", [0.6, 1.0, 1.5])
def test_the_scene_tangled_starts_with_intersections(share: float, device: str) -> None:
    assert intersections(start_meshes(at_resolution("tangled", share)), device) > 10


def over_and_under(one: np.ndarray, two: np.ndarray) -> list[bool]:
    """Along one curve, seen from above: whether it passes over the other one, at each of their crossings."""
    found = []
    for a, b in itertools.pairwise(one):
        p, q = two[:-1], two[1:]
        d, e = (b - a)[:2], (q - p)[:, :2]
        turn = d[0] * e[:, 1] - d[1] * e[:, 0]
        arm = (p - a)[:, :2]
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (arm[:, 0] * e[:, 1] - arm[:, 1] * e[:, 0]) / turn
            t = (arm[:, 0] * d[1] - arm[:, 1] * d[0]) / turn
        for k in np.flatnonzero((s >= 0.0) & (s < 1.0) & (t >= 0.0) & (t < 1.0)):
            found.append(bool((a + s[k] * (b - a))[2] > (p[k] + t[k] * (q[k] - p[k]))[2]))
    return found


def middle(mesh: Mesh) -> np.ndarray:
    """The center line of a ribbon: the mean of the rows across it."""
    rows = len(np.unique(mesh.vertex_uv()[:, 1]))
    return mesh.positions.reshape(rows, -1, 3).mean(axis=0)


def test_the_knot_is_a_reef_knot() -> None:
    """Both strands of each ribbon pass on the same side of the other's bight, and on the other side of its strands."""
    left, right = (middle(mesh) for mesh in start_meshes(load("reef_knot")))
    assert over_and_under(left, right) == [True, False, True, True, False, True]
    assert over_and_under(right, left) == [False, True, False, False, True, False]


def linking(one: np.ndarray, two: np.ndarray) -> float:
    """Gauss's integral of two polygons: the signed solid angles of all pairs of segments over 4 pi.

    Source      Klenin and Langowski 2000, Computation of writhe in modeling of supercoiled DNA, method 1a
    """
    a, b = one[:-1, None], one[1:, None]
    c, d = two[None, :-1], two[None, 1:]
    corners = [np.cross(c - a, d - a), np.cross(d - a, d - b), np.cross(d - b, c - b), np.cross(c - b, c - a)]
    sides = [n / np.maximum(np.linalg.norm(n, axis=2, keepdims=True), 1e-300) for n in corners]
    angle = sum(np.arcsin(np.clip(np.sum(sides[k] * sides[(k + 1) % 4], axis=2), -1.0, 1.0)) for k in range(4))
    sign = np.sign(np.sum(np.cross(d - c, b - a) * (c - a), axis=2))
    return float(np.sum(sign * angle) / (4.0 * np.pi))


def extended(curve: np.ndarray) -> np.ndarray:
    """The curve, extended straight along x by 100 m at both ends."""
    out = np.array([100.0, 0.0, 0.0])
    return np.concatenate([[curve[0] - out], curve, [curve[-1] + out]])


def test_linking_number_of_a_double_helix() -> None:
    angle = np.linspace(0.0, 6.0 * np.pi, 600)
    one = np.column_stack([angle / 20.0, 0.2 * np.cos(angle), 0.2 * np.sin(angle)])
    assert linking(extended(one), extended(one * [1.0, -1.0, -1.0])) == pytest.approx(3.0, abs=0.01)


@pytest.mark.slow
def test_the_linking_number_of_twist_is_that_of_its_ends(device: str) -> None:
    """The linking number of the two free sides of the mat is the number of turns of its ends: only cloth that passes
    through cloth could change it, whatever coils and folds there are."""
    simulation = simulate("twist", device, "cloth[0].shape.resolution=[41, 21]")
    uv = simulation.model.parts[0].mesh.vertex_uv()
    sides = [np.flatnonzero(np.abs(uv[:, 1] - end) < 1e-9) for end in (uv[:, 1].min(), uv[:, 1].max())]
    last = load("twist").constraints[0].motion.keyframes[-1]  # type: ignore[attr-defined]
    turns = 2.0 * last.rotation[0] / 360.0
    for frame in simulation.run():
        one, two = (extended(frame.positions[side]) for side in sides)
        # The straight parts are at most 0.4 m apart and 100 m long; a mat of 21 rows follows a helix as a polygon.
        assert linking(one, two) == pytest.approx(-turns * min(1.0, frame.time / last.time), abs=0.02)
    assert simulation.report()["summary"]["intersections"] == 0


def test_folded_layers_keep_their_order(device: str) -> None:
    """0 3 2 1 from the bottom up, at least a millimeter apart, when the sheet rests on the floor."""
    along, across = 53, 7
    simulation = simulate("fold", device, f"cloth[0].shape.resolution=[{along}, {across}]", "time.frames=40")
    middles = [along // 8 + along // 4 * k for k in (0, 3, 2, 1)]
    *_, last = simulation.run()
    heights = np.median(last.positions.reshape(across, along, 3)[:, middles, 2], axis=0)
    assert np.diff(heights).min() > 1e-3
    assert heights.max() < 0.05
    assert simulation.report()["summary"]["intersections"] == 0


@pytest.mark.slow
def test_the_knot_holds(device: str) -> None:
    """Without contact the ribbons pass through each other and separate; with contact the pull tightens the knot."""
    coarse = [f"cloth[{i}].shape.resolution=[161, 3]" for i in (0, 1)]
    apart = {}
    for filters in ("[]", "[{type: self_contact, thickness: 0.001, friction: 0.1}]"):
        simulation = simulate("reef_knot", device, *coarse, f"filters={filters}", "expect={}")
        *_, last = simulation.run()
        left, right = (last.positions[part.particles] for part in simulation.model.parts)
        apart[filters] = right[:, 0].min() - left[:, 0].max()
    through, held = apart.values()
    assert through > 0.1
    assert held < 0.0  # each reaches through the other


@pytest.mark.slow
def test_a_stack_keeps_its_order(device: str) -> None:
    """Ten sheets on a hoop: at its middle each lies on the one below, at least half a thickness apart."""
    coarse = [f"cloth[{i}].shape.resolution=[11, 11]" for i in range(10)]
    simulation = simulate("stack", device, *coarse, "time.frames=15")
    *_, last = simulation.run()
    heights = [last.positions[part.particles][60, 2] for part in simulation.model.parts]
    assert np.diff(heights).min() > 5e-4
    assert heights[-1] - heights[0] < 0.05
    assert simulation.report()["summary"]["intersections"] == 0
