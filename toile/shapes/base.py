"""Base of all shapes: a mesh in its own coordinates. Flat shapes lie in the xy plane with u = x and v = y."""

from __future__ import annotations

from pathlib import Path

from toile.model.mesh import Mesh
from toile.plugins import Plugin


class Shape(Plugin):
    """Settings of a shape, which makes the mesh of a cloth."""

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        """Makes the mesh; relative paths start at `folder`, and may leave it only if `allow_outside`.

        Raises toile.errors.InputError for anything that cannot be simulated.
        """
        raise NotImplementedError
