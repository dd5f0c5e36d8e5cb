"""--json: one document on the output stream in every case, with the structure that docs/cli.md documents."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from tests.reference.falling_triangle import SCENE, TRIANGLE, FallingTriangle
from toile.cli import COMMANDS, app
from toile.errors import StepFailed
from toile.families import FAMILIES, members

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def falling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[FallingTriangle]]:
    class Falling(FallingTriangle):
        pass

    monkeypatch.setattr("toile.runs.run.Simulation", Falling)
    monkeypatch.setenv("TOILE_PRECISION", "double")
    monkeypatch.delenv("TOILE_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fall.yaml").write_text(SCENE)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Falling
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def benched(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {"EVAL": 0.2, "CG": 0.6, "C/C": 0.0, "C/S": 0.0}
    row = {
        "scene": "hang", "particles": 2601, "triangles": 5000, "frames": 75, "steps": 150, "rejected": 0,
        "h_min": 0.01, "h_max": 0.02, "ms_per_frame": 50.0, "shares": shares, "max_strain": 0.02,
    }  # fmt: skip
    monkeypatch.setattr("toile.bench.measure", lambda scene, progress: row)
    monkeypatch.setattr("toile.bench.growth", lambda progress: ([row], 1.2))


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str, code: int = 0) -> dict[str, Any]:
    """The document, which is alone on the output stream."""
    result = call(*arguments, "--json")
    assert result.exit_code == code, result.output
    assert result.stdout.endswith("}\n")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert isinstance(found, dict)
    return found


def promised(command: str) -> dict[str, Any]:
    """The example of a document in the docs."""
    section = DOCS.split(f"## toile {command}\n")[1].split("\n## ")[0]
    return json.loads(section.split("```json\n")[1].split("```")[0])


def test_run() -> None:
    found = document("run", "fall.yaml")
    assert set(found) == set(promised("run"))
    assert (found["folder"], found["summary"]["frames"]) == (str(Path("out", "fall")), 4)
    assert all(Path(path).is_file() for path in found["written"])


def test_check(tmp_path: Path) -> None:
    found = document("check", "fall.yaml", "--out", "run")
    assert set(found) == set(promised("check"))
    assert found["ok"] is True
    assert set(found["findings"][0]) == set(promised("check")["findings"][0])
    assert call("run", "fall.yaml", "--out", "run", "--frames", "9", "--quiet").exit_code == 0
    failed = document("check", "run", code=1)
    assert (failed["ok"], [finding["ok"] for finding in failed["findings"]]) == (False, [False, False])
    assert failed["findings"][1] == {
        "key": "frames.strain.warp_max", "bound": "<= 0.05", "value": 0.09, "ok": False, "frame": 9,
    }  # fmt: skip


def test_render_and_export() -> None:
    call("run", "fall.yaml", "--out", "run")
    found = document("export", "run", "--format", "obj", "--format", "npz", "--out", "other")
    assert set(found) == set(promised("export")) == set(promised("render")) == {"written"}
    assert len(found["written"]) >= 2
    assert all(Path(path).exists() for path in found["written"])


def test_list() -> None:
    found = document("list")
    assert set(found) == set(promised("list"))
    assert {"name": "hang", "about": "[BW98] figure 2: a square sheet hung by two corners."} in found["scenes"]
    assert set(document("list", "fabrics")) == {"fabrics"}
    names = call("list", "scenes", "--quiet").stdout.split()
    assert names == [entry["name"] for entry in found["scenes"]]


def test_list_agrees_with_the_plugins() -> None:
    """The command reads files instead of importing them; the result is the same."""
    from toile.families import FAMILIES
    from toile.plugins import find, names

    found = document("list")
    for family in FAMILIES:
        assert [(entry["name"], entry["about"]) for entry in found[family]] == [
            (name, find(family, name).summary()) for name in names(family)
        ]


def test_explain() -> None:
    found = document("explain", "fall.yaml", "--set", "time.fps=5")
    example = promised("explain")
    assert set(found) == set(example)
    assert set(found["values"][0]) == set(example["values"][0])
    assert set(found["constants"][0]) == set(example["constants"][0])
    values = {entry["key"]: entry for entry in found["values"]}
    assert [values["time.fps"][key] for key in ("value", "unit", "set_by")] == ["5", "1/s", "scene"]
    assert values["time.max_step"]["set_by"] == "default"
    assert values["outputs[0]"]["value"] == "npz"


def test_explain_a_type() -> None:
    (found,) = document("explain", "pull")["types"]
    assert (found["name"], found["kind"]) == ("pull", "energy")
    assert "stiffness" in {field["key"] for field in found["fields"]}
    (preset,) = document("explain", "bw98")["presets"]
    assert preset["name"] == "bw98" and "integrator" in preset["values"]


def test_bench(benched: None) -> None:
    found = document("bench", "hang")
    assert set(found) == set(promised("bench"))
    assert found["growth"]["exponent"] == 1.2
    assert call("bench", "hang", "--quiet").stdout == ""


def test_warnings_are_in_the_document_and_on_the_error_stream(falling: type[FallingTriangle]) -> None:
    falling.warnings = ("the cloth is 300 m wide.",)
    result = call("run", "fall.yaml", "--json")
    assert json.loads(result.stdout)["warnings"] == ["the cloth is 300 m wide."]
    assert "Warning: the cloth is 300 m wide.\n" in result.stderr


def stop(number: int) -> None:
    if number == 3:
        raise KeyboardInterrupt


def fail(number: int) -> None:
    if number == 3:
        raise StepFailed("vertex 1 moved 0.41 m.", 3, 0.2, TRIANGLE, TRIANGLE)


def break_down(number: int) -> None:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("arguments", "before", "kind", "code"),
    [
        (("run", "nowhere.yaml"), None, "scene", 2),
        (("run", "fall.yaml", "--set", "time.frames=x"), None, "scene", 2),
        (("run", "fall.yaml", "--frames", "x"), None, "usage", 2),
        (("run", "fall.yaml", "--frame", "3"), None, "usage", 2),
        (("run",), None, "usage", 2),
        (("rnu", "fall.yaml"), None, "usage", 2),
        (("run", "fall.yaml", "--out", "fall.yaml"), None, "output", 1),
        (("run", "fall.yaml"), fail, "step", 3),
        (("run", "fall.yaml"), break_down, "internal", 70),
        (("run", "fall.yaml"), stop, "interrupted", 130),
        (("check", "nowhere"), None, "scene", 2),
        (("check", "."), None, "input", 2),
        (("render", "nowhere"), None, "input", 2),
        (("export", "nowhere", "--format", "npz"), None, "input", 2),
        (("explain", "hnag"), None, "scene", 2),
        (("list", "things"), None, "usage", 2),
        (("bench", "hnag"), None, "scene", 2),
    ],
)
def test_errors_are_in_the_document(
    falling: type[FallingTriangle],
    arguments: tuple[str, ...],
    before: Callable[[int], None] | None,
    kind: str,
    code: int,
) -> None:
    if before is not None:
        falling.before = staticmethod(before)
    found = document(*arguments, code=code)
    error = found["error"]
    assert (error["kind"], error["exit_code"]) == (kind, code)
    assert error["message"]
    kinds = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", DOCS, re.M))
    assert kinds[kind] == str(code), "as the docs have it"
    plain = call(*arguments)
    assert plain.exit_code == code
    assert plain.stdout == ""
    printed = plain.stderr.replace("│", " ").split()  # typer draws a frame around its errors
    assert " ".join(error["message"].splitlines()[0][:40].split()) in " ".join(printed)
    assert "Traceback" not in plain.stderr


def test_an_interrupted_run_lists_its_files(falling: type[FallingTriangle]) -> None:
    falling.before = staticmethod(stop)
    found = document("run", "fall.yaml", code=130)
    assert set(found) >= {"folder", "written", "summary", "error"}
    assert all(Path(path).is_file() for path in found["written"])


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """A folder without read permission; a superuser becomes another user for the test."""
    folder.chmod(0)
    folder.parent.chmod(0o755)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has other permissions")
@pytest.mark.parametrize(
    "arguments",
    [
        ("render", "run"),
        ("export", "run", "--format", "npz"),
        ("check", "run"),
        ("run", "fall.yaml", "--out", "run/in"),
    ],
)
def test_a_folder_without_permission_is_reported(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert call("run", "fall.yaml", "--out", "run", "--quiet").exit_code == 0
    with forbidden(tmp_path / "run"):
        result = call(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert re.search(r"run.*permission denied", result.stderr.lower()), result.stderr
    assert "bug in Toile" not in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_full_disk_is_reported_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        result = call("run", "fall.yaml", "--out", "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 1, result.output
    assert "cannot be written" in result.stderr
    assert "Traceback" not in result.stderr
    assert not [path for path in tmp_path.rglob("run/*") if path.name in ("cache.pc2", "fall.npz", "report.json")]


def test_a_damaged_run_is_reported(tmp_path: Path) -> None:
    call("run", "fall.yaml", "--out", "run")
    cache = tmp_path / "run" / "cache.pc2"
    cache.write_bytes(cache.read_bytes()[:-5])
    result = call("render", "run")
    assert result.exit_code == 2
    assert "cache.pc2: damaged" in result.stderr
    (tmp_path / "run" / "report.json").write_text('{"summary": ')
    result = call("check", "run")
    assert result.exit_code == 2
    assert "not a readable certificate" in result.stderr


def test_debug_may_be_set_for_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in call("check", "nowhere").stderr
    monkeypatch.setenv("TOILE_DEBUG", "1")
    assert "Traceback" in call("check", "nowhere").stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_docs_have_every_argument_and_option(name: str) -> None:
    group = typer.main.get_command(app)
    parameters = group.commands[name].params  # type: ignore[attr-defined]
    options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    options = {option for option in options if option.startswith("--")} - {"--help"}
    section = DOCS.split(f"## toile {name}\n")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    assert {option for row in rows for option in re.findall(r"--[\w-]+", row)} == options
    arguments = [p.metavar or p.name.upper() for p in parameters if not p.opts[0].startswith("--")]
    usage = section.split("    toile ")[1].splitlines()[0]
    assert all(argument in usage for argument in arguments)
    assert "--debug" in options


def test_the_docs_have_no_other_command() -> None:
    assert re.findall(r"^## toile (\w+)$", DOCS, re.M) == list(COMMANDS)


@pytest.mark.parametrize("type_name", sorted({name for family in FAMILIES for name in members(family)}))
def test_every_type_can_be_explained(type_name: str) -> None:
    """This includes types without fields, such as ply and cholesky."""
    found = document("explain", type_name)["types"]
    assert {entry["name"] for entry in found} == {type_name}
    assert all(entry["about"] for entry in found)
