"""The page of a run: what it left, frame by frame, beside its certificate.

One thread draws. Whatever moves the scrubber only says which frame is wanted; the thread takes the latest wish when it
is done with the one before, so that neither a fast hand nor a slow browser makes a queue. While it plays, the frame
follows the clock: what takes too long to draw is skipped, and time keeps its pace.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError
from toile.viewer.draw.coloring import FABRIC, WARP, WEFT, of_fabrics
from toile.viewer.draw.colors import shade, strain_along
from toile.viewer.draw.drawing import SceneDrawing
from toile.viewer.playback.panel import PlaybackPanel
from toile.viewer.playback.player import Player
from toile.viewer.playback.recording import Recording

DRAWN_PER_SECOND = 30.0
# Figures, plots and scrubber follow more slowly than the cloth: a browser draws all of each anew.
UPDATES_PER_SECOND = 5.0
# How often the folder is looked at for what is new [s]
LOOKED_EVERY = 1.0

log = logging.getLogger(__name__)

NOBODY = np.zeros(0, np.int64)


class PlaybackPage:
    """One server, one run, any number of browsers, all of which see the same frame."""

    def __init__(self, server: Any, run: Path):
        """InputError when the folder is not that of a run, or its files are damaged."""
        self.server, self.folder = server, Path(run)
        self.recording = Recording(self.folder)
        self.player = Player(self.recording.fps, self.recording.frame_count)
        self.drawing = SceneDrawing(server)
        self._change = threading.Event()
        self._closing = False
        server.scene.set_up_direction("+z")
        self.panel = PlaybackPanel(server, self.player, self._change.set)
        self._begin()
        self._thread = threading.Thread(target=self._work, name="playback", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._change.set()
        self._thread.join()
        self.recording.close()

    def _begin(self) -> None:
        """Show another recording."""
        recording, player = self.recording, self.player
        player.fps, player.frame_count = recording.fps, recording.frame_count
        player.frame = min(player.frame, player.last)
        self._strain = strain_along(recording.surface)
        if self.drawing.build(recording.surface):
            self.drawing.look(recording.surface.rest)
        self.panel.show_run(recording)

    def _work(self) -> None:
        drawn: Any = None
        shown: Any = None
        shown_at = looked_at = 0.0
        while not self._closing:
            begin = time.perf_counter()
            self._change.clear()
            try:
                if begin - looked_at > LOOKED_EVERY:
                    looked_at = begin
                    if self._look():
                        drawn = shown = None
                self.player.advance()
                wish = (self.player.frame, self.panel.color.value, self.panel.limit.value)
                if wish != drawn and self.recording.frame_count:
                    self._draw(*wish)
                    drawn = wish
                state = (self.player.frame, self.player.last, self.player.playing)
                if state != shown and (not self.player.playing or begin - shown_at > 1.0 / UPDATES_PER_SECOND):
                    self.panel.show_frame()
                    shown, shown_at = state, begin
            except Exception as error:  # a page that no longer obeys and says nothing would be worse
                self.player.pause()
                self.panel.show_error(str(error))
                if not isinstance(error, InputError | OSError):
                    log.exception("The page could not be drawn.")
            if not self.player.playing:
                self._change.wait(LOOKED_EVERY)
            time.sleep(max(0.0, 1.0 / DRAWN_PER_SECOND - (time.perf_counter() - begin)))

    def _draw(self, frame: int, color: str, limit: float) -> None:
        positions = self.recording.positions(frame)
        values, colors = None, None
        if color in (WARP, WEFT):
            values = shade(self._strain(positions)[:, (WARP, WEFT).index(color)], 0.01 * limit)
        elif color == FABRIC:
            colors = of_fabrics(self.recording.surface)
        self.drawing.show(positions, self.recording.solids(frame), NOBODY, None, values, colors)

    def _look(self) -> bool:
        """Whether the folder holds another recording by now; one that only grew is longer."""
        if self.recording.is_stale():
            try:
                newer = Recording(self.folder)
            except InputError:  # files are being renamed, or a run has just begun: the next look will tell
                return False
            self.recording.close()
            self.recording = newer
            self._begin()
            return True
        if self.recording.growing and self.recording.grow():
            self.player.frame_count = self.recording.frame_count
            self.panel.show_length(self.recording)
        return False
