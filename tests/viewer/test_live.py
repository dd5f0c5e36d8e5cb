"""The live simulation without a browser: orders, pace, changes while it runs, the hand, and what it points at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from toile.errors import InputError
from toile.scene.load import load
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation
from toile.viewer.draw.coloring import CLOTH, CONTACT, FABRIC, MODES, WARP, contact_kinds, legend, shading
from toile.viewer.draw.colors import strain_along
from toile.viewer.draw.palette import SCALE
from toile.viewer.live import pins, vertex
from toile.viewer.live.changes import CHANGED, Choice, Slider, Switch, changed, parameters
from toile.viewer.live.controls import Controls
from toile.viewer.live.draw_rate import FEWEST, MOST, DrawRate
from toile.viewer.live.grab import STIFFNESS, Grab
from toile.viewer.live.live import FAILED, PAUSED, RUNNING, Live, View
from toile.viewer.live.pace import LARGEST_LAG, Pace
from toile.viewer.live.panel import status
from toile.viewer.live.picking import first_hit, nearest_point
from toile.viewer.live.scene_list import SceneList

PATIENCE = 40.0  # [s] kernels may have to be compiled, on a busy machine


def sheet(*overrides: str) -> Scene:
    """A sheet of 25 vertices that hangs from two corners."""
    return load("hang", overrides=["cloth[0].shape.resolution=[5, 5]", *overrides])


@pytest.fixture
def start(device: str) -> Iterator[Callable[..., Live]]:
    """Live simulations that end with the test."""
    started: list[Live] = []

    def make(scene: Scene, **more: Any) -> Live:
        started.append(Live(scene, device, **more))
        return started[-1]

    yield make
    for live in started:
        live.close()


def until(live: Live, condition: Callable[[View], bool]) -> View:
    """The first view for which it holds."""
    end = time.monotonic() + PATIENCE
    view = live.view
    while not condition(view):
        assert time.monotonic() < end, f"waited in vain: {view.state}, frame {view.frame}, {view.message}"
        view = live.wait(view.serial, 1.0)
    return view


def answer(live: Live, number: int) -> View:
    return until(live, lambda view: view.answered >= number)


class TestOrders:
    def test_it_runs_pauses_steps_and_begins_anew(self, start: Callable[..., Live]) -> None:
        live = start(sheet())
        assert until(live, lambda view: view.frame >= 3).state == RUNNING
        live.pause()
        paused = until(live, lambda view: view.state == PAUSED)
        live.step()
        live.step()
        stepped = until(live, lambda view: view.frame >= paused.frame + 2)
        time.sleep(0.2)
        assert (live.view.frame, live.view.state) == (paused.frame + 2, PAUSED)
        assert stepped.time == pytest.approx(stepped.frame / 30.0)
        live.restart()
        anew = until(live, lambda view: view.build > stepped.build)
        assert (anew.frame, anew.state) == (0, PAUSED)
        assert anew.surface is not None
        np.testing.assert_allclose(anew.positions, anew.surface.rest, atol=1e-6)
        live.play()
        assert until(live, lambda view: view.frame >= 1).state == RUNNING

    def test_frames_are_those_of_a_run(self, start: Callable[..., Live], device: str) -> None:
        live = start(sheet(), running=False)
        for _ in range(4):
            live.step()
        seen = until(live, lambda view: view.frame == 4)
        *_, frame = Simulation(sheet(), device).run(4)
        np.testing.assert_allclose(seen.positions, frame.positions, atol=1e-6)  # float32
        assert seen.entry is not None
        assert seen.entry["frame"] == 4

    def test_a_scene_that_cannot_be_opened_changes_nothing(self, start: Callable[..., Live]) -> None:
        live = start(sheet(), title="mine")
        before = until(live, lambda view: view.frame >= 1)
        view = answer(live, live.open(lambda: load("hagn"), "hagn"))
        assert "hang" in view.message
        assert (view.title, view.scene, view.build) == ("mine", before.scene, before.build)
        assert until(live, lambda later: later.frame > view.frame).state == RUNNING

    def test_a_first_scene_that_cannot_be_built_is_reported(self, start: Callable[..., Live]) -> None:
        live = start(sheet("integrator=explicit_euler"))
        failed = until(live, lambda view: view.state == FAILED)
        assert "max_step" in failed.message
        assert failed.surface is None
        view = answer(live, live.open(lambda: sheet(), "sheet"))
        assert (view.state, view.message, view.title) == (RUNNING, "", "sheet")

    def test_a_step_that_fails_stops_it_until_something_is_changed(self, start: Callable[..., Live]) -> None:
        live = start(sheet("solver.max_iterations=0", "solver.preconditioner=diagonal", "time.min_step=0.01"))
        failed = until(live, lambda view: view.state == FAILED)
        assert failed.message.startswith("StepFailed at t = 0 s")
        live.play()
        time.sleep(0.1)
        assert live.view.state == FAILED
        view = answer(live, live.change(lambda scene: changed(scene, ("solver", "max_iterations"), 2000)))
        assert (view.state, view.message) == (RUNNING, "")
        assert until(live, lambda later: later.frame >= 2).state == RUNNING

    def test_what_no_scene_is_to_blame_for_is_reported_too(self, start: Callable[..., Live]) -> None:
        live = start(sheet())
        view = answer(live, live.change(lambda scene: scene.nonsense))
        assert view.message.startswith("AttributeError")
        assert until(live, lambda later: later.frame > view.frame).state == RUNNING

    def test_only_the_latest_frame_is_kept(self, start: Callable[..., Live]) -> None:
        live = start(sheet("time.fps=1000", "time.max_step=0.001"))
        until(live, lambda view: view.frame >= 50)
        assert live._simulation is not None
        assert len(live._simulation.certificate.frames) <= 1


class TestPace:
    def test_frames_begin_when_they_are_due(self) -> None:
        now = [0.0]
        pace = Pace(lambda: now[0])
        for frame in range(1, 100):
            now[0] += 0.01
            assert pace.advanced(0.04) == pytest.approx(0.04 * frame)
            now[0] = 0.04 * frame
        assert pace.speed == pytest.approx(1.0)

    def test_what_takes_too_long_is_reported_and_not_caught_up_with(self) -> None:
        now = [0.0]
        pace = Pace(lambda: now[0])
        for _ in range(100):
            now[0] += 0.1
            assert pace.advanced(0.04) >= now[0] - LARGEST_LAG
        assert pace.speed == pytest.approx(0.4)
        pace.start()  # after a pause, which is not slowness
        assert pace.speed == 1.0

    def test_slow_frames_among_fast_ones_are_real_time_still(self) -> None:
        """30 and 45 ms in turn are 37.5 ms on average."""
        now = [0.0]
        pace = Pace(lambda: now[0])
        for frame in range(200):
            now[0] += 0.045 if frame % 2 else 0.030
            now[0] = max(now[0], pace.advanced(0.04))
        assert pace.speed > 0.99

    def test_it_is_not_faster_than_real_time(self, start: Callable[..., Live]) -> None:
        live = start(sheet())
        begin = until(live, lambda view: view.frame >= 1)
        clock = time.perf_counter()
        end = until(live, lambda view: view.frame >= begin.frame + 20)
        # One frame may have been due at once, and up to LARGEST_LAG is caught up with.
        assert end.time - begin.time <= time.perf_counter() - clock + LARGEST_LAG + 2.0 / 30.0

    def test_words(self, start: Callable[..., Live]) -> None:
        live = start(sheet(), running=False)
        live.step()
        view = until(live, lambda view: view.frame == 1)
        messages = status(view)
        assert "slower" not in messages
        assert "ms a frame" in messages


class TestDrawRate:
    def test_it_gives_way_to_the_simulation_and_comes_back(self) -> None:
        """A machine on which the simulation keeps real time up to 18 drawings a second."""
        rate, found = DrawRate(), []
        for second in range(60):
            rate.judge(min(1.0, 18.0 / rate.rate), float(second))
            found.append(rate.rate)
        assert all(13.0 <= value <= 21.0 for value in found[10:])
        for second in range(60, 100):
            rate.judge(0.3, float(second))
        assert rate.rate == FEWEST
        for second in range(100, 130):
            rate.judge(1.0, float(second))
        assert rate.rate == MOST


class TestChanges:
    def test_every_parameter_is_what_it_was_set_to(self) -> None:
        for name in ("hang", "drape", "flag", "stack", "pro95_flag", "ye08_skirt", "curtain", "needle"):
            scene = load(name)
            found = parameters(scene)
            assert len({parameter.key for parameter in found}) == len(found)
            for parameter in found:
                value = parameter.read(scene)
                if isinstance(parameter, Slider):
                    assert parameter.low <= float(value) <= parameter.high or float(value) == 0.0
                    wanted: Any = parameter.low + 0.3 * (parameter.high - parameter.low)
                elif isinstance(parameter, Choice):
                    assert value in parameter.options
                    wanted = parameter.options[-1]
                else:
                    wanted = not value
                other = parameter.apply(scene, wanted)
                assert parameter.read(other) == pytest.approx(wanted)
                assert other._folder == scene._folder
                assert parameter.read(scene) == value  # which did not change

    def test_only_what_a_scene_has_is_offered(self) -> None:
        labels = [parameter.label for parameter in parameters(sheet())]
        assert "stretch, warp" in labels
        assert not [label for label in labels if label.startswith(("wind, x", "friction"))]
        windy = next(p for p in parameters(sheet()) if p.label == "wind").apply(sheet(), True)
        assert "wind, x" in [parameter.label for parameter in parameters(windy)]
        assert [force.type_name() for force in windy.forces] == ["wind"]
        assert windy.forces[0].quadratic == sheet().forces[0].quadratic

    def test_a_changed_fabric_is_called_so(self) -> None:
        (stretch,) = (p for p in parameters(sheet()) if p.label == "stretch, warp")
        scene = stretch.apply(stretch.apply(sheet(), 100.0), 200.0)
        assert scene.cloth[0].fabric.name == "cotton" + CHANGED
        assert (scene.cloth[0].fabric.stretch_warp, scene.cloth[0].fabric.stretch_weft) == (200.0, 5000.0)
        (fabric,) = (p for p in parameters(scene) if p.label == "fabric")
        assert fabric.apply(scene, "cotton").cloth[0].fabric == sheet().cloth[0].fabric

    def test_values_that_are_not_allowed_are_refused_in_words(self) -> None:
        with pytest.raises(InputError, match=r"density = -1.0: must be > 0 \[kg/m\^2\]"):
            changed(sheet(), ("cloth", 0, "fabric", "density"), -1.0)
        with pytest.raises(InputError, match=r"min_step.*larger than max_step = 1e-06"):
            changed(sheet(), ("time", "max_step"), 1e-6)

    def test_it_goes_on_from_where_it_is(self, start: Callable[..., Live]) -> None:
        live = start(sheet(), running=False)
        for _ in range(5):
            live.step()
        before = until(live, lambda view: view.frame == 5)
        (gravity,) = (p for p in parameters(before.scene) if p.label == "gravity")
        after = answer(live, live.change(lambda scene: gravity.apply(scene, 0.0)))
        assert (after.frame, after.time, after.state) == (5, before.time, PAUSED)
        np.testing.assert_array_equal(after.positions, before.positions)
        np.testing.assert_array_equal(after.velocities, before.velocities)
        assert after.scene.gravity == (0.0, 0.0, 0.0)
        live.restart()
        anew = until(live, lambda view: view.frame == 0)
        assert anew.scene.gravity == (0.0, 0.0, 0.0)

    def test_a_change_that_cannot_be_built_is_reported_and_undone(self, start: Callable[..., Live]) -> None:
        live = start(sheet(), running=False)
        until(live, lambda view: view.state == PAUSED)
        (integrator,) = (p for p in parameters(sheet()) if p.label == "integrator")
        view = answer(live, live.change(lambda scene: integrator.apply(scene, "explicit_euler")))
        assert "max_step" in view.message
        assert view.scene.integrator.type_name() == "implicit_bdf2"
        live.step()
        assert until(live, lambda later: later.frame == 1).state == PAUSED


class Handle:
    """Of a control, as viser has it."""

    def __init__(self, label: str, value: Any, options: Any = (), min: float = 0.0, max: float = 0.0):
        self.label, self.value, self.options, self.min, self.max = label, value, options, min, max

    def on_update(self, update: Callable) -> None:
        self.update = update

    def move(self, value: Any) -> None:
        """Someone moves it."""
        self.value = value
        with pytest.raises(StopIteration):
            self.update(type("Event", (), {"client": "somebody"})()).send(None)


class Gui:
    """As much of viser's as controls need."""

    def __init__(self) -> None:
        self.handles: dict[str, Handle] = {}

    def add_folder(self, _: str, expand_by_default: bool) -> Any:
        return self

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def remove(self) -> None: ...

    def add_slider(self, label: str, min: float, max: float, initial_value: float, **_: Any) -> Handle:
        return self.handles.setdefault(label, Handle(label, initial_value, min=min, max=max))

    def add_dropdown(self, label: str, options: Any, initial_value: str, **_: Any) -> Handle:
        return self.handles.setdefault(label, Handle(label, initial_value, options))

    def add_checkbox(self, label: str, value: bool, **_: Any) -> Handle:
        return self.handles.setdefault(label, Handle(label, value))


