"""OBJ sequence: obj/NAME_0000.obj is the start state, then one file per frame, all with the same faces and uv.

Every file contains the cloths, one object each, and after them the solids.
"""

from __future__ import annotations

from pathlib import Path

from toile.model.frame import Frame, Surface
from toile.outputs._file_sequence import FileSequence
from toile.outputs._obj_text import ObjText, SolidsText
from toile.outputs.base import Output, Writer


class Obj(Output):
    """For programs that read nothing else; large and slow compared with usd and pc2."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return ObjWriter(folder / "obj", name, surface)


class ObjWriter(Writer):
    """Formats all text but the positions once."""

    def __init__(self, folder: Path, name: str, surface: Surface):
        self.surface = surface
        self.text = ObjText(name, surface)
        self.solids_text = SolidsText(surface.solids, surface.vertex_count + 1)
        self.files = FileSequence(folder, name, ".obj")

    def write(self, frame: Frame) -> None:
        solids = self.surface.solids_at(frame)
        self.files.add(frame.number, [*self.text.pieces(frame.positions), *self.solids_text.pieces(solids)])

    def close(self) -> list[Path]:
        return self.files.close()

    def discard(self) -> None:
        self.files.discard()
