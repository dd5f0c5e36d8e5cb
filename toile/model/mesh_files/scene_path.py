"""Paths that a scene may refer to: those under its own folder, unless the user allows others.

A scene from a stranger must be safe to run: it cannot reach other files of the machine, or the network.
"""

from __future__ import annotations

import re
from pathlib import Path, PureWindowsPath

from toile.errors import InputError

REMEDY = "Move the file there, or allow it with --allow-outside."


def resolve_scene_path(folder: Path, file: str, allow_outside: bool = False) -> Path:
    """Returns the path of a file with symbolic links followed. `/` and `\\` both separate folders on every system."""
    if not file.strip() or any(ord(character) < 32 for character in file):
        raise InputError("is not a path: it is empty or contains control characters.")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", file):  # at least two letters, because C: is a drive
        raise InputError("is a URL; only local files are read. Download it and give its path.")
    portable = file.replace("\\", "/")
    absolute = portable.startswith("/") or bool(PureWindowsPath(portable).drive)
    if absolute and not allow_outside:
        raise InputError(f"is an absolute path; files must lie under the scene's folder. {REMEDY}")
    try:
        root = folder.resolve()
        path = (root / portable).resolve()
    except (OSError, RuntimeError) as error:  # a loop of symbolic links
        raise InputError(f"cannot be followed: {error}.") from error
    if not allow_outside and not path.is_relative_to(root):
        raise InputError(f"leads out of the scene's folder. {REMEDY}")
    return path