class TestControls:
    def test_only_where_a_slider_rests_is_applied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now, ordered = [100.0], []
        monkeypatch.setattr("toile.viewer.live.controls.time.perf_counter", lambda: now[0])
        controls = Controls(gui := Gui(), gui, lambda change: ordered.append(change) or len(ordered))
        scene = sheet()
        controls.show(scene, 0)
        slider = gui.handles["stretch, warp"]
        assert slider.value == pytest.approx(np.log10(5000.0))
        assert "5000 N/m" in slider.label
        for place in (3.0, 2.5, 2.0):
            slider.move(place)
            now[0] += 0.1
            controls.work()
        assert not ordered
        now[0] += 0.1
        controls.work()
        (change,) = ordered
        assert change(scene).cloth[0].fabric.stretch_warp == 100.0
        controls.show(scene, 0)  # not answered yet: it stays where someone has put it
        assert slider.value == 2.0
        controls.show(scene, 1)  # refused
        assert slider.value == pytest.approx(np.log10(5000.0))
        for _ in range(10):  # a hand that does not rest
            slider.move(slider.value - 0.01)
            now[0] += 0.1
            controls.work()
        assert len(ordered) == 2

    def test_switches_and_lists(self) -> None:
        ordered: list[Any] = []
        controls = Controls(gui := Gui(), gui, lambda change: ordered.append(change) or 1)
        controls.show(sheet(), 0)
        gui.handles["wind"].move(True)
        gui.handles["fabric"].move("denim")
        time.sleep(0.2)
        controls.work()
        scene = ordered[0](sheet())
        assert (scene.forces[0].type_name(), scene.cloth[0].fabric.name) == ("wind", "denim")
        controls.show(scene, 1)
        assert "wind, y" in gui.handles
        assert isinstance(next(p for p in parameters(scene) if p.label == "wind"), Switch)

    def test_a_control_that_went_while_it_was_moved_is_no_matter(self) -> None:
        ordered: list[Any] = []
        controls = Controls(gui := Gui(), gui, lambda change: ordered.append(change) or 1)
        windy = sheet("forces=[{type: wind, velocity: [0, 1, 0]}]")
        controls.show(windy, 0)
        gone = gui.handles["wind, y"]
        controls.show(sheet(), 0)
        gone.move(2.0)
        time.sleep(0.2)
        controls.work()
        assert not ordered

    def test_another_scene_gets_nothing_that_was_set_before_it(self) -> None:
        ordered: list[Any] = []
        controls = Controls(gui := Gui(), gui, lambda change: ordered.append(change) or 1)
        controls.show(sheet(), 0)
        gui.handles["fabric"].move("denim")
        controls.forget()
        time.sleep(0.2)
        controls.work()
        assert not ordered

    def test_a_slider_has_the_range_of_its_scene(self) -> None:
        controls = Controls(gui := Gui(), gui, lambda _: 1)
        controls.show(sheet(), 0)
        slider = gui.handles["stretch, warp"]
        usual = slider.max
        controls.show(sheet("cloth[0].fabric.stretch_warp=1e9"), 0)
        assert usual < slider.value <= slider.max
        assert slider.value == pytest.approx(9.0)


