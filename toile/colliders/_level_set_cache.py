"""Cache of distance fields on disk, shared by all runs and keyed by their input.

A file's name is the hash of everything that the field depends on, so a changed mesh gets another file. A file that is
broken or unreadable is made again; without a writable folder every run bakes its fields.

    TOILE_CACHE_DIR, or the cache folder of the system: ~/.cache/toile, ~/Library/Caches/toile, %LOCALAPPDATA%\\toile
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

from toile.colliders._level_set_field import BakedField

# Version of the files: changes whenever the arrays, or how they are computed, do.
FORMAT = 2
# The oldest files are deleted when all together exceed this [bytes].
MAX_BYTES = 4 << 30


def cached(
    parameters: tuple[object, ...], arrays: tuple[np.ndarray, ...], make: Callable[[], BakedField]
) -> BakedField:
    """Returns the field for these parameters and arrays, from disk if it is there, otherwise made and stored."""
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
    """Returns the folder of the cache."""
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


def _load(path: Path) -> BakedField | None:
    """Loads the field from a file; None if there is none, or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:  # the archive has a checksum for every array
            arrays = {name: file[name] for name in file.files}
        baked = BakedField(**{**arrays, "cell": float(arrays["cell"]), "band": float(arrays["band"])})
        if not baked.consistent():
            return None
        os.utime(path)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return baked


def _save(path: Path, baked: BakedField) -> None:
    """Writes the file atomically: other runs may read the same one."""
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            draft = Path(file.name)
            np.savez(file, **asdict(baked))
        os.replace(draft, path)
        _delete_oldest(path.parent)
    except OSError:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def _delete_oldest(where: Path) -> None:
    files = sorted(((file.stat(), file) for file in where.glob("*.npz")), key=lambda entry: -entry[0].st_mtime)
    total = 0
    for stat, file in files:
        total += stat.st_size
        if total > MAX_BYTES:
            file.unlink(missing_ok=True)
