"""How far a run is, on the error stream, so that the output stream holds results only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toile.cli.streams import errors

if TYPE_CHECKING:
    from toile.model.frame import Frame


class Bar:
    """Frames, steps, rejected steps, the largest strain so far and the time left."""

    def __init__(self, frames: int, hidden: bool):
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=errors, disable=hidden)
        self.task = self.progress.add_task("preparing", total=None, state="")
        self.frames = frames
        self.steps = self.rejected = 0
        self.strain = 0.0

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.progress.stop()

    def warn(self, message: str) -> None:
        errors.print(f"Warning: {message}")

    def show(self, frame: Frame) -> None:
        entry = frame.certificate or {}
        self.steps += entry.get("steps", 0)
        self.rejected += entry.get("rejected", 0)
        self.strain = max(
            self.strain, *(entry.get("strain", {}).get(f"{way}_max", 0.0) for way in ("warp", "weft", "edge"))
        )
        self.progress.update(
            self.task,
            description=f"frame {frame.number}/{self.frames}",
            total=self.frames,
            completed=frame.number,
            state=f"{self.steps} steps, {self.rejected} rejected, strain {100 * self.strain:.1f} %",
        )
