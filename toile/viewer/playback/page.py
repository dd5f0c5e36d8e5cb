"""The page that plays back a run: its frames, beside its certificate.

One thread draws. Controls only set the requested frame; the thread draws the latest request when it has finished the
previous one, so that neither fast scrubbing nor a slow browser makes a queue. During playback the frame follows the
clock: frames that take too long to draw are skipped, and playback stays in real time.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError
from toile.viewer.draw.color_modes import WARP, WEFT, cloth_colors
from toile.viewer.draw.scene_drawing import SceneDrawing
from toile.viewer.draw.strain import strain_along
from toile.viewer.playback.panel import PlaybackPanel
from toile.viewer.playback.playhead import Playhead
from toile.viewer.playback.recording import Recording

DRAWN_PER_SECOND = 30.0
# Values, plots and scrubber are updated less often than the cloth, because a browser redraws each of them completely.
UPDATES_PER_SECOND = 5.0
# Interval at which the folder is checked for new files [s]
CHECK_INTERVAL = 1.0

log = logging.getLogger(__name__)

NO_VERTICES = np.zeros(0, np.int64)


class PlaybackPage:
    """One server, one run, any number of browsers, all of which show the same frame."""

    def __init__(self, server: Any, run: Path):
        """Raises InputError if the folder is not that of a run, or its files are damaged."""
        self.server, self.folder = server, Path(run)
        self.recording = Recording(self.folder)
        self.playhead = Playhead(self.recording.fps, self.recording.frame_count)
        self.drawing = SceneDrawing(server)
        self._change = threading.Event()
        self._closing = False
        server.scene.set_up_direction("+z")
        self.panel = PlaybackPanel(server, self.playhead, self._change.set)
        self._begin()
        self._thread = threading.Thread(target=self._work, name="playback", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._change.set()
        self._thread.join()
        self.recording.close()

    def _begin(self) -> None:
        """Shows another recording."""
        recording, playhead = self.recording, self.playhead
        playhead.fps, playhead.frame_count = recording.fps, recording.frame_count
        playhead.frame = min(playhead.frame, playhead.last)
        self._strain = strain_along(recording.surface)
        if self.drawing.build(recording.surface):
            self.drawing.aim_cameras(recording.surface.rest)
        self.panel.show_run(recording)

    def _work(self) -> None:
        drawn: Any = None
        shown: Any = None
        shown_at = checked_at = 0.0
        while not self._closing:
            begin = time.perf_counter()
            self._change.clear()
            try:
                if begin - checked_at > CHECK_INTERVAL:
                    checked_at = begin
                    if self._check_folder():
                        drawn = shown = None
                self.playhead.advance()
                wanted = (self.playhead.frame, self.panel.color.value, self.panel.limit.value)
                if wanted != drawn and self.recording.frame_count:
                    self._draw(*wanted)
                    drawn = wanted
                state = (self.playhead.frame, self.playhead.last, self.playhead.playing)
                if state != shown and (not self.playhead.playing or begin - shown_at > 1.0 / UPDATES_PER_SECOND):
                    self.panel.show_frame()
                    shown, shown_at = state, begin
            except Exception as error:  # shown on the page: it must not freeze without a message
                self.playhead.pause()
                self.panel.show_error(str(error))
                if not isinstance(error, InputError | OSError):
                    log.exception("The page could not be drawn.")
            if not self.playhead.playing:
                self._change.wait(CHECK_INTERVAL)
            time.sleep(max(0.0, 1.0 / DRAWN_PER_SECOND - (time.perf_counter() - begin)))

    def _draw(self, frame: int, mode: str, limit: float) -> None:
        positions = self.recording.positions(frame)
        strains = self._strain(positions) if mode in (WARP, WEFT) else None
        values, colors = cloth_colors(mode, 0.01 * limit, self.recording.surface, strains)
        self.drawing.show(positions, self.recording.solids(frame), NO_VERTICES, None, values, colors)

    def _check_folder(self) -> bool:
        """Takes in new files. Returns whether the folder now contains another recording, not only more frames."""
        if self.recording.is_stale():
            try:
                newer = Recording(self.folder)
            except InputError:  # files are being renamed, or a run has just begun: the next check will succeed
                return False
            self.recording.close()
            self.recording = newer
            self._begin()
            return True
        if self.recording.growing and self.recording.grow():
            self.playhead.frame_count = self.recording.frame_count
            self.panel.show_length(self.recording)
        return False
