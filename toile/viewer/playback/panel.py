"""The panel beside the cloth during playback: scrubber, buttons, flagged frames, certificate, plots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toile.errors import SceneError
from toile.model.frame import Surface
from toile.viewer.draw.color_modes import CLOTH, FABRIC, WARP, WEFT, legend
from toile.viewer.draw.plots import Plots
from toile.viewer.draw.text import number, plain
from toile.viewer.playback.flagged_frames import FlaggedFrames, frame_numbers
from toile.viewer.playback.playhead import Playhead
from toile.viewer.playback.recording import Recording

SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}
FIRST, BACK, NEXT, LAST = "first", "back", "next", "last"
MODES = (CLOTH, FABRIC, WARP, WEFT)
LIMITS = (0.5, 50.0)  # [%] strain with the strongest color

# A longer list of flagged frames would be hard to read.
MAX_FLAGGED = 40


class PlaybackPanel:
    """Passes input to the playhead and shows its state. `changed` is called when the page has to be updated."""

    def __init__(self, server: Any, playhead: Playhead, changed: Callable[[], None]):
        self.server, self.playhead, self.changed = server, playhead, changed
        self.flagged: list[FlaggedFrames] = []
        self._entries: dict[int, dict[str, Any]] = {}
        self._flagged_entries: list[Any] = []
        self._surface: Surface | None = None
        gui = server.gui
        gui.configure_theme(show_logo=False)
        gui.main_panel.dock_right()  # beside the cloth, not in front of it
        self.title = gui.add_markdown("")
        self.position = gui.add_markdown("")
        self.scrubber = gui.add_slider("frame", min=0, max=1, step=1, initial_value=0)
        self.play = gui.add_button("Play")
        self.steps = gui.add_button_group("step", (FIRST, BACK, NEXT, LAST))
        self.speed = gui.add_dropdown("speed", tuple(SPEEDS), initial_value="1")
        self.loop = gui.add_checkbox("loop", initial_value=False)
        self.color = gui.add_dropdown("color", MODES, initial_value=CLOTH)
        self.limit = gui.add_slider(
            "full color at [%]",
            min=LIMITS[0],
            max=LIMITS[1],
            step=0.5,
            initial_value=5.0,
            visible=False,
            hint="strain of the strongest colors",
        )
        self.legend = gui.add_html("")
        self.values = gui.add_markdown("")  # below the controls, because the number of its lines varies
        self.flagged_list = gui.add_folder("Flagged frames", visible=False)
        self.plots_folder = gui.add_folder("Plots", visible=False)
        with self.plots_folder:
            self.plots = Plots(gui)
        self.certificate = gui.add_folder("Certificate", visible=False)
        with self.certificate:
            self.summary = gui.add_markdown("")
        self._connect()

    def show_run(self, recording: Recording) -> None:
        """Shows everything that belongs to the run and not to a frame."""
        report = recording.report
        self._surface = recording.surface
        self.flagged = recording.flagged()
        self._entries = {entry["frame"]: entry for entry in recording.entries}
        with self.server.atomic():
            self._show_legend()
            self._list_flagged()
            self.summary.content = summary(recording)
            self.certificate.visible = report is not None
            self.plots.show(recording.entries, self.playhead.frame, frame_numbers(self.flagged))
            self.plots_folder.visible = bool(recording.entries)
            self.show_length(recording)

    def show_length(self, recording: Recording) -> None:
        self.title.content = f"### {plain(recording.name)}\n\n{plain(recording.message)}"
        self.scrubber.max = max(self.playhead.last, 1)
        self.scrubber.disabled = self.playhead.last < 1

    def show_error(self, message: str) -> None:
        self.title.content = plain(message)

    def show_frame(self) -> None:
        frame, fps = self.playhead.frame, self.playhead.fps
        with self.server.atomic():
            self.scrubber.value = frame
            self.play.label = "Pause" if self.playhead.playing else "Play"
            self.position.content = f"**frame {frame}** of {self.playhead.last} · {frame / fps:.2f} s"
            entry = self._entries.get(frame)
            faults = [f"**{plain(row.reason)}**" for row in self.flagged if row.first <= frame <= row.last]
            self.values.content = "\n\n".join([*faults, _values(entry)] if entry else faults)
            if self._entries:
                self.plots.point_at(frame)

    def _connect(self) -> None:
        """Handlers are `async`, because viser calls such functions in order: the last event of a fast hand wins."""

        async def scrubbed(event: Any) -> None:
            if event.client_id is not None:  # not set by this program
                self.seek(int(self.scrubber.value))

        async def stepped(_: Any) -> None:
            here, last = self.playhead.frame, self.playhead.last
            self.seek({FIRST: 0, BACK: here - 1, NEXT: here + 1, LAST: last}[self.steps.value])

        async def pressed(_: Any) -> None:
            self.playhead.pause() if self.playhead.playing else self.playhead.play()
            self.changed()

        async def sped(_: Any) -> None:
            self.playhead.set_speed(SPEEDS[self.speed.value])

        async def looped(_: Any) -> None:
            self.playhead.loop = self.loop.value

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
        self.playhead.seek(frame)
        self.changed()

    def _show_legend(self) -> None:
        assert self._surface is not None
        self.legend.content = legend(self.color.value, 0.01 * self.limit.value, self._surface)

    def _list_flagged(self) -> None:
        for entry in self._flagged_entries:
            entry.remove()
        with self.flagged_list:
            self._flagged_entries = [self._add_button(row) for row in self.flagged[:MAX_FLAGGED]]
            if (left := len(self.flagged) - MAX_FLAGGED) > 0:
                self._flagged_entries.append(self.server.gui.add_markdown(f"and {left} more"))
        self.flagged_list.visible = bool(self.flagged)

    def _add_button(self, row: FlaggedFrames) -> Any:
        button = self.server.gui.add_button(str(row), color="red", hint=f"go to frame {row.worst}")

        async def jump(_: Any) -> None:
            self.seek(row.worst)

        button.on_click(jump)
        return button


def summary(recording: Recording) -> str:
    """Returns the summary of the certificate, compared with the expectations of the scene."""
    report = recording.report
    if report is None:
        return ""
    ok = report["summary"]["ok"]
    lines = ["complete, without new intersections" if ok else "**not complete, or with new intersections**"]
    try:
        findings = recording.findings()
    except SceneError as error:  # a certificate of another version
        return "\n\n".join([*lines, plain(str(error))])
    if findings:
        rows = [
            f"| {plain(f.key)} | {plain(f.bound)} | {plain(number(f.value))} | {'✓' if f.ok else '**✗**'} |"
            for f in findings
        ]
        lines.append("\n".join(["| value | expected | found | |", "|---|---|---|---|", *rows]))
    rows = [f"| {plain(key)} | {plain(number(value))} |" for key, value in recording.values_besides(findings)]
    lines.append("\n".join(["| | |", "|---|---|", *rows]))
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
