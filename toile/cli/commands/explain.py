"""`toile explain`: every value of a scene, or what a word takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli.options import DebugOption, OutsideOption, SetOption
from toile.cli.simulating import load
from toile.cli.streams import console
from toile.cli.telling import told


def command(
    scene: Annotated[
        str, typer.Argument(metavar="SCENE|WORD", help="a scene, or a word that scenes use, such as grid, pull or bw98")
    ],
    changes: SetOption = None,
    allow_outside: OutsideOption = False,
    debug: DebugOption = False,
) -> None:
    """Show every value of a scene, or every field of a word, with its unit, limits and meaning."""
    with told(debug):
        from toile.scene.explain import explain, explain_plugin, explain_preset

        families, presets = _families(scene), _presets(scene)
        for family in families:
            console.print(explain_plugin(family, scene))
        for preset in presets:
            console.print(explain_preset(preset))
        if not families and not presets:
            console.print(explain(load(scene, changes, allow_outside)))


def _families(word: str) -> list[str]:
    """Which families have a member of this name; none when it is a scene's."""
    from toile.plugins import FAMILIES, names
    from toile.scene.load import scene_names

    if word in scene_names() or Path(word).exists():
        return []
    return [family for family in FAMILIES if word in names(family)]


def _presets(word: str) -> list[str]:
    """The preset of this name; all of them for the word itself. None when it is a scene's."""
    from toile.scene.load import scene_names
    from toile.scene.presets import preset_names

    if word in scene_names() or Path(word).exists():
        return []
    return [name for name in preset_names() if word in (name, "preset")]
