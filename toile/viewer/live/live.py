"""A scene that runs by itself while someone watches: at its own pace, on its own thread, obeying between frames.

Whoever shows it takes the latest `View` when ready for one. Nothing waits for a viewer, and nothing is kept for one: a
slow one misses frames. Changes of the scene make a new simulation that takes over where the old one is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toile.errors import StepFailed, ToileError
from toile.model.frame import Surface
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation
from toile.viewer.live.grab import Grab
from toile.viewer.live.pace import Pace

log = logging.getLogger(__name__)

# A simulation that is being built is not waited for: kernels may compile for a minute [s]
LONGEST_GOODBYE = 2.0

PREPARING, RUNNING, PAUSED, FAILED = "preparing", "running", "paused", "failed"


@dataclass(frozen=True)
class View:
    """What there is to see at one moment. Arrays are never changed afterwards."""

    serial: int  # grows with everything that may look different
    build: int  # grows with every new simulation: surface and solids may be others
    answered: int  # number of the last order to open or change a scene that was carried out, or refused
    state: str
    message: str  # what went wrong last, or ""
    warnings: tuple[str, ...]  # about the scene
    title: str  # what the scene was opened as
    scene: Scene
    surface: Surface | None  # None until the first simulation is built
    frame: int
    time: float  # [s]
    positions: np.ndarray  # (vertices, 3) [m]
    velocities: np.ndarray  # (vertices, 3) [m/s]
    solids: tuple[np.ndarray, ...]  # vertices of each
    pinned: np.ndarray  # vertices that are held in all directions
    vertices_on_solids: np.ndarray  # vertices in contact with solids
    vertices_on_cloth: np.ndarray  # vertices in contact with cloth
    forces: np.ndarray  # (vertices, 3) of constraints and contacts with solids, in the last step [N]
    rest_stretch: np.ndarray | None  # (triangles, 2): the stretch that is at rest, where it is not 1
    entry: dict[str, Any] | None  # of the certificate, for this frame
    speed: float  # simulated by real time, over the last second; 1 when it keeps pace
    milliseconds: float  # that the last frame took to compute
    grip: tuple[np.ndarray, np.ndarray] | None  # the point of the cloth that is held, and the hand


class Live:
    """Runs a scene. Every method may be called from any thread and returns at once."""

    def __init__(self, scene: Scene, device: str = "cpu", running: bool = True, title: str | None = None):
        self.device = device
        self.grab = Grab()
        self._scene, self._running, self._single, self._failed = scene, running, 0, False
        self._asked, self._answered = 0, 0
        self._pace = Pace()
        self._orders: deque[Callable[[], None]] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._simulation: Simulation | None = None
        self._build = 0
        self._view = _nothing_yet(scene, title or scene.name)
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

        self._order(lambda: self._set_running(False, self._single + 1))

    def restart(self) -> None:
        """From the beginning, with the scene as it is now."""
        self._order(lambda: self._rebuild(lambda scene: scene, anew=True))

    def open(self, read: Callable[[], Scene], title: str) -> int:
        """Another scene. One that cannot be read or built leaves everything as it is, and a message.

        Returns the number of this order: `View.answered` reaches it once the outcome is there to see.
        """
        return self._ask(lambda: self._rebuild(lambda _: read(), anew=True, title=title))

    def change(self, changed: Callable[[Scene], Scene]) -> int:
        """Go on with a changed scene, like `open`."""
        return self._ask(lambda: self._rebuild(changed, anew=False))

    def take(self, corners: np.ndarray, weights: np.ndarray, target: np.ndarray) -> None:
        """Grip the cloth at a point of a triangle; `follow` and `let_go` of `grab` do the rest."""

        def order() -> None:
            if self._simulation is not None:
                self.grab.take(self._simulation, corners, weights, target)
                self._show(grip=self._grip(self._view.positions))

        self._order(order)

    def follow(self, target: np.ndarray) -> None:
        def order() -> None:
            if self.grab.holds:
                self.grab.follow(target)
                self._show(grip=self._grip(self._view.positions))

        self._order(order)

    def let_go(self) -> None:
        def order() -> None:
            self.grab.let_go()
            self._show(grip=None)

        self._order(order)

    def close(self) -> None:
        self._closed = True
        with self._change:
            self._change.notify_all()
        self._thread.join(LONGEST_GOODBYE)

    # On the thread of the simulation

    def _ask(self, order: Callable[[], None]) -> int:
        with self._change:
            self._asked += 1
            number = self._asked

        def numbered() -> None:
            try:
                order()
            finally:
                self._answered = number

        self._order(numbered)
        return number

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        with self._change:
            self._change.notify_all()

    def _work(self) -> None:
        while not self._closed:
            self._obey()
            simulation = self._simulation
            if simulation is None or self._failed or not (self._running or self._single):
                with self._change:
                    self._change.wait_for(lambda: self._orders or self._closed)
                self._pace.start()
                continue
            self._advance(simulation)

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
            except Exception as error:
                self._show(state=self._state(), message=_message(error))
            if self._view.answered != self._answered:
                self._show()

    def _set_running(self, running: bool, single: int = 0) -> None:
        self._running, self._single = running, single
        self._pace.start()
        self._show(state=self._state())

    def _rebuild(self, changed: Callable[[Scene], Scene], anew: bool, title: str | None = None) -> None:
        old = self._simulation
        self._show(state=PREPARING, message="")
        scene = changed(self._scene)
        simulation = Simulation(scene, self.device, forces=[self.grab])
        if old is not None and not anew:
            simulation.take_over(old)
        self.grab.let_go()
        self._simulation, self._scene, self._failed = simulation, scene, False
        self._build += 1
        self._pace.start()
        self._show(
            state=self._state(),
            warnings=tuple(simulation.warnings),
            title=self._view.title if title is None else title,
            scene=scene,
            build=self._build,
            surface=simulation.surface,
            **self._seen(simulation),
            entry=None if anew else self._view.entry,
            speed=1.0,
        )

    def _state(self) -> str:
        return FAILED if self._simulation is None or self._failed else RUNNING if self._running else PAUSED

    def _advance(self, simulation: Simulation) -> None:
        self._single = max(self._single - 1, 0)
        begin = time.perf_counter()
        try:
            frame = simulation.advance_frame()
            took = time.perf_counter() - begin
            seen = self._seen(simulation)
        except Exception as error:
            self._failed, self._single = True, 0
            self._show(state=FAILED, message=_message(error))
            return
        simulation.certificate.frames.clear()  # only the latest is shown, and a page may stay open for days
        due = self._pace.advanced(1.0 / simulation.scene.time.fps)
        self._show(
            state=self._state(),
            **seen,
            entry=frame.certificate,
            speed=self._pace.speed,
            milliseconds=1e3 * took,
        )
        self._rest(due)

    def _seen(self, simulation: Simulation) -> dict[str, Any]:
        """What a view shows of the present state."""
        x, v = (array.numpy().astype(np.float32) for array in (simulation.state.x, simulation.state.v))
        for finish in simulation.parts.post:
            x = finish.apply(x, simulation.state.t).astype(np.float32)
        constraints = simulation.constraints
        return {
            "frame": simulation.frame,
            "time": simulation.state.t,
            "positions": x,
            "velocities": v,
            "solids": tuple(solid.vertices(simulation.state.t) for solid in simulation.solids),
            "pinned": np.array(constraints.particles),
            "vertices_on_solids": simulation.contacts.vertices_on_solids(),
            "vertices_on_cloth": simulation.contacts.vertices_on_cloth(),
            "forces": simulation.constraint_forces().astype(np.float32),
            "rest_stretch": _rest_stretch(simulation),
            "grip": self._grip(x),
        }

    def _grip(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        target = self.grab.target
        return None if target is None else (self.grab.point(positions), np.array(target))

    def _show(self, **changes: Any) -> None:
        with self._change:
            self._view = replace(self._view, serial=self._view.serial + 1, answered=self._answered, **changes)
            self._change.notify_all()


_NONE = np.zeros(0, np.int64)


def _nothing_yet(scene: Scene, title: str) -> View:
    points = np.zeros((0, 3), np.float32)
    return View(
        serial=0,
        build=0,
        answered=0,
        state=PREPARING,
        message="",
        warnings=(),
        title=title,
        scene=scene,
        surface=None,
        frame=0,
        time=0.0,
        positions=points,
        velocities=points,
        solids=(),
        pinned=_NONE,
        vertices_on_solids=_NONE,
        vertices_on_cloth=_NONE,
        forces=points,
        rest_stretch=None,
        entry=None,
        speed=1.0,
        milliseconds=0.0,
        grip=None,
    )


def _rest_stretch(simulation: Simulation) -> np.ndarray | None:
    model, parts = simulation.model, range(len(simulation.model.parts))
    if not any(cloth.rest_stretch for cloth in simulation.scene.cloth):
        return None
    time = simulation.state.t
    return np.stack([np.concatenate([model.rest_stretch(p, axis, time) for p in parts]) for axis in (0, 1)], axis=1)


def _message(error: Exception) -> str:
    """What a page says of it. A page stays open whatever happens, so that what is no fault of the scene is told too."""
    if isinstance(error, StepFailed):
        return f"{error} {error.remedy}"
    if not isinstance(error, ToileError):
        log.error("The live simulation stopped.", exc_info=error)
        return f"{type(error).__name__}: {error}"
    return str(error)
