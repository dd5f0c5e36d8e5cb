"""Distance fields kept on disk from run to run, found by what they were made of.

A file's name is the hash of everything that the field depends on, so a change of the mesh makes another file. What is
broken, unreadable or in the way is made again; a folder that cannot be written to only costs the time to do so.

    TOILE_CACHE_DIR, or where the system keeps such files: ~/.cache/toile, ~/Library/Caches/toile, %LOCALAPPDATA%\\toile
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from toile.colliders._level_set_field import Baked

# Changes whenever the arrays, or how they are computed, do.
FORMAT = 2
# The oldest files go when all together exceed this [bytes].
MAX_BYTES = 4 << 30


def cached(parameters: tuple[object, ...], arrays: tuple[np.ndarray, ...], make: Callable[[], Baked]) -> Baked:
    """The field for these figures and arrays, from disk if it is there, made and kept otherwise."""
    digest = hashlib.sha256(repr((FORMAT, parameters)).encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    path = folder() / f"{digest.hexdigest()}.npz"
    baked = _load(path)
    if baked is None:
        baked = make()
        _save(path, baked)
    return baked


def folder() -> Path:
    """Where the files are."""
    chosen = os.environ.get("TOILE_CACHE_DIR")
    if chosen:
        return Path(chosen) / "level_sets"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "toile" / "level_sets"


def _load(path: Path) -> Baked | None:
    """The field in a file; None when there is none, or not all of it."""
    try:
        with np.load(path, allow_pickle=False) as file:  # the archive holds a checksum of every array
            arrays = {name: file[name] for name in file.files}
        baked = Baked(**{**arrays, "cell": float(arrays["cell"]), "band": float(arrays["band"])})
        if not baked.consistent():
            return None
        os.utime(path)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return baked


def _save(path: Path, baked: Baked) -> None:
    """Complete or not at all: other runs may be looking for the same file."""
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            draft = Path(file.name)
            np.savez(file, **asdict(baked))
        os.replace(draft, path)
        _forget_oldest(path.parent)
    except OSError:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def _forget_oldest(where: Path) -> None:
    files = sorted(((file.stat(), file) for file in where.glob("*.npz")), key=lambda entry: -entry[0].st_mtime)
    total = 0
    for stat, file in files:
        total += stat.st_size
        if total > MAX_BYTES:
            file.unlink(missing_ok=True)