class TestPins:
    def test_a_pinned_vertex_stays_and_a_freed_one_falls(self, start: Callable[..., Live]) -> None:
        live = start(sheet(), running=False)
        for _ in range(4):
            live.step()
        before = until(live, lambda view: view.frame == 4)
        corner = int(before.pinned[0])
        answer(live, live.change(lambda scene: pins.toggled(scene, 12)))
        answer(live, live.change(lambda scene: pins.toggled(scene, corner)))
        for _ in range(6):
            live.step()
        after = until(live, lambda view: view.frame == 10)
        np.testing.assert_allclose(after.positions[12], before.positions[12], atol=1e-6)
        np.testing.assert_allclose(after.velocities[12], 0.0, atol=1e-6)
        assert after.positions[corner, 2] < before.positions[corner, 2] - 0.01
        assert sorted(after.pinned) == sorted({12, *before.pinned} - {corner})

    def test_whatever_selected_a_vertex_the_others_stay_held(self) -> None:
        scene = sheet("constraints[0].where={edges: [upper]}")
        free = pins.toggled(scene, 22)
        assert [constraint.where.indices for constraint in free.constraints] == [(20, 21, 23, 24)]
        back = pins.toggled(free, 22)
        assert back.constraints[-1].where.indices == (22,)

    def test_numbers_are_those_of_the_source(self, tmp_path: Any) -> None:
        """A mesh whose vertex 1 no triangle uses, so that its others have other numbers in the simulation."""
        lines = ["v 0 0 0", "v 9 9 9", "v 1 0 0", "v 0 1 0", "v 1 1 0", "f 1 3 4", "f 3 5 4"]
        (tmp_path / "two.obj").write_text("\n".join(lines))
        cloth = "{name: two, shape: {type: mesh, file: two.obj}}"
        (tmp_path / "two.yaml").write_text(f"version: 1\nname: two\ncloth: [{cloth}]\n")
        scene = load(tmp_path / "two.yaml")
        pinned = pins.toggled(scene, 2)
        assert pinned.constraints[0].where.indices == (3,)
        assert pins.toggled(pinned, 2).constraints == ()


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

    def test_the_grabbed_point_comes_to_the_hand(self, start: Callable[..., Live]) -> None:
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

    def test_cloth_that_was_held_is_no_matter_in_a_smaller_scene(self, start: Callable[..., Live]) -> None:
        live = start(sheet(), running=False)
        view = until(live, lambda view: view.surface is not None)
        assert view.surface is not None
        last = int(np.argmax(view.surface.triangles.max(axis=1)))
        live.take(view.surface.triangles[last], np.full(3, 1.0 / 3.0), np.zeros(3))
        until(live, lambda view: view.grip is not None)
        smaller = load("hang", overrides=["cloth[0].shape.resolution=[3, 3]"])
        view = answer(live, live.open(lambda: smaller, "smaller"))
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


