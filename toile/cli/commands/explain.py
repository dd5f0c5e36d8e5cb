"""`toile explain`: shows every value of a scene, or every field of a plug-in or preset."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toile.cli import catalog, completion
from toile.cli.options import DebugOption, JsonOption, OutsideOption, SetOption
from toile.cli.reporter import Reporter, reporting
from toile.cli.run_scene import load
from toile.families import FAMILIES, members

if TYPE_CHECKING:
    from toile.scene.explain import Row
    from toile.scene.schema import Scene


def command(
    scene: Annotated[
        str,
        typer.Argument(
            metavar="SCENE|TYPE",
            help="a scene, or a type or preset that scenes name, such as grid, pull or bw98",
            autocompletion=completion.type_names,
        ),
    ],
    changes: SetOption = None,
    allow_outside: OutsideOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show every value of a scene, or every field of a type, with its unit, limits and meaning."""
    with reporting(debug, as_json=as_json) as reporter:
        is_scene = scene in catalog.scenes() or Path(scene).exists()
        if is_scene or not _explain_type(scene, reporter):
            _explain_scene(_loaded(scene, changes, allow_outside), reporter)


def _explain_type(type_name: str, reporter: Reporter) -> bool:
    """Explains every plug-in and preset of this name; "preset" stands for all presets. False if there is none."""
    from toile.plugins import find, names
    from toile.scene.explain import explain_plugin, explain_preset, field_rows
    from toile.scene.presets import preset_names, read_preset

    families = [family for family in FAMILIES if type_name in names(family)]
    presets = [name for name in preset_names() if type_name in (name, "preset")]
    for family in families:
        reporter.print(explain_plugin(family, type_name))
        plugin = find(family, type_name)
        about = {"name": type_name, "kind": FAMILIES[family].noun, "about": plugin.summary()}
        reporter.document.setdefault("types", []).append({**about, "fields": _entries(list(field_rows(plugin)))})
    for preset in presets:
        reporter.print(explain_preset(preset))
        about = {"name": preset, "about": catalog.presets()[preset]}
        reporter.document.setdefault("presets", []).append({**about, "values": read_preset(preset)})
    return bool(families or presets)


def _explain_scene(scene: Scene, reporter: Reporter) -> None:
    from toile.scene.explain import explain, judgment_constants, rows

    if not reporter.as_json:
        reporter.print(explain(scene))
        return
    constants = [
        {"name": f"{module}.{name}", "value": value, "doc": doc} for module, name, value, doc in judgment_constants()
    ]
    reporter.document.update(
        name=scene.name, about=scene.about, preset=scene.preset, values=_entries(list(rows(scene))), constants=constants
    )


def _entries(rows: list[Row]) -> list[dict[str, Any]]:
    """Returns rows with complete keys, as --set takes them. Rows that only hold others are omitted."""
    found: list[dict[str, Any]] = []
    path: list[str] = []
    for row, after in zip_longest(rows, rows[1:]):
        path = [*path[: row.depth], row.key]
        if after is not None and after.depth > row.depth and not row.value:
            continue
        by = "default" if row.is_default else "preset" if row.of_preset else "scene"
        key = ".".join(path).replace(".[", "[")
        found.append(
            {"key": key, "value": row.value, "unit": row.unit, "limits": row.limits, "doc": row.doc, "set_by": by}
        )
    return found


def _loaded(scene: str, changes: list[str] | None, allow_outside: bool) -> Scene:
    """Loads a scene. If there is none of this name, the hint of the error includes types and presets."""
    from toile.errors import SceneError

    try:
        return load(scene, changes, allow_outside)
    except SceneError as error:
        if not error.problems[0].startswith(f'no scene "{scene}"'):
            raise
        from toile.plugins import nearest

        type_names = [type_name for family in FAMILIES for type_name in members(family)]
        hint = nearest(scene, {*catalog.scenes(), *catalog.presets(), *type_names})
        hint = hint if "Did you mean" in hint else " `toile list` lists all of them."
        raise SceneError([f'no scene, type or preset "{scene}".{hint}']) from None
