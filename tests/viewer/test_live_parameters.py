"""Parameters of a live simulation: which there are, their controls, and the scenes to open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from live_runs import handled, sheet, until

from toile.errors import InputError
from toile.scene.load import load
from toile.viewer.live.live_simulation import LiveSimulation
from toile.viewer.live.parameter_controls import ParameterControls
from toile.viewer.live.parameters import CHANGED, Choice, Slider, Switch, parameters
from toile.viewer.live.scene_edits import with_value
from toile.viewer.live.scene_list import SceneList
from toile.viewer.live.snapshot import PAUSED


class TestParameters:
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
        assert not [label for label in labels if label.startswith("wind, x")]
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
            with_value(sheet(), ("cloth", 0, "fabric", "density"), -1.0)
        with pytest.raises(InputError, match=r"min_step.*larger than max_step = 1e-06"):
            with_value(sheet(), ("time", "max_step"), 1e-6)

    def test_it_goes_on_from_where_it_is(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet(), running=False)
        for _ in range(5):
            live.step()
        before = until(live, lambda view: view.frame == 5)
        (gravity,) = (p for p in parameters(before.scene) if p.label == "gravity")
        after = handled(live, live.change(lambda scene: gravity.apply(scene, 0.0)))
        assert (after.frame, after.time, after.state) == (5, before.time, PAUSED)
        np.testing.assert_array_equal(after.positions, before.positions)
        np.testing.assert_array_equal(after.velocities, before.velocities)
        assert after.scene.gravity == (0.0, 0.0, 0.0)
        live.restart()
        anew = until(live, lambda view: view.frame == 0)
        assert anew.scene.gravity == (0.0, 0.0, 0.0)

    def test_a_change_that_cannot_be_built_is_reported_and_undone(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet(), running=False)
        until(live, lambda view: view.state == PAUSED)
        (integrator,) = (p for p in parameters(sheet()) if p.label == "integrator")
        view = handled(live, live.change(lambda scene: integrator.apply(scene, "explicit_euler")))
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


class TestParameterControls:
    def test_only_where_a_slider_rests_is_applied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now, ordered = [100.0], []
        monkeypatch.setattr("toile.viewer.live.parameter_controls.time.perf_counter", lambda: now[0])
        controls = ParameterControls(gui := Gui(), gui, lambda change: ordered.append(change) or len(ordered))
        scene = sheet()
        controls.show(scene, 0)
        slider = gui.handles["stretch, warp"]
        assert slider.value == pytest.approx(np.log10(5000.0))
        assert "5000 N/m" in slider.label
        for place in (3.0, 2.5, 2.0):
            slider.move(place)
            now[0] += 0.1
            controls.apply_pending()
        assert not ordered
        now[0] += 0.1
        controls.apply_pending()
        (change,) = ordered
        assert change(scene).cloth[0].fabric.stretch_warp == 100.0
        controls.show(scene, 0)  # not answered yet: it stays where someone has put it
        assert slider.value == 2.0
        controls.show(scene, 1)  # refused
        assert slider.value == pytest.approx(np.log10(5000.0))
        for _ in range(10):  # a hand that does not rest
            slider.move(slider.value - 0.01)
            now[0] += 0.1
            controls.apply_pending()
        assert len(ordered) == 2

    def test_switches_and_lists(self) -> None:
        ordered: list[Any] = []
        controls = ParameterControls(gui := Gui(), gui, lambda change: ordered.append(change) or 1)
        controls.show(sheet(), 0)
        gui.handles["wind"].move(True)
        gui.handles["fabric"].move("denim")
        time.sleep(0.2)
        controls.apply_pending()
        scene = ordered[0](sheet())
        assert (scene.forces[0].type_name(), scene.cloth[0].fabric.name) == ("wind", "denim")
        controls.show(scene, 1)
        assert "wind, y" in gui.handles
        assert isinstance(next(p for p in parameters(scene) if p.label == "wind"), Switch)

    def test_a_control_that_went_while_it_was_moved_is_no_matter(self) -> None:
        ordered: list[Any] = []
        controls = ParameterControls(gui := Gui(), gui, lambda change: ordered.append(change) or 1)
        windy = sheet("forces=[{type: wind, velocity: [0, 1, 0]}]")
        controls.show(windy, 0)
        gone = gui.handles["wind, y"]
        controls.show(sheet(), 0)
        gone.move(2.0)
        time.sleep(0.2)
        controls.apply_pending()
        assert not ordered

    def test_another_scene_gets_nothing_that_was_set_before_it(self) -> None:
        ordered: list[Any] = []
        controls = ParameterControls(gui := Gui(), gui, lambda change: ordered.append(change) or 1)
        controls.show(sheet(), 0)
        gui.handles["fabric"].move("denim")
        controls.discard_pending()
        time.sleep(0.2)
        controls.apply_pending()
        assert not ordered

    def test_a_slider_has_the_range_of_its_scene(self) -> None:
        controls = ParameterControls(gui := Gui(), gui, lambda _: 1)
        controls.show(sheet(), 0)
        slider = gui.handles["stretch, warp"]
        usual = slider.max
        controls.show(sheet("cloth[0].fabric.stretch_warp=1e9"), 0)
        assert usual < slider.value <= slider.max
        assert slider.value == pytest.approx(9.0)


class TestSceneList:
    def test_what_was_given_stays_beside_what_is_shipped(self) -> None:
        assert SceneList(load("hang")).titles.count("hang") == 1
        scene_list = SceneList(sheet())
        assert scene_list.own == "hang (as given)"
        assert scene_list.read("hang (as given)") == sheet()
        assert scene_list.read("hang") == load("hang")
        assert SceneList(sheet("name=mine")).titles[0] == "mine"
