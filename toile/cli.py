"""The `toile` command. Only typer and rich are imported here: everything heavy waits until a command needs it."""

from __future__ import annotations

import contextlib
import json
import signal
import traceback
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import toile

if TYPE_CHECKING:
    from toile.model.frame import Frame
    from toile.runs import RunResult
    from toile.scene.schema import Scene

app = typer.Typer(
    help="Cloth simulation in SI units, with a certificate for every run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, markup=False, soft_wrap=True)
errors = Console(highlight=False, markup=False, soft_wrap=True, stderr=True)

# Exit codes beyond those of toile.errors. Shells expect 128 and the number of the signal for a stopped command.
NOT_MET, INTERNAL, INTERRUPTED, TERMINATED = 1, 70, 130, 143


class Device(StrEnum):
    cpu = "cpu"
    cuda = "cuda"


class Precision(StrEnum):
    double = "double"
    single = "single"


class Audited(StrEnum):
    none = "none"
    frame = "frame"
    step = "step"


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


SceneArgument = Annotated[str, typer.Argument(metavar="SCENE", help="a shipped scene by name, or a scene file")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a finished run")]
OutFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="folder for the results; out/NAME when not given")
]
FramesOption = Annotated[int | None, typer.Option(min=0, help="frames to simulate instead of the scene's number")]
DeviceOption = Annotated[Device, typer.Option(help="where to compute")]
PrecisionOption = Annotated[Precision, typer.Option(envvar="TOILE_PRECISION", help="number type of the kernels")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a value of the scene; may be repeated")
]
OutsideOption = Annotated[bool, typer.Option("--allow-outside", help="let the scene read files outside its folder")]
AuditOption = Annotated[
    Audited | None,
    typer.Option(help="when to count intersecting triangles; every frame when cloth meets cloth, if not given"),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="refuse a scene whose cloths intersect at the start")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="print warnings and errors only")]
JsonOption = Annotated[bool, typer.Option("--json", help="print the result as JSON")]
DebugOption = Annotated[bool, typer.Option("--debug", help="show where in the code an error arose")]


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    if version:
        console.print(f"toile {toile.__version__}")
        raise typer.Exit


