"""What stands beside the cloth in the live page: how it runs, what its colors mean, what can be changed, plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toile.viewer.draw.coloring import CLOTH, MODES, WARP, WEFT, legend
from toile.viewer.draw.plots import Plots
from toile.viewer.draw.text import plain
from toile.viewer.live import vertex
from toile.viewer.live.controls import Controls
from toile.viewer.live.live import FAILED, PREPARING, RUNNING, Live, View
from toile.viewer.live.scene_list import SceneList

PAUSE, PLAY, STEP, RESTART = "Pause", "Play", "Step", "Restart"
SHOWS, PINS = "shows a vertex", "pins it or frees it"

# Slower than real time by more than this is told.
SHOWN_SLOWNESS = 0.95


class LivePanel:
    """Tells the simulation what the hand does, and shows what it is told."""

    def __init__(self, server: Any, live: Live, scene_list: SceneList):
        self.server, self.live, self.scene_list = server, live, scene_list
        self._opening, self._title = 0, ""  # number of the last order to open a scene, and what the panel is called
        gui = server.gui
        gui.configure_theme(show_logo=False)
        gui.main_panel.dock_right()
        self.status = gui.add_markdown("")
        self.chooser = gui.add_dropdown("scene", scene_list.titles, initial_value=scene_list.own)
        self.run = gui.add_button_group("run", (PAUSE, STEP, RESTART))
        tabs = gui.add_tab_group()
        with tabs.add_tab("Look"):
            self.color = gui.add_dropdown("color", MODES, initial_value=CLOTH)
            self.limit = gui.add_slider(
                "full at [%]", 0.5, 50.0, 0.5, 5.0, visible=False, hint="strain of the strongest colors"
            )
            self.legend = gui.add_html("")
            self.click = gui.add_dropdown("a click", (SHOWS, PINS), initial_value=SHOWS)
            self.values = gui.add_markdown("Click at the cloth to see the figures of a vertex; drag it to pull.")
        self.controls = Controls(gui, tabs.add_tab("Change"), live.change)
        with tabs.add_tab("Plots"):
            self.plots = Plots(gui)
        self._connect()

    def update(self, view: View) -> None:
        """Words, and the values of all controls."""
        if self._title != view.title:
            self._title = view.title
            self.server.gui.set_panel_label(f"Toile: {view.title}")
        _set(self.status, "content", status(view))
        _set(self.run, "options", (PAUSE if view.state == RUNNING else PLAY, STEP, RESTART))
        if self._opening <= view.answered and self.chooser.value != view.title:
            self.chooser.value = view.title
        self.controls.show(view.scene, view.answered)
        if view.surface is not None:
            limit = 0.01 * self.limit.value
            _set(self.legend, "content", legend(self.color.value, limit, view.surface))

    def show_vertex(self, view: View, number: int, strains: np.ndarray) -> None:
        rows = [f"| {name} | {plain(value)} |" for name, value in vertex.values(view, number, strains)]
        _set(self.values, "content", "\n".join(["| | |", "|---|---|", *rows]))

    def plot(self, entries: Sequence[dict[str, Any]]) -> None:
        self.plots.show(entries)

    def _connect(self) -> None:
        """`async`: viser calls such functions one after the other."""

        async def chosen(event: Any) -> None:
            if event.client is not None:
                title = self.chooser.value
                self.controls.forget()
                self._opening = self.live.open(lambda: self.scene_list.read(title), title)

        async def pressed(_: Any) -> None:
            live = self.live
            {PAUSE: live.pause, PLAY: live.play, STEP: live.step, RESTART: live.restart}[self.run.value]()

        async def colored(_: Any) -> None:
            self.limit.visible = self.color.value in (WARP, WEFT)

        self.chooser.on_update(chosen)
        self.run.on_click(pressed)
        self.color.on_update(colored)


def status(view: View) -> str:
    """How it runs, in words."""
    lines = [f"**{view.state}** · frame {view.frame} · {view.time:.2f} s"]
    if view.state == PREPARING:
        lines.append("builds the scene; what is new to this machine is compiled first")
    elif view.entry is not None:
        lines.append(pace(view))
    if view.message:
        lines.append(f"**{plain(view.message)}**")
    if view.state == FAILED:
        lines.append("Restart it, change something, or choose another scene.")
    lines += [plain(warning) for warning in view.warnings]
    return "\n\n".join(lines)


def pace(view: View) -> str:
    took = f"{view.milliseconds:.0f} ms a frame"
    if view.state != RUNNING:
        return took
    if view.speed >= SHOWN_SLOWNESS:
        return f"in real time · {took}"
    return f"{1.0 / view.speed:.1f} times slower than real time · {took}"


def _set(handle: Any, name: str, value: Any) -> None:
    """Only what is new is sent."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)
