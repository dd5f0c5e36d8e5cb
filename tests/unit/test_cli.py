"""The command line and the folder of a run, with a stand-in for a simulation that takes no time and fails on demand."""

from __future__ import annotations

import json
import re
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import toile
from tests.reference.falling_triangle import SCENE, TRIANGLE, FallingTriangle
from toile.cli import app
from toile.errors import InputError, StepFailed
from toile.model.frame import Frame
from toile.outputs.npz import Npz
from toile.outputs.pc2 import Pc2Writer
from toile.runs.run import Interrupted, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Restores Ctrl-C, which is ignored where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def falling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[FallingTriangle]:
    class Falling(FallingTriangle):
        pass

    monkeypatch.setattr("toile.runs.run.Simulation", Falling)
    monkeypatch.setenv("TOILE_PRECISION", "double")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fall.yaml").write_text(SCENE)
    before = signal.getsignal(signal.SIGTERM)
    yield Falling
    signal.signal(signal.SIGTERM, before)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def raising(error: BaseException, at: int) -> Callable[[int], None]:
    def before(number: int) -> None:
        if number == at:
            raise error

    return before


def cached_frames(folder: Path) -> int:
    return struct.unpack("<12siiffi", (folder / "cache.pc2").read_bytes()[:32])[-1]


def files(folder: Path) -> set[str]:
    """The files of the results, without those of tests/unit/test_resume.py."""
    return {path.name for path in folder.iterdir() if path.name != ".resume"} if folder.exists() else set()


def test_a_run_writes_its_results_and_prints_their_paths(tmp_path: Path) -> None:
    result = call("run", "fall.yaml")
    folder = tmp_path / "out" / "fall"
    assert result.exit_code == 0, result.output
    assert files(folder) == {"cache.pc2", "rest.obj", "fall.npz", "report.json"}
    assert cached_frames(folder) == 5
    assert all(str(Path("out", "fall", name)) in result.stdout for name in files(folder))
    assert "4 frames, 8 steps, 0 rejected" in result.stdout
    assert "largest strain 4.0 %" in result.stdout


def test_the_certificate_is_valid_json_with_expectations_and_output_times(tmp_path: Path) -> None:
    call("run", "fall.yaml", "--out", "here")
    report = json.loads((tmp_path / "here" / "report.json").read_text(), parse_constant=pytest.fail)
    assert report["summary"]["ms_per_frame"] is None  # JSON has no NaN
    assert report["expect"]["max_strain"] == {"max": 0.05}
    assert "stopped" not in report
    assert [entry["frame"] for entry in report["frames"]] == [1, 2, 3, 4]
    assert all(entry["ms"]["output"] > 0 and entry["ms"]["CG"] == 1.0 for entry in report["frames"])


def test_frames_and_values_can_be_changed(tmp_path: Path) -> None:
    assert call("run", "fall.yaml", "--frames", "2").exit_code == 0
    assert cached_frames(tmp_path / "out" / "fall") == 3
    assert call("run", "fall.yaml", "--set", "time.frames=1", "--set", "name=short").exit_code == 0
    assert cached_frames(tmp_path / "out" / "short") == 2


def test_json_is_the_only_output() -> None:
    printed = json.loads(call("run", "fall.yaml", "--json").stdout)
    assert printed["summary"]["frames"] == 4
    assert str(Path("out", "fall", "report.json")) in printed["written"]


def test_quiet_prints_warnings_only(falling: type[FallingTriangle]) -> None:
    falling.warnings = ("the cloth is 300 m wide.",)
    result = call("run", "fall.yaml", "--quiet")
    assert result.stdout == ""
    assert result.stderr == "Warning: the cloth is 300 m wide.\n"


