"""What stands beside the cloth when a run is played back: scrubber, buttons, frames to look at, certificate, plots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toile.errors import SceneError
from toile.model.frame import Surface
from toile.runs.expectations import check
from toile.viewer.draw.coloring import CLOTH, FABRIC, WARP, WEFT, legend
from toile.viewer.draw.plots import Plots
from toile.viewer.draw.text import number, plain
from toile.viewer.playback.marks import Mark, marked_frames, marks
from toile.viewer.playback.player import Player
from toile.viewer.playback.recording import Recording

SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}
FIRST, BACK, ON, LAST = "first", "back", "on", "last"
MODES = (CLOTH, FABRIC, WARP, WEFT)
LIMITS = (0.5, 50.0)  # [%] strain with the strongest color

# The list stays one that can be read.
MARKS_LISTED = 40


class PlaybackPanel:
    """Tells the player what the hand does, and shows what it is told. `changed` is called when there is more to do."""

    def __init__(self, server: Any, player: Player, changed: Callable[[], None]):
        self.server, self.player, self.changed = server, player, changed
        self.marks: list[Mark] = []
        self._entries: dict[int, dict[str, Any]] = {}
        self._mark_entries: list[Any] = []
        self._surface: Surface | None = None
        gui = server.gui
        gui.configure_theme(show_logo=False)
        gui.main_panel.dock_right()  # beside the cloth, not before it
        self.title = gui.add_markdown("")
        self.position = gui.add_markdown("")
        self.scrubber = gui.add_slider("frame", min=0, max=1, step=1, initial_value=0)
        self.play = gui.add_button("Play")
        self.steps = gui.add_button_group("step", (FIRST, BACK, ON, LAST))
        self.speed = gui.add_dropdown("speed", tuple(SPEEDS), initial_value="1")
        self.loop = gui.add_checkbox("loop", initial_value=False)
        self.color = gui.add_dropdown("color", MODES, initial_value=CLOTH)
        self.limit = gui.add_slider(
            "up to [%]", min=LIMITS[0], max=LIMITS[1], step=0.5, initial_value=5.0, visible=False
        )
        self.legend = gui.add_html("")
        self.values = gui.add_markdown("")  # below what a hand is on: it takes more lines in some frames
        self.mark_list = gui.add_folder("Frames to look at", visible=False)
        self.over_frames = gui.add_folder("Over the frames", visible=False)
        with self.over_frames:
            self.plots = Plots(gui)
        self.certificate = gui.add_folder("Certificate", visible=False)
        with self.certificate:
            self.summary = gui.add_markdown("")
        self._connect()

    def show_run(self, recording: Recording) -> None:
        """What belongs to the run and not to a frame."""
        report = recording.report
        self._surface = recording.surface
        self.marks = [] if report is None else marks(recording.expect, report, recording.frame_count)
        self._entries = {entry["frame"]: entry for entry in recording.entries}
        with self.server.atomic():
            self._show_legend()
            self._list_marks()
            self.summary.content = summary(recording)
            self.certificate.visible = report is not None
            self.plots.show(recording.entries, self.player.frame, marked_frames(self.marks))
            self.over_frames.visible = bool(recording.entries)
            self.show_length(recording)

    def show_length(self, recording: Recording) -> None:
        self.title.content = f"### {plain(recording.name)}\n\n{plain(recording.message)}"
        self.scrubber.max = max(self.player.last, 1)
        self.scrubber.disabled = self.player.last < 1

    def show_error(self, message: str) -> None:
        self.title.content = plain(message)

    def show_frame(self) -> None:
        frame, fps = self.player.frame, self.player.fps
        with self.server.atomic():
            self.scrubber.value = frame
            self.play.label = "Pause" if self.player.playing else "Play"
            self.position.content = f"**frame {frame}** of {self.player.last} · {frame / fps:.2f} s"
            entry = self._entries.get(frame)
            faults = [f"**{plain(mark.what)}**" for mark in self.marks if mark.first <= frame <= mark.last]
            self.values.content = "\n\n".join([*faults, _values(entry)] if entry else faults)
            if self._entries:
                self.plots.point_at(frame)

    def _connect(self) -> None:
        """`async`: viser calls such functions one after the other, so that the last word of a fast hand counts."""

        async def scrubbed(event: Any) -> None:
            if event.client_id is not None:  # and not a word of our own
                self.seek(int(self.scrubber.value))

        async def stepped(_: Any) -> None:
            here, last = self.player.frame, self.player.last
            self.seek({FIRST: 0, BACK: here - 1, ON: here + 1, LAST: last}[self.steps.value])

        async def pressed(_: Any) -> None:
            self.player.pause() if self.player.playing else self.player.play()
            self.changed()

        async def sped(_: Any) -> None:
            self.player.set_speed(SPEEDS[self.speed.value])

        async def looped(_: Any) -> None:
            self.player.loop = self.loop.value

        async def colored(_: Any) -> None:
            self.limit.visible = self.color.value in (WARP, WEFT)
            self._show_legend()
            self.changed()

        self.scrubber.on_update(scrubbed)
        self.steps.on_click(stepped)
        self.play.on_click(pressed)
        self.speed.on_update(sped)
        self.loop.on_update(looped)
        self.color.on_update(colored)
        self.limit.on_update(colored)

    def seek(self, frame: int) -> None:
        self.player.seek(frame)
        self.changed()

    def _show_legend(self) -> None:
        assert self._surface is not None
        self.legend.content = legend(self.color.value, 0.01 * self.limit.value, self._surface)

    def _list_marks(self) -> None:
        for entry in self._mark_entries:
            entry.remove()
        with self.mark_list:
            self._mark_entries = [self._jump(mark) for mark in self.marks[:MARKS_LISTED]]
            if (left := len(self.marks) - MARKS_LISTED) > 0:
                self._mark_entries.append(self.server.gui.add_markdown(f"and {left} more"))
        self.mark_list.visible = bool(self.marks)

    def _jump(self, mark: Mark) -> Any:
        button = self.server.gui.add_button(str(mark), color="red", hint=f"go to frame {mark.worst}")

        async def jump(_: Any) -> None:
            self.seek(mark.worst)

        button.on_click(jump)
        return button


def summary(recording: Recording) -> str:
    """The certificate in short, and what was expected of it."""
    report = recording.report
    if report is None:
        return ""
    lines = ["complete and without new intersections" if report["summary"]["ok"] else "**not complete, or not clean**"]
    try:
        findings = check(recording.expect, report)
    except SceneError as error:  # a certificate of another version
        return "\n\n".join([*lines, plain(str(error))])
    if findings:
        rows = [
            f"| {plain(f.key)} | {plain(f.bound)} | {plain(number(f.value))} | {'✓' if f.ok else '**✗**'} |"
            for f in findings
        ]
        lines.append("\n".join(["| figure | expected | found | |", "|---|---|---|---|", *rows]))
    known = {finding.key for finding in findings}
    others = [(key, value) for key, value in report["summary"].items() if key not in known]
    lines.append("\n".join(["| | |", "|---|---|", *(f"| {plain(k)} | {plain(number(v))} |" for k, v in others)]))
    return "\n\n".join(lines)


def _values(entry: dict[str, Any]) -> str:
    strain, contacts = entry.get("strain") or {}, entry.get("contacts") or {}
    return (
        f"largest strain: warp {_percent(strain.get('warp_max'))}, weft {_percent(strain.get('weft_max'))}, "
        f"edges {_percent(strain.get('edge_max'))} · contacts {number(contacts.get('solid'))} on solids, "
        f"{number(contacts.get('cloth'))} on cloth"
    )


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{100.0 * value:.2f} %"