class TestLook:
    def test_strain_and_contact_have_colors_and_a_legend_with_numbers(self, start: Callable[..., Live]) -> None:
        live = start(load("drape", overrides=["cloth[0].shape.resolution=[9, 9]"]), running=False)
        for _ in range(3):
            live.step()
        view = until(live, lambda view: view.frame == 3)
        assert view.surface is not None
        vertices_on_solids = contact_kinds(view)
        corners = np.isin(view.surface.triangles, view.vertices_on_solids).any(axis=1)
        assert corners.any()
        np.testing.assert_array_equal((4.0 * vertices_on_solids).astype(int) & 1, corners)
        strains = strain_along(view.surface)(view.positions)
        values, colors = shading(WARP, 0.02, view, strains)
        assert values is not None
        np.testing.assert_allclose(values, np.clip(0.5 + 25.0 * strains[:, 0], 0.0, 1.0))
        assert colors is SCALE
        assert shading(CLOTH, 0.02, view, None)[0] is None
        assert "+2 %" in legend(WARP, 0.02, view.surface)
        assert "on a solid" in legend(CONTACT, 0.02, view.surface)
        assert "cotton" in legend(FABRIC, 0.02, view.surface)
        assert len({legend(mode, 0.02, view.surface) for mode in MODES[:-1]}) == 3  # warp and weft have the same

    def test_the_force_that_holds_a_corner_is_half_of_the_weight(self, start: Callable[..., Live]) -> None:
        live = start(sheet("forces=[{type: viscous, rate: 30.0}]", "cloth[0].rotation=[90, 0, 0]"), running=False)
        for _ in range(60):
            live.step()
        view = until(live, lambda view: view.frame == 60)
        assert view.surface is not None
        corner = int(view.pinned[0])
        # 0.2 kg of cloth on two corners; by 60 frames it has come to rest within a few percent
        assert view.forces[corner, 2] == pytest.approx(0.5 * 0.2 * 9.81, rel=0.05)
        messages = dict(vertex.values(view, corner, strain_along(view.surface)(view.positions)))
        assert messages["vertex"] == f"{corner} of sheet (cotton)"
        assert messages["contact"] == "held"
        assert messages["force that holds it"].endswith(f"{np.linalg.norm(view.forces[corner]):.4f} N")


class TestSceneList:
    def test_what_was_given_stays_beside_what_is_shipped(self) -> None:
        assert SceneList(load("hang")).titles.count("hang") == 1
        scene_list = SceneList(sheet())
        assert scene_list.own == "hang (as given)"
        assert scene_list.read("hang (as given)") == sheet()
        assert scene_list.read("hang") == load("hang")
        assert SceneList(sheet("name=mine")).titles[0] == "mine"