def test_without_a_folder_nothing_is_written(tmp_path: Path, falling: type[FallingTriangle]) -> None:
    falling.warnings = ("odd.",)
    seen: list[int] = []
    before = files(tmp_path)
    with pytest.warns(UserWarning, match="odd"):
        result = run(toile.load("fall.yaml"), progress=lambda frame: seen.append(frame.number))
    assert seen == [0, 1, 2, 3, 4]
    assert (result.folder, result.written, result.report["summary"]["frames"]) == (None, [], 4)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "nowhere.yaml"), "nowhere.yaml"),
        (("run", "hnag"), 'Did you mean "hang"?'),
        (("run", "fall.yaml", "--set", "time.frames"), "--set time.frames  write it as key=value"),
        (("run", "fall.yaml", "--set", "time.frame=3"), 'Did you mean "frames"?'),
        (("run", "fall.yaml", "--set", "time.frames=-3"), "time.frames = -3"),
        (("explain", "nowhere.yaml"), "nowhere.yaml"),
        (("check", "nowhere.yaml"), "nowhere.yaml"),
        (("check", "."), "it has no report.json"),
        (("render", "nowhere"), "nowhere"),
        (("export", "nowhere", "--format", "npz"), "nowhere"),
    ],
)
def test_wrong_input_is_reported_with_exit_code_2_and_nothing_is_written(
    tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    before = files(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.output
    assert files(tmp_path) == before


def test_nothing_is_written_when_the_simulation_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, falling: type[FallingTriangle]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InputError("cloth[0]: vertex 7 is not a number.")

    monkeypatch.setattr(falling, "__init__", refuse)
    result = call("run", "fall.yaml")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "cloth[0]: vertex 7 is not a number.")
    assert files(tmp_path) == {"fall.yaml"}


def test_no_files_remain_when_an_output_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InputError("npz: needs a package.")

    monkeypatch.setattr(Npz, "writer", refuse)
    assert call("run", "fall.yaml").exit_code == 2
    assert files(tmp_path) == {"fall.yaml"}


def test_a_failed_step_keeps_the_good_frames_and_the_state_before(
    tmp_path: Path, falling: type[FallingTriangle]
) -> None:
    message = "StepFailed at t = 0.200 s (frame 3): vertex 1 moved 0.41 m in one step of 20 ms."
    falling.before = staticmethod(raising(StepFailed(message, 3, 0.2, TRIANGLE + 1.0, TRIANGLE - 1.0), at=3))
    result = call("run", "fall.yaml")
    folder = tmp_path / "out" / "fall"
    assert result.exit_code == 3
    saved = Path("out", "fall", "failed_0003.npz")
    assert f"{message}\n  State before the step saved to {saved}. Try a smaller time.max_step.\n" in result.stderr
    assert "Traceback" not in result.output
    assert files(folder) == {"cache.pc2", "rest.obj", "failed_0003.npz", "report.json"}
    assert cached_frames(folder) == 3
    state = np.load(folder / "failed_0003.npz", allow_pickle=False)
    assert (int(state["frame"]), float(state["time"])) == (3, 0.2)
    np.testing.assert_array_equal(state["positions"], TRIANGLE + 1.0)
    np.testing.assert_array_equal(state["velocities"], TRIANGLE - 1.0)
    report = json.loads((folder / "report.json").read_text())
    assert (report["summary"]["ok"], report["stopped"]) == (False, message)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_completes_its_outputs(
    tmp_path: Path, falling: type[FallingTriangle], number: signal.Signals, code: int
) -> None:
    falling.before = staticmethod(lambda frame: signal.raise_signal(number) if frame == 3 else None)
    result = call("run", "fall.yaml")
    folder = tmp_path / "out" / "fall"
    assert result.exit_code == code
    assert files(folder) == {"cache.pc2", "rest.obj", "fall.npz", "report.json"}
    assert cached_frames(folder) == 3
    report = json.loads((folder / "report.json").read_text())
    assert (report["summary"]["frames"], report["summary"]["ok"], report["stopped"]) == (2, False, "interrupted")
    assert "2 frames" in result.stderr
    assert str(Path("out", "fall", "report.json")) in result.stderr


def test_an_interrupt_between_two_outputs_waits_for_the_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Pc2Writer.write

    def write_and_stop(self: Pc2Writer, frame: Frame) -> None:
        write(self, frame)
        if frame.number == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Pc2Writer, "write", write_and_stop)
    with pytest.raises(Interrupted) as stopped:
        run(toile.load("fall.yaml"), tmp_path / "run")
    assert cached_frames(tmp_path / "run") == 3
    assert len(np.load(tmp_path / "run" / "fall.npz")["positions"]) == 3
    assert str(stopped.value) == "interrupted after frame 2"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_after_the_last_frame_waits_for_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    close = Pc2Writer.close

    def stop_and_close(self: Pc2Writer) -> list[Path]:
        signal.raise_signal(number)
        return close(self)

    monkeypatch.setattr(Pc2Writer, "close", stop_and_close)
    result = call("run", "fall.yaml")
    folder = tmp_path / "out" / "fall"
    assert (result.exit_code, files(folder)) == (0, {"cache.pc2", "rest.obj", "fall.npz", "report.json"})
    assert json.loads((folder / "report.json").read_text())["summary"]["ok"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_after_the_last_frame_is_raised_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pc2Writer, "close", lambda self: signal.raise_signal(signal.SIGINT) or [])
    with pytest.raises(Interrupted) as stopped:
        run(toile.load("fall.yaml"), tmp_path / "run")
    assert "stopped" not in stopped.value.result.report