@app.command()
def run(
    scene: SceneArgument,
    frames: FramesOption = None,
    out: OutFolder = None,
    device: DeviceOption = Device.cpu,
    precision: PrecisionOption = Precision.double,
    changes: SetOption = None,
    audit: AuditOption = None,
    strict: StrictOption = False,
    allow_outside: OutsideOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Simulate a scene and write its results."""
    with _told(debug):
        toile.use_precision(precision)
        loaded = _load(scene, changes, allow_outside)
        result = _simulate(loaded, out, device, frames, quiet or as_json, audit, strict)
        if as_json:
            written = [str(path) for path in result.written]
            typer.echo(
                json.dumps({"folder": str(result.folder), "written": written, "summary": result.report["summary"]})
            )
        elif not quiet:
            _print_result(result)


@app.command("list")
def list_kinds(
    kind: Annotated[Kind | None, typer.Argument(help="what to list; everything when not given")] = None,
) -> None:
    """Show what a scene can name, with one line about each."""
    with _told():
        for each in [kind] if kind else list(Kind):
            entries = _entries(each)
            width = max((len(name) for name, _ in entries), default=0)
            indent = "" if kind else "  "
            if not kind:
                console.print(each.value)
            for name, about in entries:
                console.print(f"{indent}{name:<{width}}  {about}".rstrip())


@app.command()
def explain(
    scene: Annotated[
        str, typer.Argument(metavar="SCENE|WORD", help="a scene, or a word that scenes use, such as grid, pull or bw98")
    ],
    changes: SetOption = None,
    allow_outside: OutsideOption = False,
    debug: DebugOption = False,
) -> None:
    """Show every value of a scene, or every field of a word, with its unit, limits and meaning."""
    with _told(debug):
        from toile.scene.explain import explain as explained
        from toile.scene.explain import explain_plugin, explain_preset

        families, presets = _families(scene), _presets(scene)
        for family in families:
            console.print(explain_plugin(family, scene))
        for preset in presets:
            console.print(explain_preset(preset))
        if not families and not presets:
            console.print(explained(_load(scene, changes, allow_outside)))


@app.command()
def check(
    scene: Annotated[str, typer.Argument(metavar="SCENE|RUN", help="a scene to run, or the folder of a finished run")],
    out: OutFolder = None,
    device: DeviceOption = Device.cpu,
    precision: PrecisionOption = Precision.double,
    allow_outside: OutsideOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare a run with what its scene expects of it."""
    with _told(debug):
        from toile.check import check as compare
        from toile.check import read_report

        if Path(scene).is_dir():
            expect, report = read_report(Path(scene))
        else:
            toile.use_precision(precision)
            loaded = _load(scene, None, allow_outside)
            expect, report = loaded.expect, _simulate(loaded, out, device, None, quiet).report
        findings = compare(expect, report)
        table = Table("figure", "expected", "found", "at frame", "")
        for finding in findings:
            frame = "" if finding.frame is None else str(finding.frame)
            table.add_row(finding.key, finding.bound, _figure(finding.value), frame, "met" if finding.ok else "NOT MET")
        failed = sum(not finding.ok for finding in findings)
        if findings and (failed or not quiet):
            console.print(table)
        if not findings:
            errors.print(f"{scene} expects nothing: its expect block is empty.")
        if failed:
            errors.print(f"{failed} of {len(findings)} expectations not met.")
        complete = report["summary"]["ok"]
        if not complete:
            errors.print(f"{scene}: the run is not complete: {report.get('stopped', 'its certificate is not ok.')}")
        if failed or not complete:
            raise typer.Exit(NOT_MET)


@app.command()
def render(
    run: RunArgument,
    frame: Annotated[int | None, typer.Option(min=0, help="frame to show; the last when not given")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="a .png for one frame, or a .mp4 for all; a picture in RUN when not given"),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Make a picture or a film of a finished run."""
    with _told(debug):
        from toile.run_folder import render_run

        console.print(str(render_run(run, out, frame)))


@app.command()
def export(
    run: RunArgument,
    formats: Annotated[list[str], typer.Option("--format", help="an output by name, such as usd; may be repeated")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder to write to; the run's when not given")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Write a finished run in other formats."""
    with _told(debug):
        from toile.run_folder import export_run

        for path in export_run(run, formats, out):
            console.print(str(path))


@app.command()
def bench(
    scenes: Annotated[
        list[str] | None, typer.Argument(help="scenes to time; all that are shipped when not given")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Time the shipped scenes and how the time grows with the mesh."""
    with _told(debug):
        from toile.bench import run as measure

        measure(scenes or [], console)


def main() -> None:
    app()


class Terminated(KeyboardInterrupt):
    """SIGTERM: the run ends as for Ctrl-C."""


@contextlib.contextmanager
def _told(debug: bool = False) -> Iterator[None]:
    """Errors become messages and exit codes."""
    from toile.errors import ToileError

    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, ToileError):
            errors.print(str(error))
            code = error.exit_code
        elif isinstance(error, KeyboardInterrupt):
            errors.print("Stopped.")
            code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        else:
            errors.print(f"{type(error).__name__}: {error}\nThis is a fault in Toile. --debug shows where it arose.")
            code = INTERNAL
        raise typer.Exit(code) from None


def _load(scene: str, changes: list[str] | None, allow_outside: bool) -> Scene:
    from toile.scene.load import load

    return load(scene, overrides=changes or (), allow_outside=allow_outside)


def _simulate(
    scene: Scene,
    out: Path | None,
    device: Device,
    frames: int | None,
    quiet: bool,
    audit: Audited | None = None,
    strict: bool = False,
) -> RunResult:
    """Run with a progress bar; a run that is stopped shows what it could complete."""
    from toile.runs import Interrupted
    from toile.runs import run as simulate

    folder = Path("out", scene.name) if out is None else out
    signal.signal(signal.SIGTERM, _terminate)
    with _Bar(scene.time.frames if frames is None else frames, hidden=quiet) as bar:
        try:
            return simulate(
                scene,
                folder,
                device=device.value,
                frames=frames,
                audit=None if audit is None else audit.value,
                strict=strict,
                progress=bar.show,
                warn=bar.warn,
            )
        except Interrupted as stop:
            bar.close()
            _print_result(stop.result, to=errors)
            raise stop.__cause__ or stop from None


def _terminate(*_: object) -> NoReturn:
    raise Terminated


class _Bar:
    """How far a run is, on the error stream, so that the output stream holds results only."""

    def __init__(self, frames: int, hidden: bool):
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=errors, disable=hidden)
        self.task = self.progress.add_task("preparing", total=None, state="")
        self.frames = frames
        self.steps = self.rejected = 0
        self.strain = 0.0

    def __enter__(self) -> _Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.progress.stop()

    def warn(self, message: str) -> None:
        errors.print(f"Warning: {message}")

    def show(self, frame: Frame) -> None:
        entry = frame.certificate or {}
        self.steps += entry.get("steps", 0)
        self.rejected += entry.get("rejected", 0)
        self.strain = max(
            self.strain, *(entry.get("strain", {}).get(f"{way}_max", 0.0) for way in ("warp", "weft", "edge"))
        )
        self.progress.update(
            self.task,
            description=f"frame {frame.number}/{self.frames}",
            total=self.frames,
            completed=frame.number,
            state=f"{self.steps} steps, {self.rejected} rejected, strain {100 * self.strain:.1f} %",
        )


def _print_result(result: RunResult, to: Console = console) -> None:
    summary = result.report["summary"]
    to.print(
        f"{summary['frames']} frames, {summary['steps']} steps, {summary['rejected']} rejected, "
        f"{_figure(summary['ms_per_frame'])} ms a frame, largest strain {100 * summary['max_strain']:.1f} %"
        f"{_intersections(summary)}"
    )
    for path in result.written:
        to.print(f"  {path}")
    if not summary["ok"] and "stopped" not in result.report:
        errors.print("The certificate is not ok: report.json says what is wrong.")


def _intersections(summary: dict[str, Any]) -> str:
    """At the start, at most and at the end, where they were counted and there were any."""
    most = summary.get("intersections")
    if most is None:
        return ""
    start, end = summary["intersections_start"], summary["intersections_end"]
    if not (most or start):
        return ", no intersections"
    return f", {start} intersections at the start, {most} at most and {end} at the end"


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value).lower()


def _entries(kind: Kind) -> list[tuple[str, str]]:
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


def _first_line(path: Path) -> str:
    """A scene opens with a comment that says what it shows."""
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()
