"""Reports the results of a command as text or as one JSON document, and turns errors into messages and exit codes.

    with reporting(debug, quiet, as_json) as reporter:
        reporter.warn("the cloth is 300 m wide.")       # error stream; with --json also in the document
        reporter.print("4 frames")                      # output stream; nothing with --quiet or --json
        reporter.document["frames"] = 4                 # printed at the end, with --json

An error is `{"error": {"kind", "message", "exit_code"}}` in the document. Tracebacks are printed only with --debug.
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

from toile.cli.console import ReaderGone, console, error_console

if TYPE_CHECKING:
    from rich.console import RenderableType

# Exit codes beyond those of toile.errors. A command stopped by a signal exits with 128 plus its number.
NOT_MET, USAGE, INTERNAL, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 2, 70, 130, 141, 143

MAX_LINES = 8  # files of one type that are listed one by one
WIDEST = 10_000  # [columns]  of a table in a file


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a run as Ctrl-C does."""


class Reporter:
    """The output of one command: results, warnings, and the JSON document."""

    def __init__(self, quiet: bool = False, as_json: bool = False):
        self.quiet, self.as_json = quiet, as_json
        self.document: dict[str, Any] = {}
        self.warnings: list[str] = []

    def print(self, result: RenderableType) -> None:
        """Prints a result as text; nothing with --quiet or --json."""
        if not self.quiet and not self.as_json:
            show(result)

    def print_written(self, paths: Iterable[Path]) -> None:
        """Reports the files that were written."""
        paths = list(paths)
        self.document["written"] = [str(path) for path in paths]
        for line in shortened(paths):
            self.print(line)

    def warn(self, message: str) -> None:
        """Prints a warning, also with --quiet."""
        self.warnings.append(message)
        error_console.print(f"Warning: {message}")

    def fail(self, kind: str, message: str, code: int, **more: Any) -> int:
        """Reports an error, and returns its exit code."""
        error_console.print(message)
        self.document["error"] = {"kind": kind, "message": message, "exit_code": code, **more}
        return code

    def finish(self) -> None:
        """Prints the document, with --json."""
        if self.as_json:
            document = {**self.document, "warnings": self.warnings} if self.warnings else self.document
            console.print(json.dumps(document, allow_nan=False, default=str))


def show(result: RenderableType) -> None:
    """Prints a result in the width of the terminal. In pipes and files each row of a table is one line, for grep."""
    if isinstance(result, str) or console.is_terminal or "COLUMNS" in os.environ:
        console.print(result)
        return
    for line in console.render_lines(result, console.options.update(width=WIDEST), pad=False):
        console.print("".join(segment.text for segment in line).rstrip())


def shortened(paths: Iterable[Path]) -> list[str]:
    """Returns a line for each file, and one line for many files of the same type, such as a sequence of frames."""
    lines = []
    for _, group in itertools.groupby(paths, key=lambda path: (path.parent, path.suffix)):
        files = list(group)
        many = len(files) > MAX_LINES
        lines += [f"{files[0]} ... {files[-1].name} ({len(files)} files)"] if many else [str(file) for file in files]
    return lines


@contextlib.contextmanager
def reporting(debug: bool = False, quiet: bool = False, as_json: bool = False) -> Iterator[Reporter]:
    """Surrounds the body of every command: reports errors, prints the document, and sets the exit code."""
    reporter = Reporter(quiet, as_json)
    code = 0
    try:
        with _terminable():
            try:
                yield reporter
            except typer.Exit as stop:
                code = stop.exit_code
            except ReaderGone:
                raise
            except (Exception, KeyboardInterrupt) as error:
                if debug:
                    traceback.print_exc()
                code = _report_error(error, reporter)
        reporter.finish()
    except ReaderGone:
        code = BROKEN_PIPE
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
    if isinstance(error, OSError) and error.filename is not None:  # the system refuses a file, which is no bug
        return reporter.fail("file", f"{error.filename}: {(error.strerror or text).lower()}.", ToileError.exit_code)
    advice = "This is a bug in Toile. --debug shows the traceback."
    return reporter.fail("internal", f"{type(error).__name__}: {text}\n{advice}", INTERNAL)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Makes SIGTERM end the block as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # Python delivers signals to the main thread only
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _terminate(*_: object) -> NoReturn:
    raise Terminated