def test_a_second_interrupt_discards_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_twice(self: Pc2Writer) -> list[Path]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    monkeypatch.setattr(Pc2Writer, "close", stop_twice)
    result = call("run", "fall.yaml")
    assert result.exit_code == 130
    assert "--resume" in result.stderr
    assert "report.json" not in files(tmp_path / "out" / "fall")


def test_two_runs_do_not_share_a_folder(tmp_path: Path, falling: type[FallingTriangle]) -> None:
    results: list[Result] = []

    def second(number: int) -> None:
        falling.before = staticmethod(lambda frame: None)
        results.append(call("run", "fall.yaml"))

    falling.before = staticmethod(second)
    assert call("run", "fall.yaml").exit_code == 0
    assert results[0].exit_code == 2
    assert "another run is writing here. Wait until it ends, or choose another folder." in results[0].stderr
    assert cached_frames(tmp_path / "out" / "fall") == 5
    assert call("run", "fall.yaml").exit_code == 0  # the folder is unlocked


def test_a_folder_that_cannot_be_made_is_reported() -> None:
    result = call("run", "fall.yaml", "--out", "fall.yaml/out")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_internal_errors_show_a_traceback_only_with_debug(falling: type[FallingTriangle]) -> None:
    falling.before = staticmethod(raising(ZeroDivisionError("by zero"), at=1))
    plain, debugged = call("run", "fall.yaml"), call("run", "fall.yaml", "--debug")
    assert (plain.exit_code, debugged.exit_code) == (70, 70)
    assert "ZeroDivisionError: by zero\nThis is a bug in Toile. --debug shows the traceback.\n" in plain.stderr
    assert "Traceback" not in plain.output
    assert "Traceback" in debugged.output


def test_check_compares_a_scene_or_a_finished_run() -> None:
    passed = call("check", "fall.yaml", "--out", "run")
    assert passed.exit_code == 0, passed.output
    assert "frames.strain.warp_max" in passed.stdout
    assert call("check", "run").exit_code == 0
    assert call("run", "fall.yaml", "--out", "run", "--frames", "9").exit_code == 0
    failed = call("check", "run")
    assert failed.exit_code == 1
    assert failed.stdout.count("NOT MET") == 2
    assert "2 of 2 expectations not met." in failed.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_unknown_value_is_reported_before_anything_runs(tmp_path: Path, command: str) -> None:
    (tmp_path / "typo.yaml").write_text(SCENE.replace("max_strain", "max_strian"))
    result = call(command, "typo.yaml")
    assert result.exit_code == 2
    expected = 'typo.yaml:6  expect.max_strian: no such value in the certificate. Did you mean "max_strain"?\n'
    assert result.stderr == expected
    assert files(tmp_path) == {"fall.yaml", "typo.yaml"}


def test_check_of_a_failed_run_prints_the_reason(tmp_path: Path, falling: type[FallingTriangle]) -> None:
    (tmp_path / "plain.yaml").write_text(SCENE.partition("expect:")[0])
    falling.before = staticmethod(raising(StepFailed("vertex 1 moved 0.41 m.", 3, 0.2, TRIANGLE, TRIANGLE), at=3))
    assert call("run", "plain.yaml", "--out", "run").exit_code == 3
    result = call("check", "run")
    assert result.exit_code == 1
    assert "run: the run is not complete: vertex 1 moved 0.41 m.\n" in result.stderr


