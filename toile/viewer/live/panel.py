"""The panel of the live page: state, colors and their legend, parameters, plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toile.viewer.draw.color_modes import CLOTH, MODES, WARP, WEFT, legend
from toile.viewer.draw.plots import Plots
from toile.viewer.draw.text import plain
from toile.viewer.live.live_simulation import LiveSimulation
from toile.viewer.live.parameter_controls import ParameterControls
from toile.viewer.live.scene_list import SceneList
from toile.viewer.live.snapshot import FAILED, PREPARING, RUNNING, Snapshot
from toile.viewer.live.vertex_values import vertex_values

PAUSE, PLAY, STEP, RESTART = "Pause", "Play", "Step", "Restart"
SHOWS, PINS = "shows a vertex", "pins or unpins it"

# The panel reports a lower speed, as simulated time / real time.
REAL_TIME = 0.95


class LivePanel:
    """Passes input to the simulation and shows its state."""

    def __init__(self, server: Any, live: LiveSimulation, scene_list: SceneList):
        self.server, self.live, self.scene_list = server, live, scene_list
        self._opening, self._title = 0, ""  # number of the last request to open a scene, and the label of the panel
        gui = server.gui
        gui.configure_theme(show_logo=False)
        gui.main_panel.dock_right()
        self.status = gui.add_markdown("")
        self.chooser = gui.add_dropdown("scene", scene_list.titles, initial_value=scene_list.own)
        self.run = gui.add_button_group("run", (PAUSE, STEP, RESTART))
        tabs = gui.add_tab_group()
        with tabs.add_tab("Display"):
            self.color = gui.add_dropdown("color", MODES, initial_value=CLOTH)
            self.limit = gui.add_slider(
                "full color at [%]", 0.5, 50.0, 0.5, 5.0, visible=False, hint="strain of the strongest colors"
            )
            self.legend = gui.add_html("")
            self.click = gui.add_dropdown("a click", (SHOWS, PINS), initial_value=SHOWS)
            self.values = gui.add_markdown("Click on the cloth to see the values of a vertex; drag it to pull.")
        self.controls = ParameterControls(gui, tabs.add_tab("Change"), live.change)
        with tabs.add_tab("Plots"):
            self.plots = Plots(gui)
        self._connect()

    def update(self, snapshot: Snapshot) -> None:
        """Updates the text and the values of all controls."""
        if self._title != snapshot.title:
            self._title = snapshot.title
            self.server.gui.set_panel_label(f"Toile: {snapshot.title}")
        _set(self.status, "content", status(snapshot))
        _set(self.run, "options", (PAUSE if snapshot.state == RUNNING else PLAY, STEP, RESTART))
        if self._opening <= snapshot.handled and self.chooser.value != snapshot.title:
            self.chooser.value = snapshot.title
        self.controls.show(snapshot.scene, snapshot.handled)
        if snapshot.surface is not None:
            limit = 0.01 * self.limit.value
            _set(self.legend, "content", legend(self.color.value, limit, snapshot.surface))

    def show_vertex(self, snapshot: Snapshot, vertex: int, strains: np.ndarray) -> None:
        rows = [f"| {name} | {plain(value)} |" for name, value in vertex_values(snapshot, vertex, strains)]
        _set(self.values, "content", "\n".join(["| | |", "|---|---|", *rows]))

    def plot(self, entries: Sequence[dict[str, Any]]) -> None:
        self.plots.show(entries)

    def _connect(self) -> None:
        """Handlers are `async`, because viser calls such functions in order."""

        async def chosen(event: Any) -> None:
            if event.client is not None:
                title = self.chooser.value
                self.controls.discard_pending()
                self._opening = self.live.open(lambda: self.scene_list.read(title), title)

        async def pressed(_: Any) -> None:
            live = self.live
            {PAUSE: live.pause, PLAY: live.play, STEP: live.step, RESTART: live.restart}[self.run.value]()

        async def colored(_: Any) -> None:
            self.limit.visible = self.color.value in (WARP, WEFT)

        self.chooser.on_update(chosen)
        self.run.on_click(pressed)
        self.color.on_update(colored)


def status(snapshot: Snapshot) -> str:
    """Returns the state of the simulation as Markdown."""
    lines = [f"**{snapshot.state}** · frame {snapshot.frame} · {snapshot.time:.2f} s"]
    if snapshot.state == PREPARING:
        lines.append("building the scene; kernels that are new on this machine are compiled first")
    elif snapshot.entry is not None:
        lines.append(speed(snapshot))
    if snapshot.message:
        lines.append(f"**{plain(snapshot.message)}**")
    if snapshot.state == FAILED:
        lines.append("Restart the scene, change something, or choose another one.")
    lines += [plain(warning) for warning in snapshot.warnings]
    return "\n\n".join(lines)


def speed(snapshot: Snapshot) -> str:
    time_per_frame = f"{snapshot.milliseconds:.0f} ms per frame"
    if snapshot.state != RUNNING:
        return time_per_frame
    if snapshot.speed >= REAL_TIME:
        return f"in real time · {time_per_frame}"
    return f"{1.0 / snapshot.speed:.1f} times slower than real time · {time_per_frame}"


def _set(handle: Any, name: str, value: Any) -> None:
    """Sets a property of a handle only if it changes, because viser sends it to all pages."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)
