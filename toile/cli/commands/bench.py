"""`toile bench`: times of scenes, and how the time of a frame grows with the mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toile.cli import completion
from toile.cli.options import DebugOption, JsonOption, QuietOption
from toile.cli.progress import RunProgress, kernels_told
from toile.cli.telling import told

if TYPE_CHECKING:
    from rich.table import Table

    from toile.model.frame import Frame


def command(
    scenes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCENE",
            help="scenes to time; all that are shipped when not given",
            autocompletion=completion.scenes,
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Time the shipped scenes and how the time grows with the mesh."""
    with told(debug, quiet, as_json) as voice:
        with RunProgress(0, quiet) as progress:
            from toile.bench import GROWTH_FRAMES, growth, measure
            from toile.scene.load import load, scene_names

            def watched(what: str, frames: int) -> Callable[[Frame], None]:
                progress.phase(f"preparing {what}")
                progress.begin(what, frames)
                return progress.show

            with kernels_told(progress):
                loaded = [load(name, overrides=["outputs=[]"]) for name in scenes or scene_names()]
                rows = [measure(scene, progress=watched(scene.name, scene.time.frames)) for scene in loaded]
                grown, exponent = growth(progress=lambda size: watched("hang {}x{}".format(*size), GROWTH_FRAMES))
        voice.document.update(scenes=rows, growth={"rows": grown, "exponent": exponent})
        voice.say(_scenes(rows))
        voice.say(_growth(grown))
        voice.say(f"time per frame grows as n^{exponent:.2f}")


def _scenes(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    from toile.bench import STAGES

    columns = ("scene", "vertices/tri.", "fr./steps", "h [ms]", "ms/frame", *STAGES, "strain")
    table = Table(*columns, box=None, padding=(0, 1, 0, 0))  # fits 80 columns
    for row in rows:
        table.add_row(
            row["scene"],
            f"{row['particles']:,}/{row['triangles']:,}",
            f"{row['frames']}/{row['steps']}",
            f"{1e3 * row['h_min']:.1f}/{1e3 * row['h_max']:.1f}",
            f"{row['ms_per_frame']:.1f}",
            *(f"{row['shares'][stage]:.1%}" for stage in STAGES),
            f"{row['max_strain']:.1%}",
        )
    return table


def _growth(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    from toile.bench import STAGES

    table = Table("particles", "ms/frame", *STAGES, box=None, title="hang at other resolutions")
    for row in rows:
        shares = (f"{row['shares'][stage]:.1%}" for stage in STAGES)
        table.add_row(f"{row['particles']:,}", f"{row['ms_per_frame']:.1f}", *shares)
    return table
