"""The live page: draws a running simulation, and passes drags and clicks on the cloth to it.

The simulation has a thread of its own and waits for nothing. The thread here draws the latest snapshot, and viser keeps
only the latest of what a slow browser has not fetched: frames are dropped, and no queue builds up.
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
from toile.viewer.draw.color_modes import WARP, WEFT, cloth_colors
from toile.viewer.draw.scene_drawing import SceneDrawing
from toile.viewer.draw.strain import strain_along
from toile.viewer.live.draw_rate import DrawRate
from toile.viewer.live.live_simulation import LiveSimulation
from toile.viewer.live.panel import PINS, LivePanel
from toile.viewer.live.picking import first_hit, nearest_point
from toile.viewer.live.pins import with_toggled_pin
from toile.viewer.live.scene_list import SceneList
from toile.viewer.live.snapshot import RUNNING, Snapshot

UPDATES_PER_SECOND = 4.0
PLOTTED_PER_SECOND = 1.5

# Number of frames in the plots
PLOTTED = 300

# Interval at which controls are checked while the simulation does not change [s]
CHECK_INTERVAL = 0.1

log = logging.getLogger(__name__)


class LivePage:
    """One server, one simulation, any number of browsers."""

    def __init__(self, server: Any, scene: Scene, device: str = "cpu"):
        self.server = server
        scene_list = SceneList(scene)
        self.live = LiveSimulation(scene, device, title=scene_list.own)
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
        server.scene.on_click()(self._clicked)  # not on the meshes: viser would draw a thick outline around them
        self._thread = threading.Thread(target=self._publish, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self.live.close()
        self._thread.join()

    # Input; viser calls only `async` functions in the order of the events

    async def _dragged(self, event: Any) -> None:
        snapshot = self.live.snapshot
        if event.phase == "end":
            self.live.let_go()
        elif event.phase == "update":
            self.live.follow(event.end_position)
        elif snapshot.surface is not None:
            triangles = snapshot.surface.triangles
            triangle, weights = nearest_point(event.start_position, snapshot.positions, triangles)
            self.live.take(triangles[triangle], weights, event.end_position)

    async def _clicked(self, event: Any) -> None:
        snapshot = self.live.snapshot
        if snapshot.surface is None:
            return
        hit = first_hit(event.ray_origin, event.ray_direction, snapshot.positions, snapshot.surface.triangles)
        if hit is None:  # beside the cloth, or on an older frame of it
            return
        triangle, weights = hit
        picked = self.picked = int(snapshot.surface.triangles[triangle][np.argmax(weights)])
        if self.panel.click.value == PINS:
            self.live.change(lambda scene: with_toggled_pin(scene, picked))

    # The thread that draws

    def _publish(self) -> None:
        while not self._closing.is_set():
            begin = time.perf_counter()
            snapshot = self.live.wait(self._serial, CHECK_INTERVAL)
            try:
                self._show(snapshot, begin)
            except Exception:  # logged: the page must not freeze without a message
                log.exception("The page could not be drawn.")
                self._closing.wait(1.0)
            if snapshot.state == RUNNING and snapshot.serial != self._serial:
                self._rate.adapt(snapshot.speed, begin)
            self._serial = snapshot.serial
            self._closing.wait(max(0.0, 1.0 / self._rate.rate - (time.perf_counter() - begin)))

    def _show(self, snapshot: Snapshot, now: float) -> None:
        """Updates the parts of the page that have changed or are due."""
        if snapshot.surface is not None:
            if self.drawing.surface is not snapshot.surface:
                self._begin(snapshot)
            wanted = (snapshot.serial, self.panel.color.value, self.panel.limit.value, self.picked)
            if wanted != self._shown:
                self._shown = wanted
                self._draw(snapshot)
        self._keep_entry(snapshot)
        self.panel.controls.apply_pending()
        is_due = now - self._updated > 1.0 / UPDATES_PER_SECOND
        if is_due or (snapshot.state != RUNNING and snapshot.serial != self._serial):
            self._updated = now
            self._update_text(snapshot)
        if now - self._plotted > 1.0 / PLOTTED_PER_SECOND and self._entries:
            self._plotted = now
            self.panel.plot(self._entries)

    def _begin(self, snapshot: Snapshot) -> None:
        """Draws a new simulation, which may have another surface."""
        assert snapshot.surface is not None
        self._strain = strain_along(snapshot.surface)
        if self.drawing.build(snapshot.surface):
            self.picked = None
            self.drawing.aim_cameras(snapshot.surface.rest)

    def _draw(self, snapshot: Snapshot) -> None:
        assert snapshot.surface is not None
        mode, limit = self.panel.color.value, 0.01 * self.panel.limit.value
        strains = self._strains(snapshot) if mode in (WARP, WEFT) else None
        contacts = (snapshot.vertices_on_solids, snapshot.vertices_on_cloth)
        values, colors = cloth_colors(mode, limit, snapshot.surface, strains, contacts)
        mark = self.picked if self.picked is not None and self.picked < len(snapshot.positions) else None
        self.drawing.show(snapshot.positions, snapshot.solids, snapshot.pinned, snapshot.grip, values, colors, mark)

    def _update_text(self, snapshot: Snapshot) -> None:
        self.panel.update(snapshot)
        if self.picked is not None and self.picked < len(snapshot.positions):
            self.panel.show_vertex(snapshot, self.picked, self._strains(snapshot))

    def _strains(self, snapshot: Snapshot) -> np.ndarray:
        """Strains of the triangles along warp and weft, relative to the stretch at rest."""
        assert self._strain is not None
        strains = self._strain(snapshot.positions)
        return strains if snapshot.rest_stretch is None else (strains + 1.0) / snapshot.rest_stretch - 1.0

    def _keep_entry(self, snapshot: Snapshot) -> None:
        """Keeps the entry of each frame drawn for the plots; a restart removes the earlier ones."""
        entry, entries = snapshot.entry, self._entries
        if entry is None or (entries and entry["frame"] < entries[-1]["frame"]):
            entries.clear()
        if entry is not None and (not entries or entry["frame"] > entries[-1]["frame"]):
            entries.append(entry)
