"""The families of plug-ins, and the files that hold their members (toile/plugins.py explains plug-ins).

Files are only read, and nothing is imported, so that `toile list` and tab completion are fast.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent


class Family(NamedTuple):
    """A folder of plug-ins with the same base class."""

    package: str
    noun: str  # what one member is called in messages
    prefix: str = ""  # of the file names of its members


FAMILIES = {
    "shapes": Family("toile.shapes", "shape"),
    "energies": Family("toile.energies", "energy"),
    "constraints": Family("toile.constraints", "constraint"),
    "colliders": Family("toile.colliders", "collider"),
    "filters": Family("toile.filters", "filter"),
    "post": Family("toile.post", "post-process"),
    "integrators": Family("toile.integrators", "integrator"),
    "preconditioners": Family("toile.linear", "preconditioner", "precondition_"),
    "outputs": Family("toile.outputs", "output"),
}


def class_name(type_name: str) -> str:
    """Returns the name of the class behind a type name: BendAngle for bend_angle."""
    return "".join(part.capitalize() for part in type_name.split("_"))


@cache
def members(family: str) -> dict[str, str]:
    """Returns the type names of Toile's own plug-ins of a family, sorted, each with the first line of its file.

    A file is a plug-in if it holds the class that its name announces; base.py and other helpers are not.
    """
    package, _, prefix = FAMILIES[family]
    found = {}
    for path in sorted(ROOT.joinpath(*package.split(".")[1:]).glob(f"{prefix}[!_]*.py")):
        type_name = path.stem.removeprefix(prefix)
        text = path.read_text(encoding="utf-8")
        if f"\nclass {class_name(type_name)}(" in text:
            found[type_name] = text.lstrip('"').partition("\n")[0].removesuffix('"""').strip()
    return found
