"""A simulation on a thread of its own, in real time or as fast as it can, with commands carried out between frames.

A page reads the latest `Snapshot` when it is ready to draw. The simulation does not wait for pages and stores nothing
for them: a slow page misses frames. A change of the scene builds a new simulation that continues from the current
state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from toile.errors import StepFailed, ToileError
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation
from toile.viewer.live.grab import Grab
from toile.viewer.live.real_time import RealTimePacer
from toile.viewer.live.snapshot import FAILED, PAUSED, PREPARING, RUNNING, Snapshot, empty_snapshot

log = logging.getLogger(__name__)

# `close` waits at most this long for the thread: compilation of kernels may take a minute [s]
CLOSE_TIMEOUT = 2.0


class LiveSimulation:
    """Runs a scene. Every method may be called from any thread and returns at once."""

    def __init__(self, scene: Scene, device: str = "cpu", running: bool = True, title: str | None = None):
        self.device = device
        self.grab = Grab()
        self._scene, self._running, self._single, self._failed = scene, running, 0, False
        self._requested, self._handled = 0, 0
        self._pacer = RealTimePacer()
        self._commands: deque[Callable[[], None]] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._simulation: Simulation | None = None
        self._build = 0
        self._snapshot = empty_snapshot(scene, title or scene.name)
        self.restart()
        self._thread = threading.Thread(target=self._work, name="simulation", daemon=True)
        self._thread.start()

    # State

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def wait(self, after: int, timeout: float) -> Snapshot:
        """Waits for a snapshot with a larger serial than `after`, or for the timeout. Returns the latest snapshot."""
        with self._change:
            self._change.wait_for(lambda: self._snapshot.serial > after or self._closed, timeout)
            return self._snapshot

    # Commands

    def play(self) -> None:
        self._command(lambda: self._set_running(True))

    def pause(self) -> None:
        self._command(lambda: self._set_running(False))

    def step(self) -> None:
        """Computes one frame, and stops there."""

        self._command(lambda: self._set_running(False, self._single + 1))

    def restart(self) -> None:
        """Starts from the beginning, with the current scene."""
        self._command(lambda: self._rebuild(lambda scene: scene, from_start=True))

    def open(self, read: Callable[[], Scene], title: str) -> int:
        """Opens another scene. If it cannot be read or built, only the message changes.

        Returns the number of this request: `Snapshot.handled` reaches it when the outcome is in the snapshot.
        """
        return self._request(lambda: self._rebuild(lambda _: read(), from_start=True, title=title))

    def change(self, changed: Callable[[Scene], Scene]) -> int:
        """Continues with a changed scene. Returns the number of the request, like `open`."""
        return self._request(lambda: self._rebuild(changed, from_start=False))

    def take(self, corners: np.ndarray, weights: np.ndarray, target: np.ndarray) -> None:
        """Grips the cloth at a point of a triangle; `follow` moves it and `let_go` releases it."""

        def command() -> None:
            if self._simulation is not None:
                self.grab.take(self._simulation, corners, weights, target)
                self._update(grip=self._grip(self._snapshot.positions))

        self._command(command)

    def follow(self, target: np.ndarray) -> None:
        def command() -> None:
            if self.grab.holds:
                self.grab.follow(target)
                self._update(grip=self._grip(self._snapshot.positions))

        self._command(command)

    def let_go(self) -> None:
        def command() -> None:
            self.grab.let_go()
            self._update(grip=None)

        self._command(command)

    def close(self) -> None:
        self._closed = True
        with self._change:
            self._change.notify_all()
        self._thread.join(CLOSE_TIMEOUT)

    def _request(self, command: Callable[[], None]) -> int:
        with self._change:
            self._requested += 1
            number = self._requested

        def numbered() -> None:
            try:
                command()
            finally:
                self._handled = number

        self._command(numbered)
        return number

    def _command(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        with self._change:
            self._change.notify_all()

    # On the thread of the simulation

    def _work(self) -> None:
        while not self._closed:
            self._run_commands()
            simulation = self._simulation
            if simulation is None or self._failed or not (self._running or self._single):
                with self._change:
                    self._change.wait_for(lambda: self._commands or self._closed)
                self._pacer.start()
                continue
            self._advance(simulation)

    def _wait_until(self, due: float) -> None:
        """Waits until the next frame is due. Commands are carried out at once, so that dragging has no delay."""
        while not self._closed and (left := due - time.perf_counter()) > 0.0:
            with self._change:
                self._change.wait_for(lambda: self._commands or self._closed, left)
            self._run_commands()

    def _run_commands(self) -> None:
        while self._commands:
            command = self._commands.popleft()
            try:
                command()
            except Exception as error:
                self._update(state=self._state(), message=_message(error))
            if self._snapshot.handled != self._handled:
                self._update()

    def _set_running(self, running: bool, single: int = 0) -> None:
        self._running, self._single = running, single
        self._pacer.start()
        self._update(state=self._state())

    def _rebuild(self, changed: Callable[[Scene], Scene], from_start: bool, title: str | None = None) -> None:
        old = self._simulation
        self._update(state=PREPARING, message="")
        scene = changed(self._scene)
        simulation = Simulation(scene, self.device, forces=[self.grab])
        if old is not None and not from_start:
            simulation.take_over(old)
        self.grab.let_go()
        self._simulation, self._scene, self._failed = simulation, scene, False
        self._build += 1
        self._pacer.start()
        self._update(
            state=self._state(),
            warnings=tuple(simulation.warnings),
            title=self._snapshot.title if title is None else title,
            scene=scene,
            build=self._build,
            surface=simulation.surface,
            **self._fields(simulation),
            entry=None if from_start else self._snapshot.entry,
            speed=1.0,
        )

    def _state(self) -> str:
        return FAILED if self._simulation is None or self._failed else RUNNING if self._running else PAUSED

    def _advance(self, simulation: Simulation) -> None:
        self._single = max(self._single - 1, 0)
        begin = time.perf_counter()
        try:
            frame = simulation.advance_frame()
            duration = time.perf_counter() - begin
            fields = self._fields(simulation)
        except Exception as error:
            self._failed, self._single = True, 0
            self._update(state=FAILED, message=_message(error))
            return
        simulation.certificate.frames.clear()  # pages show the latest entry only, and may stay open for days
        due = self._pacer.frame_done(1.0 / simulation.scene.time.fps)
        self._update(
            state=self._state(),
            **fields,
            entry=frame.certificate,
            speed=self._pacer.speed,
            milliseconds=1e3 * duration,
        )
        self._wait_until(due)

    def _fields(self, simulation: Simulation) -> dict[str, Any]:
        """The fields of a snapshot that describe the state of a simulation."""
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

    def _update(self, **changes: Any) -> None:
        """Publishes a new snapshot with some fields changed."""
        with self._change:
            serial = self._snapshot.serial + 1
            self._snapshot = replace(self._snapshot, serial=serial, handled=self._handled, **changes)
            self._change.notify_all()


def _rest_stretch(simulation: Simulation) -> np.ndarray | None:
    model, parts = simulation.model, range(len(simulation.model.parts))
    if not any(cloth.rest_stretch for cloth in simulation.scene.cloth):
        return None
    time = simulation.state.t
    return np.stack([np.concatenate([model.rest_stretch(p, axis, time) for p in parts]) for axis in (0, 1)], axis=1)


def _message(error: Exception) -> str:
    """The message that a page shows. A page stays open whatever happens, so it also shows errors that are bugs."""
    if isinstance(error, StepFailed):
        return f"{error} {error.remedy}"
    if not isinstance(error, ToileError):
        log.error("The live simulation stopped.", exc_info=error)
        return f"{type(error).__name__}: {error}"
    return str(error)
