"""`toile list`: what a scene can name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from toile.cli.options import DebugOption
from toile.cli.streams import console
from toile.cli.telling import told


class Kind(StrEnum):
    shapes = "shapes"
    energies = "energies"
    colliders = "colliders"
    constraints = "constraints"
    filters = "filters"
    integrators = "integrators"
    preconditioners = "preconditioners"
    post = "post"
    outputs = "outputs"
    scenes = "scenes"
    fabrics = "fabrics"
    presets = "presets"


def command(
    kind: Annotated[Kind | None, typer.Argument(help="what to list; everything when not given")] = None,
    debug: DebugOption = False,
) -> None:
    """Show what a scene can name, with one line about each."""
    with told(debug):
        for each in [kind] if kind else list(Kind):
            entries = entries_of(each)
            width = max((len(name) for name, _ in entries), default=0)
            indent = "" if kind else "  "
            if not kind:
                console.print(each.value)
            for name, about in entries:
                console.print(f"{indent}{name:<{width}}  {about}".rstrip())


def entries_of(kind: Kind) -> list[tuple[str, str]]:
    """Name and one line about each member of a kind."""
    from toile.plugins import find, names

    if kind is Kind.scenes:
        from toile.scene.load import SCENES

        return [(path.stem, _first_line(path)) for path in sorted(SCENES.glob("*.yaml"))]
    if kind is Kind.fabrics:
        from toile.scene.schema import Fabric, fabric_names, read_fabric

        return [(name, Fabric.model_validate(read_fabric(name)).source) for name in fabric_names()]
    if kind is Kind.presets:
        from toile.scene.presets import PRESETS

        return [(path.stem, _first_line(path)) for path in sorted(PRESETS.glob("*.yaml"))]
    return [(name, find(kind.value, name).summary()) for name in names(kind.value)]


def _first_line(path: Path) -> str:
    """A scene opens with a comment that says what it shows."""
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()
