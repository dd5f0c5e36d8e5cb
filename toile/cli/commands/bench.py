"""`toile bench`: times scenes and their growth with the mesh, runs the benchmark suite, or profiles kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import toile
from toile.cli import completion
from toile.cli.options import (
    DebugOption,
    Device,
    DeviceOption,
    JsonOption,
    OutsideOption,
    Precision,
    PrecisionOption,
    QuietOption,
    SetOption,
    ThreadsOption,
)
from toile.cli.progress import RunProgress, show_compilation
from toile.cli.reporter import Reporter, reporting

if TYPE_CHECKING:
    from rich.table import Table

    from toile.model.frame import Frame

HOTTEST = 10
PROFILED_FRAMES, SKIPPED_FRAMES = 5, 1


def command(
    scenes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCENE",
            help="scenes to time; all shipped scenes by default",
            autocompletion=completion.scenes,
        ),
    ] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="time hang, drape, layers, twist, elbow, layers_50 at growing sizes")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="show the hottest kernels of one scene")] = False,
    device: DeviceOption = Device.cpu,
    precision: PrecisionOption = Precision.double,
    threads: ThreadsOption = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N", help="numbers of vertices, such as 2.6k,10k; --profile takes one")
    ] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="fixed number of frames, without a budget")] = None,
    only: Annotated[
        str | None, typer.Option("--scenes", metavar="NAME,NAME", help="scenes of the suite; all by default")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, metavar="SECONDS", help="time for each case of the suite; 90 by default")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="results of the suite; benchmarks/suite_DEVICE_DATE.json by default"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="skip cases that the results already have")] = False,
    skip: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="frames to compute before the profile; 1 by default")
    ] = None,
    changes: SetOption = None,
    allow_outside: OutsideOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Time the shipped scenes and their growth with the mesh; or run the suite, or profile the kernels of a scene."""
    with reporting(debug, quiet, as_json) as reporter:
        toile.use_precision(precision)
        on = device.value
        of_suite = {"--scenes": only, "--budget": budget, "--out": out, "--resume": resume}
        of_profile = {"--skip": skip, "--set": changes, "--allow-outside": allow_outside}
        of_both = {"--sizes": sizes, "--frames": frames, "--threads": threads, "--device": on != "cpu"}
        if suite:
            _reject(of_profile | {"--profile": profile, "SCENE": scenes}, "cannot be combined with --suite.")
            _suite(reporter, on, only, sizes, threads, budget, frames, out, resume)
        elif profile:
            _reject(of_suite, "only for toile bench --suite.")
            _profile(reporter, scenes or [], on, sizes, frames, skip, changes or [], allow_outside)
        else:
            _reject(of_suite | of_profile | of_both, "only for toile bench --suite or --profile.")
            _scenes(reporter, scenes)


def _reject(options: dict[str, Any], reason: str) -> None:
    """Raises InputError for the options that were given, because they would have no effect."""
    from toile.errors import InputError

    given = [name for name, value in options.items() if value]
    if given:
        raise InputError(f"{', '.join(given)}: {reason}")


def _scenes(reporter: Reporter, scenes: list[str] | None) -> None:
    with RunProgress(0, reporter.quiet) as progress:
        from toile.bench import GROWTH_FRAMES, growth, measure
        from toile.scene.load import load, scene_names

        def watched(name: str, frames: int) -> Callable[[Frame], None]:
            progress.phase(f"preparing {name}")
            progress.begin(name, frames)
            return progress.show

        with show_compilation(progress):
            loaded = [load(name, overrides=["outputs=[]"]) for name in scenes or scene_names()]
            rows = [measure(scene, progress=watched(scene.name, scene.time.frames)) for scene in loaded]
            grown, exponent = growth(progress=lambda size: watched("hang {}x{}".format(*size), GROWTH_FRAMES))
    reporter.document.update(scenes=rows, growth={"rows": grown, "exponent": exponent})
    reporter.print(_scene_table(rows))
    reporter.print(_growth_table(grown))
    reporter.print(f"time per frame grows as n^{exponent:.2f}")


