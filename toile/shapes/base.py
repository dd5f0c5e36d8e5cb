"""Base of all shapes: a mesh in its own coordinates. Flat shapes lie in the xy plane with u = x and v = y."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from toile.model.mesh import Mesh
from toile.plugins import Plugin


class Shape(Plugin):
    """Settings of a shape, which makes the mesh of a cloth."""

    file_field: ClassVar[str | None] = None  # the field that names its file, for messages about that file

    def expected_vertex_count(self) -> int:
        """Returns the number of vertices that it will have, to refuse a shape too large before it is made.

        A shape that is read from a file returns 0 and checks the number itself.
        """
        return 0

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        """Makes the mesh; relative paths start at `folder`, and may leave it only if `allow_outside`.

        Raises toile.errors.InputError for anything that cannot be simulated.
        """
        raise NotImplementedError
