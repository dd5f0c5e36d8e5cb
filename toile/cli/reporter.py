"""How a command speaks: to a person, briefly, or as one JSON document; and how errors become messages and exit codes.

    with reporting(debug, quiet, as_json) as reporter:
        reporter.warn("the cloth is 300 m wide.")       # error stream; with --json also in the document
        reporter.say("4 frames")                        # output stream; nothing with --quiet or --json
        reporter.document["frames"] = 4                 # printed at the end, with --json

An error is `{"error": {"kind", "message", "exit_code"}}` in the document. Tracebacks are for those who ask for them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import threading
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from toile.cli.streams import Unheard, console, errors

if TYPE_CHECKING:
    from rich.console import RenderableType

# Exit codes beyond those of toile.errors. Shells expect 128 and the number of the signal for a stopped command.
NOT_MET, USAGE, INTERNAL, INTERRUPTED, UNHEARD, TERMINATED = 1, 2, 70, 130, 141, 143

MAX_LINES = 8  # files of one kind that are listed one by one
WIDEST = 10_000  # [columns]  of a table in a file


class Terminated(KeyboardInterrupt):
    """SIGTERM: the run ends as for Ctrl-C."""


class Reporter:
    """What one command has to say."""

    def __init__(self, quiet: bool = False, as_json: bool = False):
        self.quiet, self.as_json = quiet, as_json
        self.document: dict[str, Any] = {}
        self.warnings: list[str] = []

    def print(self, what: RenderableType) -> None:
        """A result, for people."""
        if not self.quiet and not self.as_json:
            show(what)

    def wrote(self, paths: Iterable[Path]) -> None:
        paths = list(paths)
        self.document["written"] = [str(path) for path in paths]
        for line in shortened(paths):
            self.print(line)

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        errors.print(f"Warning: {message}")

    def fail(self, kind: str, message: str, code: int, **more: Any) -> int:
        """Tell an error; returns its exit code."""
        errors.print(message)
        self.document["error"] = {"kind": kind, "message": message, "exit_code": code, **more}
        return code

    def finish(self) -> None:
        """Print the document, if it was asked for."""
        if self.as_json:
            document = {**self.document, "warnings": self.warnings} if self.warnings else self.document
            console.print(json.dumps(document, allow_nan=False, default=str))


def show(what: RenderableType) -> None:
    """On a terminal as wide as it is. Elsewhere a row of a table is one line, for grep and the like."""
    if isinstance(what, str) or console.is_terminal or "COLUMNS" in os.environ:
        console.print(what)
        return
    for line in console.render_lines(what, console.options.update(width=WIDEST), pad=False):
        console.print("".join(segment.text for segment in line).rstrip())


def shortened(paths: Iterable[Path]) -> list[str]:
    """A line for each file, and one for many of a kind, such as a sequence of frames."""
    lines = []
    for _, group in itertools.groupby(paths, key=lambda path: (path.parent, path.suffix)):
        files = list(group)
        many = len(files) > MAX_LINES
        lines += [f"{files[0]} ... {files[-1].name} ({len(files)} files)"] if many else [str(file) for file in files]
    return lines


@contextlib.contextmanager
def reporting(debug: bool = False, quiet: bool = False, as_json: bool = False) -> Iterator[Reporter]:
    """Around the body of every command."""
    reporter = Reporter(quiet, as_json)
    code = 0
    try:
        with _terminable():
            try:
                yield reporter
            except typer.Exit as stop:
                code = stop.exit_code
            except Unheard:
                raise
            except (Exception, KeyboardInterrupt) as error:
                if debug:
                    traceback.print_exc()
                code = _report_error(error, reporter)
        reporter.finish()
    except Unheard:
        code = UNHEARD
    if code:
        raise typer.Exit(code) from None


def _report_error(error: BaseException, reporter: Reporter) -> int:
    from toile.errors import InputError, SceneError, StepFailed, ToileError

    text = str(error)
    if isinstance(error, SceneError):
        return reporter.fail("scene", text, error.exit_code, problems=error.problems)
    if isinstance(error, InputError):
        return reporter.fail("input", text, error.exit_code)
    if isinstance(error, StepFailed):
        return reporter.fail("step", text, error.exit_code, frame=error.frame, time=error.time)
    if isinstance(error, ToileError):
        return reporter.fail("output", text, error.exit_code)
    if isinstance(error, Terminated):
        return reporter.fail("terminated", "Stopped.", TERMINATED)
    if isinstance(error, KeyboardInterrupt):
        return reporter.fail("interrupted", "Stopped.", INTERRUPTED)
    if isinstance(error, OSError) and error.filename is not None:  # what the system refuses is no fault of the code
        return reporter.fail("file", f"{error.filename}: {(error.strerror or text).lower()}.", ToileError.exit_code)
    advice = "This is a fault in Toile. --debug shows where it arose."
    return reporter.fail("internal", f"{type(error).__name__}: {text}\n{advice}", INTERNAL)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # signals do not arrive elsewhere
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _terminate(*_: object) -> NoReturn:
    raise Terminated
