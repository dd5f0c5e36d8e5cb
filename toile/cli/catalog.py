"""What scenes can name, read from the files themselves: nothing is imported, so that it is there at once.

The rules are those of toile.plugins: a member of a family is a file that holds the class its name announces, and the
first line of the file is the line about it. Scenes and presets open with a comment that says what they are.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


@cache
def families() -> dict[str, tuple[str, str, str]]:
    """family -> (package, what one member is called, prefix that its file names carry)"""
    return ast.literal_eval(assigned("toile.plugins", "FAMILIES"))


@cache
def members(family: str) -> dict[str, str]:
    """Every word of a family with its line; without those of other packages, which only an import can tell about."""
    package, _, prefix = families()[family]
    found = {}
    for path in sorted(file_of(package).parent.glob(f"{prefix}[!_]*.py")):
        type_name = path.stem.removeprefix(prefix)
        text = path.read_text(encoding="utf-8")
        if f"\nclass {class_name(type_name)}(" in text:
            found[type_name] = text.lstrip('"').partition("\n")[0].removesuffix('"""').strip()
    return found


def outside(family: str) -> list[str]:
    """Words that other packages add to a family."""
    import importlib.metadata

    return sorted(point.name for point in importlib.metadata.entry_points(group=f"toile.{family}"))


def scenes() -> dict[str, str]:
    return _with_first_lines("scenes")


def presets() -> dict[str, str]:
    return _with_first_lines("scene/presets")


def fabrics() -> list[str]:
    return sorted(path.stem for path in (PACKAGE / "scene" / "fabrics").glob("*.yaml"))


def class_name(type_name: str) -> str:
    return "".join(part.capitalize() for part in type_name.split("_"))


def file_of(module: str) -> Path:
    """The file of a module of Toile."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def assigned(module: str, name: str) -> ast.expr:
    """What a module assigns to a name."""
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return node.value
    raise LookupError(f"{module}.{name}")


def _with_first_lines(folder: str) -> dict[str, str]:
    found = {}
    for path in sorted((PACKAGE / folder).glob("*.yaml")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = file.readline().lstrip("# ").strip()
    return found
