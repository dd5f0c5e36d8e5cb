"""Lists scenes, presets and fabrics from their files, for `toile list` and tab completion.

Nothing heavy is imported, so that it takes no time. Scenes and presets open with a comment that describes them.
"""

from __future__ import annotations

import ast
from functools import cache

from toile.families import ROOT


def outside(family: str) -> list[str]:
    """Returns the type names that other packages add to a family."""
    import importlib.metadata

    return sorted(point.name for point in importlib.metadata.entry_points(group=f"toile.{family}"))


def scenes() -> dict[str, str]:
    """Returns the shipped scenes, each with its first line."""
    return _with_first_lines("scenes")


def presets() -> dict[str, str]:
    """Returns the presets, each with its first line."""
    return _with_first_lines("scene/presets")


def fabrics() -> list[str]:
    """Returns the names of the shipped fabrics."""
    return sorted(path.stem for path in (ROOT / "scene" / "fabrics").glob("*.yaml"))


@cache
def parsed(module: str) -> ast.Module:
    """Returns the syntax tree of a module of Toile."""
    path = ROOT.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _with_first_lines(folder: str) -> dict[str, str]:
    found = {}
    for path in sorted((ROOT / folder).glob("*.yaml")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = file.readline().lstrip("# ").strip()
    return found
