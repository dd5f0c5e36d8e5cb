"""A lock on the folder of a run, so that two runs do not write into it at the same time."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from toile.errors import InputError
from toile.outputs._atomic import explained


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[Path]:
    """Makes the folder and locks it within the block. A folder that was made here and stays empty is removed."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    path = folder / ".lock"
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        if not _lock(file):
            raise InputError(f"{folder}: another run is writing here. Wait until it ends, or choose another folder.")
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):  # Windows does not remove open files, and a folder with files stays
                path.unlink()
                for made in missing:
                    made.rmdir()


def _lock(file: IO[str]) -> bool:
    """Tries to lock a file. The system releases the lock when the process ends, however that happens."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that has just ended removed its lock file. A lock on the removed file would not stop other runs.
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except OSError:
        return False
