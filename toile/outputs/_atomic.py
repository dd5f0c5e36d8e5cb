"""Atomic files, which exist completely or not at all: a draft beside the final name is flushed and then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import numpy as np

from toile.errors import ToileError

FLUSH_THREADS = 16
ADVICE = {
    errno.ENOSPC: "Free some space, or choose another folder.",
    errno.EDQUOT: "Free some space, or choose another folder.",
    errno.EACCES: "Choose a folder that you may write to.",
    errno.EPERM: "Choose a folder that you may write to.",
    errno.EROFS: "Choose a folder that you may write to.",
    errno.ENOTDIR: "Choose another folder: a file is in the way.",
    errno.EEXIST: "Choose another folder: a file is in the way.",
    errno.EISDIR: "Choose another name: a folder is in the way.",
}


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns an error of the file system into a ToileError with advice."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        advice = ADVICE.get(error.errno or 0, "Check the disk, or choose another folder.")
        raise ToileError(f"{path}: cannot be written: {reason}. {advice}") from error


def part_of(path: Path) -> Path:
    """The temporary name of a file that is not complete yet."""
    return path.with_name(f".{path.stem}.part{path.suffix}")


class Draft:
    """One file, or one folder of files, under a temporary name until it is complete.

    The temporary name is always the same, so that the next run overwrites what a killed run leaves behind; it keeps
    the suffix, because some writers choose their format by it.
    """

    def __init__(self, path: Path, folder: bool = False):
        self.path = path
        self.part = part_of(path)
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.discard()
            # Created at once: a folder that cannot be written to is found before the run and not after it.
            if folder:
                self.part.mkdir()
            else:
                self.part.touch()

    def publish(self) -> Path:
        """Renames the draft: one rename, or one per file if the folder already exists."""
        with explained(self.path):
            if not self.part.is_dir():
                flush(self.part)
                os.replace(self.part, self.path)
            else:
                files = sorted(self.part.iterdir())
                # A disk flushes many files at once in about the time of one.
                with ThreadPoolExecutor(FLUSH_THREADS) as pool:
                    list(pool.map(flush, files))
                if self.path.is_dir():
                    for file in files:
                        os.replace(file, self.path / file.name)
                    self.part.rmdir()
                else:
                    os.rename(self.part, self.path)
            flush(self.path.parent)
        return self.path

    def discard(self) -> None:
        if self.part.is_dir():
            shutil.rmtree(self.part)
        else:
            self.part.unlink(missing_ok=True)

    @contextlib.contextmanager
    def finishing(self) -> Iterator[None]:
        """Publishes if the block succeeds, and leaves nothing if it raises."""
        try:
            with explained(self.path):
                yield
            self.publish()
        except BaseException:
            self.discard()
            raise


class Spool:
    """Arrays of one shape, one per frame, in an unnamed file that vanishes with the process, however that ends."""

    def __init__(self, path: Path, shape: tuple[int, ...], kind: type):
        self.path, self.shape, self.kind = path, shape, np.dtype(kind)
        self.count = 0
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115

    def append(self, array: np.ndarray) -> None:
        with explained(self.path):
            self.file.write(np.ascontiguousarray(array, self.kind).reshape(self.shape).data)
        self.count += 1

    def arrays(self) -> Iterator[np.ndarray]:
        """Reads every array back, in order."""
        self.file.seek(0)
        size = int(np.prod(self.shape)) * self.kind.itemsize
        for _ in range(self.count):
            yield np.frombuffer(self.file.read(size), self.kind).reshape(self.shape)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # buffered data may not fit on a full disk
            self.file.close()


def flush(path: Path) -> None:
    """Makes sure that a file, or the names in a folder, survive a power loss."""
    if path.is_dir() and os.name == "nt":  # Windows cannot flush a folder
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
