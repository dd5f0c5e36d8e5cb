"""OBJ sequence: obj/NAME_0000.obj is the start state, then one file per frame, all with the same faces and uv.

Every file holds the cloths, one object each, and after them the solids.
"""

from __future__ import annotations

import re
from pathlib import Path

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, explained
from toile.outputs._names import file_name
from toile.outputs._obj_text import ObjText, SolidsText
from toile.outputs.base import Output, Writer


class Obj(Output):
    """For programs that read nothing else; large and slow beside usd and pc2."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return ObjWriter(folder / "obj", name, surface)


class ObjWriter(Writer):
    """Files gather in a hidden folder that gets its name at the end."""

    def __init__(self, folder: Path, name: str, surface: Surface):
        self.stem = file_name(name)
        self.surface = surface
        self.text = ObjText(name, surface)
        self.solids_text = SolidsText(surface.solids, surface.vertex_count + 1)
        self.files: list[str] = []
        self.draft = Draft(folder, folder=True)

    def write(self, frame: Frame) -> None:
        file = f"{self.stem}_{frame.number:04d}.obj"
        with explained(self.draft.path / file):
            text = self.text.at(frame.positions) + self.solids_text.at(self.surface.solids_at(frame))
            (self.draft.part / file).write_text(text, encoding="utf-8", newline="\n")
        self.files.append(file)

    def close(self) -> list[Path]:
        with self.draft.finishing():
            pass
        self._remove_older()
        return [self.draft.path / file for file in self.files]

    def discard(self) -> None:
        self.draft.discard()

    def _remove_older(self) -> None:
        """Frames of an earlier, longer run of the same name would read as the end of this one."""
        number = re.compile(re.escape(self.stem) + r"_\d{4,}\.obj")
        with explained(self.draft.path):
            for path in self.draft.path.iterdir():
                if number.fullmatch(path.name) and path.name not in self.files:
                    path.unlink()