def _suite(
    reporter: Reporter,
    device: str,
    only: str | None,
    sizes: str | None,
    threads: int | None,
    budget: float | None,
    frames: int | None,
    out: Path | None,
    resume: bool,
) -> None:
    with RunProgress(0, reporter.quiet) as progress:
        from toile.bench import results, suite, tables
        from toile.bench.case import Case
        from toile.bench.sizes import parsed, size_label

        scenes = None if only is None else [name.strip() for name in only.split(",")]
        numbers = None if sizes is None else parsed(sizes)
        wanted = suite.cases(device, scenes, numbers, threads, Case.budget if budget is None else budget, frames)
        path = results.default_path(device, threads) if out is None else out
        kept = results.Results(path, results.conditions_on(device))
        wanted_now = [case for case in wanted if not (resume and kept.has(case))]
        for scene in dict.fromkeys(case.scene for case in wanted_now):
            progress.phase(f"preparing the kernels of {scene}")
            suite.prepare(scene, device)
        for case in wanted_now:
            name = f"{case.scene} {size_label(case.size)}"
            progress.phase(f"preparing {name}")
            kept.add(suite.measured(case, partial(progress.count, f"{name} frame")))
    rows = [row for row in kept.rows if any((row["scene"], row["size"]) == (c.scene, c.size) for c in wanted)]
    grown = suite.growths(kept.rows)
    reporter.document.update(conditions=kept.conditions, rows=rows, growth=grown)
    reporter.print(_plain_table(*tables.times(rows)))
    reporter.print("")
    reporter.print(_plain_table(*tables.outcomes(rows)))
    for line in (*tables.notes(rows, kept.conditions["machine"]["cores"]), *tables.growths(grown)):
        reporter.print(line)
    reporter.print_written([path])


def _profile(
    reporter: Reporter,
    scenes: list[str],
    device: str,
    sizes: str | None,
    frames: int | None,
    skip: int | None,
    changes: list[str],
    allow_outside: bool,
) -> None:
    from toile.errors import InputError

    if len(scenes) != 1:
        raise InputError("--profile: give exactly one scene.")
    frames, skip = frames or PROFILED_FRAMES, skip or SKIPPED_FRAMES
    with RunProgress(0, reporter.quiet) as progress:
        from toile.bench.profile import profile
        from toile.bench.sizes import parsed, resized
        from toile.scene.load import load
        from toile.simulation.simulation import Simulation

        changes = [*changes, "outputs=[]"]
        numbers = [] if sizes is None else parsed(sizes)
        if len(numbers) > 1:
            raise InputError("--sizes: --profile takes one size.")
        with show_compilation(progress):
            if numbers:
                scene = resized(scenes[0], numbers[0], changes, allow_outside)
            else:
                scene = load(scenes[0], overrides=changes, allow_outside=allow_outside)
            simulation = Simulation(scene, device=device)
            progress.begin(scene.name, skip + frames)
            for _ in range(skip):
                progress.show(simulation.advance_frame())
            found = profile(simulation, frames, progress.show)
    reporter.document.update(found)
    head = f"{found['scene']}, {found['vertices']:,} vertices on {found['device']}: "
    reporter.print(head + "frames {} to {}, {:.1f} ms each".format(*found["frames"], found["ms_per_frame"]))
    reporter.print("")
    reporter.print(_hot_table("kernel", found["kernels"]))
    reporter.print("")
    reporter.print(_hot_table("other calls", found["others"]))
    share = found["rest_ms"] / found["wall_ms"]
    reporter.print("")
    reporter.print(f"everything else, mostly Python: {found['rest_ms']:.1f} ms, {share:.1%}")


def _plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _hot_table(title: str, rows: list[dict[str, Any]]) -> Table:
    cells = [
        (row["name"], f"{row['calls']:,}", f"{row['ms']:.1f}", f"{row['share']:.1%}", f"{row['us_per_call']:.1f}")
        for row in rows[:HOTTEST]
    ]
    if len(rows) > HOTTEST:
        more = rows[HOTTEST:]
        calls, ms, share = (sum(row[key] for row in more) for key in ("calls", "ms", "share"))
        cells.append((f"{len(more)} more", f"{calls:,}", f"{ms:.1f}", f"{share:.1%}", f"{1e3 * ms / calls:.1f}"))
    return _plain_table((title, "calls", "ms", "share", "us a call"), cells)


def _scene_table(rows: list[dict[str, Any]]) -> Table:
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


def _growth_table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    from toile.bench import STAGES

    table = Table("particles", "ms/frame", *STAGES, box=None, title="hang at other resolutions")
    for row in rows:
        shares = (f"{row['shares'][stage]:.1%}" for stage in STAGES)
        table.add_row(f"{row['particles']:,}", f"{row['ms_per_frame']:.1f}", *shares)
    return table
