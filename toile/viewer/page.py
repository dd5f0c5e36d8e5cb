"""The live page: what is on it, and what happens when someone touches it."""

from __future__ import annotations

import threading
import time
from typing import Any

from toile.scene.load import SCENES, load
from toile.scene.schema import Scene
from toile.viewer.drawing import Drawing
from toile.viewer.live import FAILED, PREPARING, RUNNING, Live, View
from toile.viewer.picking import nearest_point

DRAWN_PER_SECOND = 30.0
TOLD_PER_SECOND = 4.0

# Slower than real time by more than this is told.
TOLD_SLOWNESS = 0.95


class LivePage:
    """One server, one simulation, any number of browsers."""

    def __init__(self, server: Any, scene: Scene, device: str = "cpu"):
        self.server = server
        self.live = Live(scene, device)
        self.drawing = Drawing(server, on_drag=self._dragged)
        server.scene.set_up_direction("+z")
        self._add_controls()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self.live.close()
        self._thread.join()

    def _add_controls(self) -> None:
        gui = self.server.gui
        names = sorted(path.stem for path in SCENES.glob("*.yaml"))
        own = self.live.view.scene.name
        self.status = gui.add_markdown("")
        self.chooser = gui.add_dropdown("scene", options=[*({own} - set(names)), *names], initial_value=own)
        self.play = gui.add_button("Pause")
        self.step = gui.add_button("Step")
        self.restart = gui.add_button("Restart")
        self.chooser.on_update(lambda _: self.live.open(load(self.chooser.value)))
        self.play.on_click(lambda _: self.live.pause() if self.live.view.state == RUNNING else self.live.play())
        self.step.on_click(lambda _: self.live.step())
        self.restart.on_click(lambda _: self.live.restart())

    async def _dragged(self, event: Any) -> None:
        """Events come in order only to `async` functions."""
        view = self.live.view
        if event.phase == "end":
            self.live.let_go()
        elif event.phase == "update":
            self.live.follow(event.end_position)
        elif view.surface is not None:
            triangles = view.surface.triangles
            triangle, weights = nearest_point(event.start_position, view.positions, triangles)
            self.live.take(triangles[triangle], weights, event.end_position)

    def _publish(self) -> None:
        serial, build, told = -1, 0, 0.0
        while not self._closing.is_set():
            begin = time.perf_counter()
            view = self.live.wait(serial, 0.25)
            if view.serial != serial:
                serial = view.serial
                if view.build != build and view.surface is not None:
                    build = view.build
                    self._begin(view)
                if view.surface is not None:
                    self.drawing.show(view.positions, view.solids, view.pinned, view.grip)
            if begin - told > 1.0 / TOLD_PER_SECOND or view.state != RUNNING:
                told = begin
                self._tell(view)
            self._closing.wait(max(0.0, 1.0 / DRAWN_PER_SECOND - (time.perf_counter() - begin)))

    def _begin(self, view: View) -> None:
        assert view.surface is not None
        self.drawing.build(view.surface)
        position, target = self.drawing.frame_all(view.surface.rest)
        self.server.initial_camera.position, self.server.initial_camera.look_at = position, target

    def _tell(self, view: View) -> None:
        lines = [f"**{view.state}** · frame {view.frame} · {view.time:.2f} s"]
        if view.state == RUNNING and view.speed < TOLD_SLOWNESS:
            lines.append(f"{1.0 / view.speed:.1f} times slower than real time ({view.milliseconds:.0f} ms a frame)")
        if view.state == PREPARING:
            lines.append("compiling what this scene needs")
        if view.message:
            lines.append(view.message)
        content = "\n\n".join(lines)
        if content != self.status.content:
            self.status.content = content
        label = "Pause" if view.state == RUNNING else "Play"
        if self.play.label != label:
            self.play.label = label
        self.step.disabled = view.state in (PREPARING, FAILED)
