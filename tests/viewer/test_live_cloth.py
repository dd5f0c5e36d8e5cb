"""The cloth of a live simulation: pins, the mouse spring, picking, colors and values of a vertex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from live_runs import handled, sheet, until

from toile.scene.load import load
from toile.simulation.simulation import Simulation
from toile.viewer.draw.color_modes import CLOTH, CONTACT, FABRIC, MODES, WARP, cloth_colors, contact_values, legend
from toile.viewer.draw.palette import SCALE
from toile.viewer.draw.strain import strain_along
from toile.viewer.live.grab import STIFFNESS, Grab
from toile.viewer.live.live_simulation import LiveSimulation
from toile.viewer.live.picking import first_hit, nearest_point
from toile.viewer.live.pins import with_toggled_pin
from toile.viewer.live.snapshot import RUNNING
from toile.viewer.live.vertex_values import vertex_values


class TestPins:
    def test_a_pinned_vertex_stays_and_a_freed_one_falls(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet(), running=False)
        for _ in range(4):
            live.step()
        before = until(live, lambda view: view.frame == 4)
        corner = int(before.pinned[0])
        handled(live, live.change(lambda scene: with_toggled_pin(scene, 12)))
        handled(live, live.change(lambda scene: with_toggled_pin(scene, corner)))
        for _ in range(6):
            live.step()
        after = until(live, lambda view: view.frame == 10)
        np.testing.assert_allclose(after.positions[12], before.positions[12], atol=1e-6)
        np.testing.assert_allclose(after.velocities[12], 0.0, atol=1e-6)
        assert after.positions[corner, 2] < before.positions[corner, 2] - 0.01
        assert sorted(after.pinned) == sorted({12, *before.pinned} - {corner})

    def test_whatever_selected_a_vertex_the_others_stay_held(self) -> None:
        scene = sheet("constraints[0].where={edges: [upper]}")
        free = with_toggled_pin(scene, 22)
        assert [constraint.where.indices for constraint in free.constraints] == [(20, 21, 23, 24)]
        back = with_toggled_pin(free, 22)
        assert back.constraints[-1].where.indices == (22,)

    def test_numbers_are_those_of_the_source(self, tmp_path: Any) -> None:
        """A mesh whose vertex 1 no triangle uses, so that its others have other numbers in the simulation."""
        lines = ["v 0 0 0", "v 9 9 9", "v 1 0 0", "v 0 1 0", "v 1 1 0", "f 1 3 4", "f 3 5 4"]
        (tmp_path / "two.obj").write_text("\n".join(lines))
        cloth = "{name: two, shape: {type: mesh, file: two.obj}}"
        (tmp_path / "two.yaml").write_text(f"version: 1\nname: two\ncloth: [{cloth}]\n")
        scene = load(tmp_path / "two.yaml")
        pinned = with_toggled_pin(scene, 2)
        assert pinned.constraints[0].where.indices == (3,)
        assert with_toggled_pin(pinned, 2).constraints == ()


class TestGrab:
    def test_cloth_hangs_from_the_hand_by_its_weight(self, device: str) -> None:
        """At rest the spring between hand and cloth carries all of it: target - x = m g / k, upwards."""
        scene = load(
            "hang",
            overrides=[
                "cloth[0].shape={type: grid, size: [0.1, 0.1], resolution: [3, 3]}", "cloth[0].rotation=[90, 0, 0]",
                "cloth[0].fabric.density=10", "constraints=[]", "forces=[{type: viscous, rate: 20.0}]",
                "cloth[0].fabric.bend_warp=0.1", "cloth[0].fabric.bend_weft=0.1",  # it does not droop
            ],
        )  # fmt: skip
        grab = Grab()
        simulation = Simulation(scene, device, forces=[grab])
        corners, weights = simulation.model.triangles[-1], np.array([0.0, 0.0, 1.0])  # the middle of the upper side
        hand = simulation.state.x.numpy()[corners[2]].astype(float)
        assert hand[2] == simulation.state.x.numpy()[:, 2].max()
        grab.take(simulation, corners, weights, hand)
        *_, frame = simulation.run(90)
        hangs = hand - grab.point(frame.positions)
        weight = float(simulation.model.masses.sum()) * 9.81
        assert weight == pytest.approx(0.1 * 9.81)
        np.testing.assert_allclose(hangs, [0.0, 0.0, weight / STIFFNESS], atol=1e-3 * weight / STIFFNESS)
        assert np.abs(frame.velocities).max() < 1e-4
        grab.let_go()
        simulation.advance_frame()
        assert simulation.state.v.numpy()[:, 2].max() < -0.1  # it falls

    def test_the_grabbed_point_comes_to_the_hand(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet())
        view = until(live, lambda view: view.frame >= 1)
        assert view.surface is not None
        target = view.positions[2] + np.array([0.1, 0.3, 0.1], np.float32)
        live.take(np.array([2, 1, 7]), np.array([1.0, 0.0, 0.0]), view.positions[2])
        live.follow(target)
        near = until(live, lambda view: view.grip is not None and np.linalg.norm(view.grip[0] - target) < 0.05)
        assert near.grip is not None
        np.testing.assert_allclose(near.grip[1], target, atol=1e-6)
        live.let_go()
        assert until(live, lambda later: later.grip is None and later.frame > near.frame).state == RUNNING

    def test_cloth_that_was_held_is_no_matter_in_a_smaller_scene(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet(), running=False)
        view = until(live, lambda view: view.surface is not None)
        assert view.surface is not None
        last = int(np.argmax(view.surface.triangles.max(axis=1)))
        live.take(view.surface.triangles[last], np.full(3, 1.0 / 3.0), np.zeros(3))
        until(live, lambda view: view.grip is not None)
        smaller = load("hang", overrides=["cloth[0].shape.resolution=[3, 3]"])
        view = handled(live, live.open(lambda: smaller, "smaller"))
        assert (view.message, view.title, len(view.positions), view.grip) == ("", "smaller", 9, None)

    def test_a_hand_does_not_blow_up_an_explicit_step(self, device: str) -> None:
        scene = sheet("integrator=explicit_euler", "time.max_step=0.0001")
        grab = Grab()
        simulation = Simulation(scene, device, forces=[grab])
        corners = simulation.model.triangles[3]
        grab.take(simulation, corners, np.full(3, 1.0 / 3.0), np.array([0.0, 0.0, 3.0]))
        *_, frame = simulation.run(2)
        assert frame.certificate is not None
        assert frame.certificate["rejected"] == 0


class TestPicking:
    def test_the_nearest_point_is_nearer_than_any_other(self) -> None:
        random = np.random.default_rng(1)
        positions, triangles = random.normal(size=(30, 3)), random.integers(0, 30, (20, 3))
        triangles = triangles[[len(set(row)) == 3 for row in triangles.tolist()]]
        u, v = (grid.ravel() for grid in np.meshgrid(*[np.linspace(0.0, 1.0, 60)] * 2))
        u, v = u[u + v <= 1.0], v[u + v <= 1.0]
        weights = np.stack([1.0 - u - v, u, v], axis=1)
        samples = np.einsum("sk,tkd->tsd", weights, positions[triangles])
        for point in random.normal(size=(50, 3)):
            triangle, found = nearest_point(point, positions, triangles)
            assert found.min() >= -1e-12
            assert found.sum() == pytest.approx(1.0)
            distance = np.linalg.norm(found @ positions[triangles[triangle]] - point)
            sampled = np.linalg.norm(samples - point, axis=2).min()
            # The grid has a point within 1/59 of an edge of any place; edges are at most 6 long here.
            assert sampled - 6.0 / 59.0 <= distance <= sampled + 1e-12

    def test_the_first_hit_is_that_of_the_linear_systems(self) -> None:
        random = np.random.default_rng(2)
        positions, triangles = random.normal(size=(30, 3)), random.integers(0, 30, (40, 3))
        triangles = triangles[[len(set(row)) == 3 for row in triangles.tolist()]]
        hits = 0
        for origin, direction in random.normal(size=(100, 2, 3)):
            met = []
            for number, (a, b, c) in enumerate(positions[triangles]):
                t, u, v = np.linalg.solve(np.stack([-direction, b - a, c - a], axis=1), origin - a)
                if t > 0.0 and u >= 0.0 and v >= 0.0 and u + v <= 1.0:
                    met.append((t, number, [1.0 - u - v, u, v]))
            found = first_hit(origin, direction, positions, triangles)
            assert (found is None) == (not met)
            if found is not None:
                hits += 1
                _, number, weights = min(met)
                assert found[0] == number
                np.testing.assert_allclose(found[1], weights, atol=1e-9)
        assert hits > 20


class TestDisplay:
    def test_strain_and_contact_have_colors_and_a_legend_with_numbers(
        self, start: Callable[..., LiveSimulation]
    ) -> None:
        live = start(load("drape", overrides=["cloth[0].shape.resolution=[9, 9]"]), running=False)
        for _ in range(3):
            live.step()
        view = until(live, lambda view: view.frame == 3)
        assert view.surface is not None
        vertices_on_solids = contact_values(view.surface, view.vertices_on_solids, view.vertices_on_cloth)
        corners = np.isin(view.surface.triangles, view.vertices_on_solids).any(axis=1)
        assert corners.any()
        np.testing.assert_array_equal((4.0 * vertices_on_solids).astype(int) & 1, corners)
        strains = strain_along(view.surface)(view.positions)
        values, colors = cloth_colors(WARP, 0.02, view.surface, strains)
        assert values is not None
        np.testing.assert_allclose(values, np.clip(0.5 + 25.0 * strains[:, 0], 0.0, 1.0))
        assert colors is SCALE
        assert cloth_colors(CLOTH, 0.02, view.surface)[0] is None
        assert "+2 %" in legend(WARP, 0.02, view.surface)
        assert "on a solid" in legend(CONTACT, 0.02, view.surface)
        assert "cotton" in legend(FABRIC, 0.02, view.surface)
        assert len({legend(mode, 0.02, view.surface) for mode in MODES[:-1]}) == 3  # warp and weft have the same

    def test_the_force_that_holds_a_corner_is_half_of_the_weight(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet("forces=[{type: viscous, rate: 30.0}]", "cloth[0].rotation=[90, 0, 0]"), running=False)
        for _ in range(60):
            live.step()
        view = until(live, lambda view: view.frame == 60)
        assert view.surface is not None
        corner = int(view.pinned[0])
        # 0.2 kg of cloth on two corners; by 60 frames it has come to rest within a few percent
        assert view.forces[corner, 2] == pytest.approx(0.5 * 0.2 * 9.81, rel=0.05)
        messages = dict(vertex_values(view, corner, strain_along(view.surface)(view.positions)))
        assert messages["vertex"] == f"{corner} of sheet (cotton)"
        assert messages["contact"] == "held"
        assert messages["reaction force"].endswith(f"{np.linalg.norm(view.forces[corner]):.4f} N")
