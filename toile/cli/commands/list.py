"""`toile list`: lists the plug-ins, scenes, fabrics and presets."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from toile.cli import catalog
from toile.cli.options import DebugOption, JsonOption
from toile.cli.reporter import reporting
from toile.families import ROOT, members


class CatalogKind(StrEnum):
    """The families of plug-ins, in the order in which they are listed, and the other kinds of files."""

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
    kind: Annotated[CatalogKind | None, typer.Argument(help="what to list; everything by default")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="print the names only")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the plug-ins, scenes, fabrics and presets that can be used, with one line about each."""
    with reporting(debug, as_json=as_json) as reporter:
        for each in [kind] if kind else list(CatalogKind):
            entries = entries_of(each)
            reporter.document[each.value] = [{"name": name, "about": about} for name, about in entries.items()]
            width = 0 if quiet else max(map(len, entries), default=0)
            indent = "" if kind else "  "
            if not kind:
                reporter.print(each.value)
            for name, about in entries.items():
                reporter.print(f"{indent}{name:<{width}}  {'' if quiet else about}".rstrip())


def entries_of(kind: CatalogKind) -> dict[str, str]:
    """Returns the names of one kind, each with one line about it."""
    if kind is CatalogKind.scenes:
        return catalog.scenes()
    if kind is CatalogKind.presets:
        return catalog.presets()
    if kind is CatalogKind.fabrics:
        import yaml

        folder = ROOT / "scene" / "fabrics"
        files = {name: (folder / f"{name}.yaml").read_text(encoding="utf-8") for name in catalog.fabrics()}
        return {name: yaml.safe_load(text).get("source", "") for name, text in files.items()}
    entries = dict(members(kind.value))
    for name in catalog.outside(kind.value):
        from toile.plugins import find

        entries[name] = find(kind.value, name).summary()
    return dict(sorted(entries.items()))
