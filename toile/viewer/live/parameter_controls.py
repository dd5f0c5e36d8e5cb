"""Sliders, lists and switches for the parameters of a running scene (parameters.py).

A change builds a new simulation, which takes a moment. So the value of a moving slider is applied when it rests. A
control returns to its previous value if the scene does not accept the new one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from toile.scene.schema import Scene
from toile.viewer.draw.text import number
from toile.viewer.live.parameters import Choice, Parameter, Slider, Switch, Value, parameters

# The value of a control is applied after this time without movement, and after MAX_DELAY in any case [s]
REST, MAX_DELAY = 0.15, 0.6

# If there are more groups, all are collapsed at first.
MAX_OPEN = 5

# Number of steps of a slider
STEPS = 200

Change = Callable[[Scene], Scene]


class ParameterControls:
    """Controls for one scene at a time, in a container of the panel."""

    def __init__(self, gui: Any, container: Any, change: Callable[[Change], int]):
        """`change` requests a change and returns its number (LiveSimulation.change)."""
        self._gui, self._container, self._change = gui, container, change
        self._folders: list[Any] = []
        self._controls: dict[str, _Control] = {}
        self._lock = threading.Lock()
        self._pending: dict[str, Value] = {}
        self._first, self._last = 0.0, 0.0
        self._request = 0
        self._shown: tuple[Scene | None, int] = (None, -1)

    def show(self, scene: Scene, handled: int) -> None:
        """Shows the values of a scene; `handled` is the number of the last change that was carried out or refused."""
        with self._lock:
            if self._pending or handled < self._request or (self._shown[0] is scene and self._shown[1] == handled):
                return  # a change is under way, or nothing has changed
            self._shown = (scene, handled)
        now = parameters(scene)
        if [(p.key, type(p)) for p in now] != [(p.key, type(p)) for p in self._parameters()]:
            self._build(now)
        for parameter in now:
            self._controls[parameter.key].show(parameter, scene)

    def apply_pending(self) -> None:
        """Requests a change with the values that the user has set. Call it often."""
        now = time.perf_counter()
        with self._lock:
            if not self._pending or (now - self._last < REST and now - self._first < MAX_DELAY):
                return
            pending, self._pending = self._pending, {}
            # A control that was moved while another scene was opened may not exist any more.
            known = [(self._controls[key], value) for key, value in pending.items() if key in self._controls]
            changes = [(control.parameter, value) for control, value in known]
            if not changes:
                return

        def change(scene: Scene) -> Scene:
            for parameter, value in changes:
                scene = parameter.apply(scene, value)
            return scene

        self._request = self._change(change)

    def discard_pending(self) -> None:
        """Discards values that were set for the previous scene."""
        with self._lock:
            self._pending = {}

    def _parameters(self) -> list[Parameter]:
        return [control.parameter for control in self._controls.values()]

    def _build(self, wanted: list[Parameter]) -> None:
        for folder in self._folders:
            folder.remove()
        self._folders, self._controls = [], {}
        groups = dict.fromkeys(parameter.group for parameter in wanted)
        for group in groups:
            with self._container:
                folder = self._gui.add_folder(group, expand_by_default=len(groups) <= MAX_OPEN)
            self._folders.append(folder)
            with folder:
                for parameter in wanted:
                    if parameter.group == group:
                        self._controls[parameter.key] = _control(self._gui, parameter, self._set)

    def _set(self, key: str, value: Value) -> None:
        with self._lock:
            self._last = time.perf_counter()
            self._first = self._first if self._pending else self._last
            self._pending[key] = value


class _Control:
    """One parameter in the panel."""

    def __init__(self, parameter: Parameter, handle: Any, moved: Callable[[str, Value], None]):
        self.parameter, self.handle = parameter, handle

        async def update(event: Any) -> None:
            if event.client is not None:  # not set by `show`
                moved(self.parameter.key, self.value())

        handle.on_update(update)

    def value(self) -> Value:
        return self.handle.value

    def show(self, parameter: Parameter, scene: Scene) -> None:
        self.parameter = parameter
        if self.handle.value != (value := parameter.read(scene)):
            self.handle.value = value


class _List(_Control):
    def show(self, parameter: Parameter, scene: Scene) -> None:
        assert isinstance(parameter, Choice)
        if tuple(self.handle.options) != parameter.options:
            self.handle.options = parameter.options
        super().show(parameter, scene)


class _Slide(_Control):
    """A slider. A logarithmic one has the decimal logarithm as its position, and the value in its label."""

    parameter: Slider

    def value(self) -> float:
        position = float(self.handle.value)
        return float(f"{10.0**position:.3g}") if self.parameter.logarithmic else position

    def show(self, parameter: Parameter, scene: Scene) -> None:
        assert isinstance(parameter, Slider)
        self.parameter = parameter
        value = float(parameter.read(scene))
        low, high = ends(parameter)
        position = min(max(_position(parameter, value), low), high)
        if (self.handle.min, self.handle.max) != (low, high):  # another scene has another range
            self.handle.min, self.handle.max = low, high
        # Smaller corrections would disturb a user who is still moving the slider.
        if abs(self.handle.value - position) > 0.5 * (high - low) / STEPS:
            self.handle.value = position
        if self.handle.label != (label := _label(parameter, value)):
            self.handle.label = label


def _control(gui: Any, parameter: Parameter, moved: Callable[[str, Value], None]) -> _Control:
    hint = parameter.doc or None
    if isinstance(parameter, Slider):
        low, high = ends(parameter)
        unit = f"{parameter.doc} [{parameter.unit}]" if parameter.unit else parameter.doc
        hint = f"{unit}; the slider sets its power of ten" if parameter.logarithmic else unit
        handle = gui.add_slider(
            parameter.label, min=low, max=high, step=(high - low) / STEPS, initial_value=low, hint=hint
        )
        return _Slide(parameter, handle, moved)
    if isinstance(parameter, Choice):
        options = parameter.options
        return _List(parameter, gui.add_dropdown(parameter.label, options, initial_value=options[0], hint=hint), moved)
    assert isinstance(parameter, Switch)
    return _Control(parameter, gui.add_checkbox(parameter.label, False, hint=hint), moved)


def ends(parameter: Slider) -> tuple[float, float]:
    """The positions at the ends of the slider."""
    return _position(parameter, parameter.low), _position(parameter, parameter.high)


def _position(parameter: Slider, value: float) -> float:
    if not parameter.logarithmic:
        return value
    return math.log10(value) if value > 0.0 else math.log10(parameter.low)


def _label(parameter: Slider, value: float) -> str:
    return f"{parameter.label} {number(value)} {parameter.unit}".rstrip() if parameter.logarithmic else parameter.label