@pytest.mark.parametrize(
    ("kind", "name", "about"),
    [
        ("shapes", "grid", "A rectangular sheet"),
        ("outputs", "npz", ""),
        ("scenes", "hang", "[BW98] figure 2: a square sheet hung by two corners."),
        ("fabrics", "cotton", ""),
        ("energies", "stretch", ""),
        ("constraints", "pin", ""),
        ("integrators", "implicit_bdf2", ""),
        ("preconditioners", "block_jacobi", ""),
    ],
)
def test_list_names_everything_with_one_line_each(kind: str, name: str, about: str) -> None:
    result = call("list", kind)
    assert result.exit_code == 0, result.output
    rows = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert all(len(row) == 2 and len(row[1]) > 10 for row in rows), "every one has its line"
    assert about in dict(rows)[name]


def test_list_without_a_kind_shows_all_kinds() -> None:
    lines = call("list").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "shapes",
        "energies",
        "colliders",
        "constraints",
        "filters",
        "integrators",
        "preconditioners",
        "post",
        "outputs",
        "scenes",
        "fabrics",
        "presets",
    ]


def test_explain_shows_units() -> None:
    result = call("explain", "fall.yaml")
    assert result.exit_code == 0, result.output
    assert "max_step" in result.stdout
    assert "m/s^2" in result.stdout


def test_a_table_in_a_file_has_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = call("explain", "level_set").stdout.splitlines()
    assert all(line == line.rstrip() for line in lines)
    (friction,) = [line for line in lines if line.startswith("friction")]
    assert re.fullmatch(r"friction +0.3 +>= 0 +Coulomb friction coefficient between cloth and this solid", friction)


def test_explain_shows_the_fields_of_a_type(tmp_path: Path) -> None:
    result = call("explain", "pull")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("pull (energy)  ")
    assert all(name in result.stdout for name in ("triangle", "weights", "target", "stiffness", "keyframes", "N s/m"))
    assert call("explain", "cholesky").stdout.startswith("cholesky (preconditioner)  ")
    assert 'no scene, type or preset "pul"' in call("explain", "pul").stderr


def test_export_writes_a_finished_run_again(tmp_path: Path) -> None:
    call("run", "fall.yaml", "--out", "run")
    result = call("export", "run", "--format", "obj", "--format", "npz", "--out", "other")
    assert result.exit_code == 0, result.output
    written = [Path(line) for line in result.stdout.splitlines()]
    assert written and all((tmp_path / path).exists() for path in written)
    np.testing.assert_allclose(np.load(next(tmp_path.glob("other/*.npz")))["positions"][-1][:, 2], -0.4, atol=1e-6)


@pytest.mark.parametrize("given", ["fall", "fal", "out/fal", "out/fell"])
def test_a_missing_run_gets_a_suggestion(given: str) -> None:
    call("run", "fall.yaml")
    result = call("render", given)
    assert result.exit_code == 2
    assert f'{Path(given)}: no such folder. Did you mean "{Path("out", "fall")}"?\n' in result.stderr


def test_a_long_sequence_of_files_is_one_line(tmp_path: Path) -> None:
    call("run", "fall.yaml", "--out", "run", "--frames", "20")
    result = call("export", "run", "--format", "obj", "--format", "npz", "--out", "other")
    assert result.exit_code == 0, result.output
    frames = Path("other", "obj", "fall_0000.obj")
    assert f"{frames} ... fall_0020.obj (21 files)\n" in result.stdout
    assert f"{Path('other', 'fall.npz')}\n" in result.stdout
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize("page", ["README.md", "docs/scenes.md"])
def test_documented_scenes_can_be_run(tmp_path: Path, page: str) -> None:
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```yaml\n")[1:]
    scenes = [block.split("```")[0] for block in blocks if "version: 1" in block.split("```")[0]]
    assert scenes
    for text in scenes:
        (tmp_path / "documented.yaml").write_text(text, encoding="utf-8")
        assert toile.load("documented.yaml").cloth
