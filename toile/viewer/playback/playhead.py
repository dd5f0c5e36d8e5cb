"""The current frame of a playback, set by the user or by the clock while it plays."""

from __future__ import annotations

import time
from collections.abc import Callable


class Playhead:
    """The current frame. Every method may be called from any thread."""

    def __init__(self, fps: float, frame_count: int, clock: Callable[[], float] = time.perf_counter):
        self.fps, self.frame_count = fps, frame_count
        self.frame, self.playing, self.loop = 0, False, False
        self._speed, self._clock = 1.0, clock
        self._begun = (0.0, 0)  # time and frame at which it began to play

    @property
    def last(self) -> int:
        return max(self.frame_count - 1, 0)

    def seek(self, frame: int) -> None:
        """Goes to a frame and stops there."""
        self.playing = False
        self.frame = min(max(frame, 0), self.last)

    def play(self) -> None:
        """Plays from the current frame, or from the beginning if this is the end."""
        self._begin(0 if self.frame >= self.last else self.frame)

    def pause(self) -> None:
        self.playing = False

    def set_speed(self, speed: float) -> None:
        """1 is real time."""
        self._speed = speed
        if self.playing:
            self._begin(self.frame)

    def advance(self) -> None:
        """Moves to the frame of the current time. Frames in between are skipped."""
        if not self.playing:
            return
        since, start = self._begun
        frame = start + int((self._clock() - since) * self.fps * self._speed + 1e-9)
        if frame > self.last and self.loop:
            self._begin(0)
        elif frame >= self.last:
            self.frame, self.playing = self.last, self.loop
        else:
            self.frame = frame

    def _begin(self, frame: int) -> None:
        self.frame, self._begun, self.playing = frame, (self._clock(), frame), True
