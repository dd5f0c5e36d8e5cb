"""A sequence of files in a folder of its own, one per frame: FOLDER/NAME_0000.SUFFIX is the start state."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from toile.outputs._atomic import Draft, explained
from toile.outputs._names import file_name


class FileSequence:
    """Collects the files in a hidden folder that gets its name at the end."""

    def __init__(self, folder: Path, name: str, suffix: str):
        self.stem, self.suffix = file_name(name), suffix
        self.files: list[str] = []
        self.draft = Draft(folder, folder=True)

    def add(self, number: int, pieces: Iterable[bytes]) -> None:
        """Writes the file of one frame."""
        file = f"{self.stem}_{number:04d}{self.suffix}"
        with explained(self.draft.path / file), (self.draft.part / file).open("wb") as target:
            target.writelines(pieces)
        self.files.append(file)

    def close(self) -> list[Path]:
        with self.draft.finishing():
            pass
        self._remove_older()
        return [self.draft.path / file for file in self.files]

    def discard(self) -> None:
        self.draft.discard()

    def _remove_older(self) -> None:
        """Removes frames of an earlier, longer run of the same name, which would be read as the end of this one."""
        number = re.compile(re.escape(self.stem) + r"_\d{4,}" + re.escape(self.suffix))
        with explained(self.draft.path):
            for path in self.draft.path.iterdir():
                if number.fullmatch(path.name) and path.name not in self.files:
                    path.unlink()
