"""Sliders, lists and switches for what can be changed while a scene runs (toile/viewer/live/changes.py).

A change builds a simulation anew, which takes a moment. Of a slider on its way only the places where it rests are
applied. What a scene does not accept goes back to what it was.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from toile.scene.schema import Scene
from toile.viewer.draw.text import number
from toile.viewer.live.changes import Choice, Parameter, Slider, Switch, Value, parameters

# A control that has not moved for so long is meant [s]; one that does not stop is applied so often nevertheless.
RESTED, LONGEST = 0.15, 0.6

# More groups than these are closed at first.
MAX_OPEN = 5

# Parts of a slider
STEPS = 200

Change = Callable[[Scene], Scene]


class Controls:
    """Controls for one scene at a time, in a container of the panel."""

    def __init__(self, gui: Any, container: Any, change: Callable[[Change], int]):
        """`change` orders a change and returns its number (Live.change)."""
        self._gui, self._container, self._change = gui, container, change
        self._folders: list[Any] = []
        self._controls: dict[str, _Control] = {}
        self._lock = threading.Lock()
        self._wanted: dict[str, Value] = {}
        self._first, self._last = 0.0, 0.0
        self._order = 0
        self._shown: tuple[Scene | None, int] = (None, -1)

    def show(self, scene: Scene, answered: int) -> None:
        """The values of a scene; `answered` is the number of the last change that was made or refused."""
        with self._lock:
            if self._wanted or answered < self._order or (self._shown[0] is scene and self._shown[1] == answered):
                return  # someone is about to change them, or nobody has
            self._shown = (scene, answered)
        now = parameters(scene)
        if [(p.key, type(p)) for p in now] != [(p.key, type(p)) for p in self._parameters()]:
            self._build(now)
        for parameter in now:
            self._controls[parameter.key].show(parameter, scene)

    def work(self) -> None:
        """Call it often: orders what someone has set."""
        now = time.perf_counter()
        with self._lock:
            if not self._wanted or (now - self._last < RESTED and now - self._first < LONGEST):
                return
            wanted, self._wanted = self._wanted, {}
            # One that was moved while another scene came may be gone.
            known = [(self._controls[key], value) for key, value in wanted.items() if key in self._controls]
            changes = [(control.parameter, value) for control, value in known]
            if not changes:
                return

        def change(scene: Scene) -> Scene:
            for parameter, value in changes:
                scene = parameter.apply(scene, value)
            return scene

        self._order = self._change(change)

    def forget(self) -> None:
        """What was set is not meant for the scene that comes now."""
        with self._lock:
            self._wanted = {}

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
            self._first = self._first if self._wanted else self._last
            self._wanted[key] = value


class _Control:
    """One parameter in the panel."""

    def __init__(self, parameter: Parameter, handle: Any, moved: Callable[[str, Value], None]):
        self.parameter, self.handle = parameter, handle

        async def update(event: Any) -> None:
            if event.client is not None:  # not by `show`
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
    """A figure that spans decades has a slider for its power of ten; the label says what it is."""

    parameter: Slider

    def value(self) -> float:
        place = float(self.handle.value)
        return float(f"{10.0**place:.3g}") if self.parameter.logarithmic else place

    def show(self, parameter: Parameter, scene: Scene) -> None:
        assert isinstance(parameter, Slider)
        self.parameter = parameter
        value = float(parameter.read(scene))
        low, high = ends(parameter)
        place = min(max(_place(parameter, value), low), high)
        if (self.handle.min, self.handle.max) != (low, high):  # another scene has another range
            self.handle.min, self.handle.max = low, high
        # Not for less than a step: a hand that is still moving it would feel every word.
        if abs(self.handle.value - place) > 0.5 * (high - low) / STEPS:
            self.handle.value = place
        if self.handle.label != (label := _label(parameter, value)):
            self.handle.label = label


def _control(gui: Any, parameter: Parameter, moved: Callable[[str, Value], None]) -> _Control:
    hint = parameter.doc or None
    if isinstance(parameter, Slider):
        low, high = ends(parameter)
        unit = f"{parameter.doc} [{parameter.unit}]" if parameter.unit else parameter.doc
        hint = f"{unit}; the slider is its power of ten" if parameter.logarithmic else unit
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
    """Of the slider."""
    return _place(parameter, parameter.low), _place(parameter, parameter.high)


def _place(parameter: Slider, value: float) -> float:
    if not parameter.logarithmic:
        return value
    return math.log10(value) if value > 0.0 else math.log10(parameter.low)


def _label(parameter: Slider, value: float) -> str:
    return f"{parameter.label} {number(value)} {parameter.unit}".rstrip() if parameter.logarithmic else parameter.label
