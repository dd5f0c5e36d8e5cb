"""What every shape gives: a mesh in its own coordinates, flat shapes lying in the xy plane with u = x and v = y."""

from __future__ import annotations

from pathlib import Path

from toile.model.mesh import Mesh
from toile.plugins import Plugin


class Shape(Plugin):
    """A source of cloth."""

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        """The mesh; `folder` is where relative paths start, and paths may leave it only if `allow_outside`.

        Raises toile.errors.InputError for anything that cannot be simulated.
        """
        raise NotImplementedError
