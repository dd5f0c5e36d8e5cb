"""A scene that runs by itself while someone watches: at its own pace, on its own thread, obeying between frames.

Whoever shows it takes the latest `View` when ready for one. Nothing waits for a viewer, and nothing is kept for one: a
slow one misses frames. Changes of the scene make a new simulation that takes over where the old one is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toile.errors import InputError, StepFailed, ToileError
from toile.model.frame import Surface
from toile.scene.schema import Scene
from toile.simulation import Simulation
from toile.viewer.grab import Grab

# How fast the figure of the speed follows [s]
SPEED_MEMORY = 1.0

# Once behind, real time is not caught up with: a pause to compile kernels must not be followed by a rush [s]
LARGEST_LAG = 0.1

PREPARING, RUNNING, PAUSED, FAILED = "preparing", "running", "paused", "failed"


@dataclass(frozen=True)
class View:
    """What there is to see at one moment. Arrays are never changed afterwards."""

    serial: int  # grows with everything that may look different
    build: int  # grows with every new simulation: surface and solids may be others
    state: str
    message: str  # what went wrong last, or ""
    scene: Scene
    surface: Surface | None  # None until the first simulation is built
    frame: int
    time: float  # [s]
    positions: np.ndarray  # (vertices, 3) [m]
    velocities: np.ndarray  # (vertices, 3) [m/s]
    solids: tuple[np.ndarray, ...]  # vertices of each
    pinned: np.ndarray  # vertices that are held in all directions
    touching: np.ndarray  # vertices in contact with solids
    entry: dict[str, Any] | None  # of the certificate, for this frame
    speed: float  # simulated by real time, over the last second; 1 when it keeps pace
    milliseconds: float  # that the last frame took to compute
    grip: tuple[np.ndarray, np.ndarray] | None  # the point of the cloth that is held, and the hand


class Live:
    """Runs a scene. Every method may be called from any thread and returns at once."""

    def __init__(self, scene: Scene, device: str = "cpu", running: bool = True):
        self.device = device
        self.grab = Grab()
        self._scene, self._running, self._single = scene, running, 0
        self._orders: deque[Callable[[], None]] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._simulation: Simulation | None = None
        self._build = 0
        nothing = np.zeros((0, 3))
        none = np.zeros(0, np.int64)
        self._view = View(
            0, 0, PREPARING, "", scene, None, 0, 0.0, nothing, nothing, (), none, none, None, 1.0, 0.0, None
        )
        self.restart()
        self._thread = threading.Thread(target=self._work, name="simulation", daemon=True)
        self._thread.start()

    # What a viewer reads

    @property
    def view(self) -> View:
        return self._view

    def wait(self, after: int, timeout: float) -> View:
        """The latest view, as soon as there is one newer than the one with this serial; or when the time is over."""
        with self._change:
            self._change.wait_for(lambda: self._view.serial > after or self._closed, timeout)
            return self._view

    # What a viewer says

    def play(self) -> None:
        self._order(lambda: self._set_running(True))

    def pause(self) -> None:
        self._order(lambda: self._set_running(False))

    def step(self) -> None:
        """One frame, and stop there."""

        def order() -> None:
            self._set_running(False)
            self._single += 1

        self._order(order)

    def restart(self) -> None:
        """From the beginning, with the scene as it is now."""
        self._order(lambda: self._rebuild(self._scene, anew=True))

    def open(self, scene: Scene) -> None:
        """Another scene."""
        self._order(lambda: self._rebuild(scene, anew=True))

    def change(self, changed: Callable[[Scene], Scene]) -> None:
        """Go on with a changed scene. One that cannot be built leaves everything as it is, and a message."""
        self._order(lambda: self._rebuild(changed(self._scene), anew=False))

    def take(self, corners: np.ndarray, weights: np.ndarray, target: np.ndarray) -> None:
        """Grip the cloth at a point of a triangle; `follow` and `let_go` of `grab` do the rest."""

        def order() -> None:
            if self._simulation is not None:
                self.grab.take(self._simulation, corners, weights, target)

        self._order(order)

    def follow(self, target: np.ndarray) -> None:
        self._order(lambda: self.grab.follow(target) if self.grab.holds else None)

    def let_go(self) -> None:
        self._order(self.grab.let_go)

    def close(self) -> None:
        self._closed = True
        with self._change:
            self._change.notify_all()
        self._thread.join()

    # On the thread of the simulation

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        with self._change:
            self._change.notify_all()

    def _work(self) -> None:
        due = time.perf_counter()
        while not self._closed:
            self._obey()
            simulation = self._simulation
            if simulation is None or not (self._running or self._single):
                with self._change:
                    self._change.wait_for(lambda: self._orders or self._closed)
                due = time.perf_counter()
                continue
            self._advance(simulation)
            # Without a page to wait for, real time is the only limit.
            due = max(due + 1.0 / simulation.scene.time.fps, time.perf_counter() - LARGEST_LAG)
            self._rest(due)

    def _rest(self, due: float) -> None:
        """Until the next frame is due; orders are obeyed at once, because a hand should feel no delay."""
        while not self._closed and (left := due - time.perf_counter()) > 0.0:
            with self._change:
                self._change.wait_for(lambda: self._orders or self._closed, left)
            self._obey()

    def _obey(self) -> None:
        while self._orders:
            order = self._orders.popleft()
            try:
                order()
            except ToileError as error:
                self._show(message=str(error))

    def _set_running(self, running: bool) -> None:
        self._running = running
        if self._simulation is not None and self._view.state != FAILED:
            self._show(state=RUNNING if running else PAUSED)

    def _rebuild(self, scene: Scene, anew: bool) -> None:
        old = self._simulation
        self._show(state=PREPARING, message="")
        try:
            simulation = Simulation(scene, self.device, forces=[self.grab])
            if old is not None and not anew:
                simulation.take_over(old)
        except ToileError as error:
            self._show(state=self._resting_state(), message=str(error))
            return
        self.grab.let_go()
        self._simulation, self._scene = simulation, scene
        self._build += 1
        self._show(
            state=self._resting_state(),
            message="\n".join(simulation.warnings),
            scene=scene,
            build=self._build,
            surface=simulation.surface,
            **self._seen(simulation),
            entry=None if anew else self._view.entry,
        )

    def _resting_state(self) -> str:
        return FAILED if self._simulation is None else RUNNING if self._running else PAUSED

    def _advance(self, simulation: Simulation) -> None:
        self._single = max(self._single - 1, 0)
        begin = time.perf_counter()
        try:
            frame = simulation.advance_frame()
        except StepFailed as failure:
            self._running, self._single = False, 0
            self._show(state=FAILED, message=f"{failure} {failure.remedy}")
            return
        except InputError as error:  # a solid's motion that cannot be read on, for one
            self._running, self._single = False, 0
            self._show(state=FAILED, message=str(error))
            return
        took = time.perf_counter() - begin
        simulation.certificate.frames.clear()  # only the latest is shown, and a page may stay open for days
        frame_time = 1.0 / simulation.scene.time.fps
        blend = min(1.0, max(took, frame_time) / SPEED_MEMORY)
        speed = self._view.speed + blend * (min(1.0, frame_time / took) - self._view.speed)
        self._show(
            state=RUNNING if self._running else PAUSED,
            **self._seen(simulation),
            entry=frame.certificate,
            speed=speed,
            milliseconds=1e3 * took,
        )

    def _seen(self, simulation: Simulation) -> dict[str, Any]:
        """What a view shows of the present state."""
        x, v = (array.numpy().astype(np.float32) for array in (simulation.state.x, simulation.state.v))
        for finish in simulation.post:
            x = finish.apply(x, simulation.state.t).astype(np.float32)
        held = simulation.held
        return {
            "frame": simulation.frame,
            "time": simulation.state.t,
            "positions": x,
            "velocities": v,
            "solids": tuple(solid.vertices(simulation.state.t) for solid in simulation.solids),
            "pinned": np.array(held.particles),
            "touching": np.flatnonzero(held.touched.numpy()),
            "grip": self._grip(x),
        }

    def _grip(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        target = self.grab.target
        return None if target is None else (self.grab.point(positions), np.array(target))

    def _show(self, **changes: Any) -> None:
        with self._change:
            self._view = replace(self._view, serial=self._view.serial + 1, **changes)
            self._change.notify_all()
