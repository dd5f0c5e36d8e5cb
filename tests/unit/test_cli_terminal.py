"""The command in real processes: on a terminal, in a pipe, stopped by signals, in a locale without UTF-8."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reference.falling_triangle import SCENE

ROOT = Path(__file__).parents[2]
FALLING = (sys.executable, "-m", "tests.reference.falling_triangle")
TOILE = (sys.executable, "-m", "toile")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")} | {
    "PYTHONPATH": str(ROOT),
    "TERM": "xterm-256color",
    "LANG": "C.UTF-8",
}

pty = pytest.importorskip("pty", reason="only Unix has pseudo-terminals")


class Terminal:
    """A command on its own pseudo-terminal, which is its controlling terminal, so that Ctrl-C is a key."""

    def __init__(self, command: tuple[str, ...], folder: Path, columns: int = 80, **environment: str):
        self.process, self.screen = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, ENVIRONMENT | {"COLUMNS": str(columns)} | environment)
        self.shown = ""

    def read_until(self, pattern: str, seconds: float = 120.0) -> str:
        """The output up to and including the pattern, or all of it if the command ends first."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.plain()) and time.monotonic() < end:
            if select.select([self.screen], [], [], 0.1)[0]:
                try:
                    data = os.read(self.screen, 4096)
                except OSError:  # Linux: the other end is closed
                    break
                if not data:
                    break
                self.shown += data.decode(errors="replace")
        return self.plain()

    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)

    def press(self, key: bytes) -> None:
        os.write(self.screen, key)

    def exit_code(self) -> int:
        self.read_until(r"(?!)", 60.0)
        _, status = os.waitpid(self.process, 0)
        os.close(self.screen)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture(autouse=True)
def scene(tmp_path: Path) -> Path:
    path = tmp_path / "fall.yaml"
    path.write_text(SCENE.replace("frames: 4", "frames: 400"))
    return path


def call(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_terminal_shows_a_bar_and_ctrl_c_completes_the_results(tmp_path: Path) -> None:
    terminal = Terminal((*FALLING, "run", "fall.yaml", "--out", "run"), tmp_path, FALLING_PAUSE="0.05")
    assert "reading the scene" in terminal.read_until("reading the scene")
    assert "preparing" in terminal.read_until("preparing")
    pattern = r"frame \d+/400 [━╸]+  \d+ steps, 0 rejected, strain \d+\.\d %, \d+ s left"
    assert re.search(pattern, terminal.read_until(pattern))
    terminal.press(b"\x03")
    assert terminal.exit_code() == 130
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    frames = report["summary"]["frames"]
    assert frames >= 1
    printed = terminal.plain()
    assert "stopping (Ctrl-C again to discard): completing the results" in printed
    assert f"{frames} frames, {2 * frames} steps, 0 rejected" in printed
    assert all(str(Path("run", name)) in printed for name in ("cache.pc2", "fall.npz", "report.json"))
    assert "Stopped." in printed
    assert "Traceback" not in printed
    assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h"), "the cursor is there again"


def test_a_narrow_terminal_without_color_is_enough(tmp_path: Path, scene: Path) -> None:
    scene.write_text(SCENE)
    command = (*FALLING, "check", "fall.yaml", "--out", "run")
    terminal = Terminal(command, tmp_path, columns=20, FALLING_PAUSE="0.1", NO_COLOR="1")
    assert terminal.exit_code() == 0
    assert "Traceback" not in terminal.shown
    assert not re.search(r"\x1b\[(3|4|9|10)\dm|\x1b\[38", terminal.shown), "no colors"


def test_a_pipe_gets_lines_without_control_characters_and_sigterm_ends_with_143(tmp_path: Path) -> None:
    process = subprocess.Popen(
        (*FALLING, "run", "fall.yaml", "--out", "run", "--json"),
        cwd=tmp_path,
        env=ENVIRONMENT | {"FALLING_PAUSE": "0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("frame"):
            break
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    printed = "".join(lines) + err
    assert process.returncode == 143
    assert re.search(r"^frame \d+/400, \d+ steps, 0 rejected, strain \d+\.\d %(, \S+ s? ?left)?$", printed, re.M)
    assert "\x1b" not in printed and "\r" not in printed
    document = json.loads(out)
    assert document["error"] == {"kind": "terminated", "message": "Stopped.", "exit_code": 143}
    assert str(Path("run", "report.json")) in document["written"]
    assert document["summary"]["frames"] >= 1


@pytest.mark.parametrize("arguments", [("list",), ("run", "--help"), ("list", "--json")])
def test_a_closed_pipe_is_no_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.closing(os.fdopen(writing, "w")) as nobody:
        done = subprocess.run(
            (*TOILE, *arguments),
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.stderr == ""
    assert done.returncode in (1, 141)


def test_a_run_continues_when_its_error_stream_is_closed(tmp_path: Path, scene: Path) -> None:
    scene.write_text(SCENE)
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.closing(os.fdopen(writing, "w")) as nobody:
        done = subprocess.run(
            (*FALLING, "run", "fall.yaml", "--out", "run"),
            cwd=tmp_path,
            env=ENVIRONMENT | {"FALLING_PAUSE": "1"},
            stdout=subprocess.PIPE,
            stderr=nobody,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0
    assert "4 frames" in done.stdout
    assert (tmp_path / "run" / "report.json").is_file()


@pytest.mark.parametrize(
    "locale",
    [{"LANG": "C"}, {"LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_a_locale_without_utf8_escapes_other_characters(tmp_path: Path, locale: dict[str, str]) -> None:
    done = call(*TOILE, "list", "Nähte", cwd=tmp_path, **locale)
    assert done.returncode == 2
    assert "shapes" in done.stderr
    assert "Traceback" not in done.stderr
    shown = call(*TOILE, "list", cwd=tmp_path, **locale)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_without_arguments_the_first_commands_are_printed(tmp_path: Path) -> None:
    done = call(*TOILE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    commands = re.findall(r"^  toile (\w+) (\w+)", done.stdout, re.M)
    assert len(commands) == 4
    help_text = call(*TOILE, "--help", cwd=tmp_path).stdout
    assert all(name in help_text for name, _ in commands)
