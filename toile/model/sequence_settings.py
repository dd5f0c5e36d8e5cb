"""Scene settings of a vertex sequence: its file, its frame rate, and its start time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from toile.errors import InputError
from toile.model.sequence_files import read_sequence
from toile.model.solid_mesh import SolidMesh
from toile.model.vertex_sequence import VertexSequence, sequence_for
from toile.plugins import quantity


class SequenceSettings(BaseModel):
    """Frames of a mesh that moves vertex by vertex."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    file: str = quantity(
        doc="path under the scene's folder: .npz, .pc2, .usd, or numbered files such as body_####.obj", min_length=1
    )
    fps: float | None = quantity(None, unit="1/s", doc="frames per second; by default those of the file", gt=0)
    start: float = quantity(0.0, unit="s", doc="time of the first frame; at rest before it and after the last")
    interpolation: Literal["linear", "smooth"] = quantity("smooth", doc="linear between frames, or a smooth curve")

    def read(self, mesh: SolidMesh, folder: Path, allow_outside: bool, scale: float) -> VertexSequence:
        """Reads the frames for a mesh; `scale` is meters per unit of the file."""
        try:
            frames = read_sequence(folder, self.file, allow_outside, scale=scale)
            fps = frames.fps if self.fps is None else self.fps
            if fps is None:
                raise InputError("the file has no frame rate. Set sequence.fps.")
            sequence = sequence_for(mesh, frames.positions, fps=fps, start=self.start, interpolation=self.interpolation)
        except InputError as error:
            raise InputError(f"sequence.file: {error}") from error
        return replace(sequence, warnings=(*frames.warnings, *sequence.warnings))
