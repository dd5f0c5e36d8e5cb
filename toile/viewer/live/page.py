"""The live page: what is drawn when, and what happens when someone touches the cloth.

The simulation is on a thread of its own and waits for nobody. The thread here takes the latest state there is, and
viser keeps only the latest of what a slow browser has not fetched: frames are dropped, nothing queues up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from toile.scene.schema import Scene
from toile.viewer.draw.coloring import WARP, WEFT, shading
from toile.viewer.draw.colors import strain_along
from toile.viewer.draw.drawing import SceneDrawing
from toile.viewer.live import pins
from toile.viewer.live.draw_rate import DrawRate
from toile.viewer.live.live import RUNNING, Live, View
from toile.viewer.live.panel import PINS, LivePanel
from toile.viewer.live.picking import first_hit, nearest_point
from toile.viewer.live.scene_list import SceneList

UPDATES_PER_SECOND = 4.0
PLOTTED_PER_SECOND = 1.5

# Frames that the plots go back
PLOTTED = 300

# How long controls may wait while nothing moves [s]
PATIENCE = 0.1

log = logging.getLogger(__name__)


class LivePage:
    """One server, one simulation, any number of browsers."""

    def __init__(self, server: Any, scene: Scene, device: str = "cpu"):
        self.server = server
        scene_list = SceneList(scene)
        self.live = Live(scene, device, title=scene_list.own)
        self.drawing = SceneDrawing(server, on_drag=self._dragged)
        self.panel = LivePanel(server, self.live, scene_list)
        self.picked: int | None = None
        self._strain: Callable[[np.ndarray], np.ndarray] | None = None
        self._entries: deque[dict[str, Any]] = deque(maxlen=PLOTTED)
        self._rate = DrawRate()
        self._serial, self._updated, self._plotted = -1, 0.0, 0.0
        self._shown: tuple[Any, ...] = ()
        self._closing = threading.Event()
        server.scene.set_up_direction("+z")
        server.scene.on_click()(self._clicked)  # not of the meshes: viser would draw a fat outline around them
        self._thread = threading.Thread(target=self._publish, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self.live.close()
        self._thread.join()

    # What a hand does; events come in order only to `async` functions

    async def _dragged(self, event: Any) -> None:
        view = self.live.view
        if event.phase == "end":
            self.live.let_go()
        elif event.phase == "update":
            self.live.follow(event.end_position)
        elif view.surface is not None:
            triangles = view.surface.triangles
            triangle, weights = nearest_point(event.start_position, view.positions, triangles)
            self.live.take(triangles[triangle], weights, event.end_position)

    async def _clicked(self, event: Any) -> None:
        view = self.live.view
        if view.surface is None:
            return
        hit = first_hit(event.ray_origin, event.ray_direction, view.positions, view.surface.triangles)
        if hit is None:  # beside the cloth, or where it was when it was drawn
            return
        triangle, weights = hit
        picked = self.picked = int(view.surface.triangles[triangle][np.argmax(weights)])
        if self.panel.click.value == PINS:
            self.live.change(lambda scene: pins.toggled(scene, picked))

    # The thread that draws

    def _publish(self) -> None:
        while not self._closing.is_set():
            begin = time.perf_counter()
            view = self.live.wait(self._serial, PATIENCE)
            try:
                self._show(view, begin)
            except Exception:  # a page that goes on with an old picture and says nothing would be worse
                log.exception("The page could not be drawn.")
                self._closing.wait(1.0)
            if view.state == RUNNING and view.serial != self._serial:
                self._rate.judge(view.speed, begin)
            self._serial = view.serial
            self._closing.wait(max(0.0, 1.0 / self._rate.rate - (time.perf_counter() - begin)))

    def _show(self, view: View, now: float) -> None:
        """What is new, and what is due again."""
        if view.surface is not None:
            if self.drawing.surface is not view.surface:
                self._begin(view)
            look = (view.serial, self.panel.color.value, self.panel.limit.value, self.picked)
            if look != self._shown:
                self._shown = look
                self._draw(view)
        self._remember(view)
        self.panel.controls.work()
        if now - self._updated > 1.0 / UPDATES_PER_SECOND or (view.state != RUNNING and view.serial != self._serial):
            self._updated = now
            self._update_text(view)
        if now - self._plotted > 1.0 / PLOTTED_PER_SECOND and self._entries:
            self._plotted = now
            self.panel.plot(self._entries)

    def _begin(self, view: View) -> None:
        """A new simulation, maybe of other things to look at."""
        assert view.surface is not None
        self._strain = strain_along(view.surface)
        if self.drawing.build(view.surface):
            self.picked = None
            self.drawing.look(view.surface.rest)

    def _draw(self, view: View) -> None:
        strains = self._strains(view) if self.panel.color.value in (WARP, WEFT) else None
        values, colors = shading(self.panel.color.value, 0.01 * self.panel.limit.value, view, strains)
        mark = self.picked if self.picked is not None and self.picked < len(view.positions) else None
        self.drawing.show(view.positions, view.solids, view.pinned, view.grip, values, colors, mark)

    def _update_text(self, view: View) -> None:
        self.panel.update(view)
        if self.picked is not None and self.picked < len(view.positions):
            self.panel.show_vertex(view, self.picked, self._strains(view))

    def _strains(self, view: View) -> np.ndarray:
        """Of the triangles along warp and weft, from what is at rest."""
        assert self._strain is not None
        strains = self._strain(view.positions)
        return strains if view.rest_stretch is None else (strains + 1.0) / view.rest_stretch - 1.0

    def _remember(self, view: View) -> None:
        """One entry for each frame that was seen; those of a run that began anew are gone."""
        entry, entries = view.entry, self._entries
        if entry is None or (entries and entry["frame"] < entries[-1]["frame"]):
            entries.clear()
        if entry is not None and (not entries or entry["frame"] > entries[-1]["frame"]):
            entries.append(entry)
